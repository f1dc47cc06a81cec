"""A metrics reporter that logs the metrics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.metrics.metric import KafkaMetric

if TYPE_CHECKING:
    from ottla.metrics.metrics import Metrics

log = logging.getLogger("ottla.metrics")

INTERVAL_SECONDS: Final = 60.0
JOIN_SECONDS: Final = 5.0


class LoggingReporter:
    """Logs all metrics whose values are not 0.0 or NaN, every `interval` seconds and when the reporter is closed.
    The logger is `ottla.metrics`, the level INFO.
    """

    def __init__(self, interval: float = INTERVAL_SECONDS) -> None:
        self._interval = interval
        self._metrics: Metrics | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Do nothing: the reporter has no configs."""

    def init(self, metrics: Metrics) -> None:
        """Start the thread that logs the metrics."""
        self._metrics = metrics
        self._thread = threading.Thread(target=self._run, name="ottla-metrics", daemon=True)
        self._thread.start()

    def metric_change(self, metric: KafkaMetric) -> None:
        """Do nothing, because all metrics are read when they are logged."""

    def metric_removal(self, metric: KafkaMetric) -> None:
        """Do nothing, because all metrics are read when they are logged."""

    def _run(self) -> None:
        while not self._closed.wait(self._interval):
            self.write()

    def write(self) -> None:
        """Log the values that are not 0.0 or NaN: one line for each group that has such values, with the tags
        of `Metrics`.
        """
        assert self._metrics is not None
        tags = "".join(f" {key}={value}" for key, value in self._metrics.tags.items())
        for group, values in self._metrics.values().items():
            line = " ".join(f"{name}={value}" for name, value in sorted(values.items()) if _is_significant(value))
            if line:
                log.info("%s%s %s", group, tags, line)

    def close(self) -> None:
        """Stop the thread, and log the values once more."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)
            self._thread = None
            self.write()


def _is_significant(value: Any) -> bool:
    return not (isinstance(value, float) and (value != value or value == 0))
