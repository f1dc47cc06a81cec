"""The metrics that every client has, and their reporters."""

from __future__ import annotations

import logging
from typing import Any, Final

from ottla.client.core.handshake import SOFTWARE
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.config.client import ClientConfig
from ottla.metrics.metric import MetricConfig, RecordingLevel
from ottla.metrics.metrics import Metrics

log = logging.getLogger("ottla.client")

APP_INFO: Final = "app-info"


def metrics_of(config: ClientConfig, kind: str, client_id: str, clock: Clock = SYSTEM_CLOCK) -> Metrics:
    """Create the metrics of a client, with the metrics that all clients have. `kind` is producer, consumer or
    admin-client.

    Names have the tag client-id; groups are Kafka's, such as `producer-metrics`.
    """
    reporters: tuple[Any, ...] = config.metric_reporters
    metrics = Metrics(
        MetricConfig(
            config.metrics_num_samples,
            config.metrics_sample_window_ms / 1000,
            RecordingLevel[config.metrics_recording_level],
        ),
        reporters=[_create(reporter, config, client_id) for reporter in reporters],
        clock=clock,
        namespace=f"kafka.{kind.replace('-', '.')}",
        tags={"client-id": client_id},
    )
    started = clock.now_ms()
    metrics.add_metric(metrics.name("version", APP_INFO, "The version of the client."), lambda: SOFTWARE[1])
    metrics.add_metric(metrics.name("commit-id", APP_INFO, "The name of the client library."), lambda: SOFTWARE[0])
    metrics.add_metric(
        metrics.name("start-time-ms", APP_INFO, "The start time of the client in ms since 1970."), lambda: started
    )
    return metrics


def _create(reporter: Any, config: ClientConfig, client_id: str) -> Any:
    """Create and configure a reporter. An exception that it raises makes the creation of the client fail, as in
    Kafka.
    """
    made = reporter() if isinstance(reporter, type) else reporter
    configure = getattr(made, "configure", None)
    if configure is not None:
        configure({**config.originals, "client.id": client_id})
    return made
