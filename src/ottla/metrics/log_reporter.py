"""Metrics in the log, now and then."""

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
    """Writes every value that is neither 0 nor NaN to the logger `ottla.metrics`, each minute and at the end."""

    def __init__(self, interval: float = INTERVAL_SECONDS) -> None:
        self._interval = interval
        self._metrics: Metrics | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def configure(self, configs: Mapping[str, Any]) -> None:
        """There is nothing to set."""

    def init(self, metrics: Metrics) -> None:
        """Begin to write."""
        self._metrics = metrics
        self._thread = threading.Thread(target=self._run, name="ottla-metrics", daemon=True)
        self._thread.start()

    def metric_change(self, metric: KafkaMetric) -> None:
        """Values are looked up when they are written."""

    def metric_removal(self, metric: KafkaMetric) -> None:
        """As above."""

    def _run(self) -> None:
        while not self._closed.wait(self._interval):
            self.write()

    def write(self) -> None:
        """Write the values now."""
        assert self._metrics is not None
        for group, values in self._metrics.values().items():
            line = " ".join(f"{name}={value}" for name, value in sorted(values.items()) if _says_something(value))
            if line:
                log.info("%s %s", group, line)

    def close(self) -> None:
        """Write once more and end."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)
            self._thread = None
            self.write()


def _says_something(value: Any) -> bool:
    return not (isinstance(value, float) and (value != value or value == 0))
