"""Metrics of polling and of the membership: Kafka's `consumer-metrics` and `consumer-coordinator-metrics`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla.metrics.metric import MetricConfig
from ottla.metrics.metrics import Metrics
from ottla.metrics.sensor import Sensor
from ottla.metrics.stats import Avg, CumulativeCount, CumulativeSum, Max, Meter, Rate, Stat, WindowedCount

GROUP: Final = "consumer-metrics"
COORDINATOR_GROUP: Final = "consumer-coordinator-metrics"
NEVER: Final = -1
SECONDS_PER_HOUR: Final = 3600.0


class PollMetrics:
    """Metrics of poll(), commit() and committed() calls. Used by one thread at a time: the polling thread, or the event
    loop while the polling thread waits.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._between = metrics.sensor("time-between-poll")
        for name, text, stat in (
            ("time-between-poll-avg", "The average time between two polls in ms.", Avg()),
            ("time-between-poll-max", "The maximum time between two polls in ms.", Max()),
        ):
            self._between.add(metrics.name(name, GROUP, text), stat)
        self._idle = metrics.sensor("poll-idle-ratio")
        self._idle.add(metrics.name("poll-idle-ratio-avg", GROUP, "The fraction of time that poll() takes."), Avg())
        self._times = {
            "commit-sync-time": self._sum("commit-sync-time-ns-total", "The time in commit() in ns."),
            "committed-time": self._sum("committed-time-ns-total", "The time in committed() in ns."),
        }
        self._began: float | None = None
        self._ended: float | None = None
        metrics.add_metric(
            metrics.name("last-poll-seconds-ago", GROUP, "Seconds since the last poll; -1 before the first."),
            lambda: NEVER if self._began is None else int(time.monotonic() - self._began),
        )

    def _sum(self, name: str, text: str) -> Sensor:
        sensor = self._metrics.sensor(name)
        sensor.add(self._metrics.name(name, GROUP, text), CumulativeSum())
        return sensor

    def begin(self) -> None:
        """Record the start of a poll."""
        now = time.monotonic()
        if self._began is not None and self._ended is not None:
            between = now - self._began
            self._between.record(between * 1000, now)
            self._idle.record((self._ended - self._began) / between if between > 0 else 0.0, now)
        self._began, self._ended = now, None

    def end(self) -> None:
        """Record the end of a poll."""
        self._ended = time.monotonic()

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Context manager: measure the time of a call. `what` is "commit-sync-time" or "committed-time"."""
        began = time.perf_counter_ns()
        try:
            yield
        finally:
            self._times[what].record(time.perf_counter_ns() - began)


class CoordinatorMetrics:
    """Metrics of group membership and commits. Event loop only."""

    def __init__(self, metrics: Metrics, assigned: Callable[[], int]) -> None:
        self._metrics = metrics
        self.commits = self._timed("commit-latency", "commit", "commit")
        self.joins = self._timed("join-time", "join", "JoinGroup request")
        self.syncs = self._timed("sync-time", "sync", "SyncGroup request")
        self.heartbeats = metrics.sensor("heartbeat")
        self._add(self.heartbeats, "heartbeat-response-time-max", "The maximum time of a heartbeat in ms.", Max())
        self._count(self.heartbeats, "heartbeat", "heartbeat")
        self.rebalances = metrics.sensor("rebalance")
        self._latency(self.rebalances, "rebalance-latency", "rebalance")
        self._add(self.rebalances, "rebalance-latency-total", "The total time of rebalances in ms.", CumulativeSum())
        self._per_hour(self.rebalances, "rebalance", "rebalances that succeeded")
        self.failures = metrics.sensor("failed-rebalance")
        self._per_hour(self.failures, "failed-rebalance", "rebalances that failed")
        self._listeners = {
            f"on_partitions_{what}": self._callback(f"partitions-{what}-latency", f"call of on_partitions_{what}")
            for what in ("revoked", "assigned", "lost")
        }
        self._last_heartbeat: float | None = None
        self._last_rebalance: float | None = None
        self._began: float | None = None
        self._gauge("assigned-partitions", "The number of assigned partitions.", assigned)
        self._gauge(
            "last-heartbeat-seconds-ago",
            "Seconds since the last heartbeat response; -1 before the first.",
            lambda: seconds_since(self._last_heartbeat),
        )
        self._gauge(
            "last-rebalance-seconds-ago",
            "Seconds since the last rebalance; -1 before the first.",
            lambda: seconds_since(self._last_rebalance),
        )

    def record_heartbeat(self, seconds: float) -> None:
        """Record the response to a heartbeat, and its latency in seconds."""
        self._last_heartbeat = time.monotonic()
        self.heartbeats.record(seconds * 1000)

    def rebalance_began(self) -> None:
        """Record the start of a rebalance. Further calls before its end have no effect."""
        self._began = self._began or time.monotonic()

    def rebalance_ended(self) -> None:
        """Record the end of a rebalance."""
        self._last_rebalance = time.monotonic()
        if self._began is not None:
            self.rebalances.record((self._last_rebalance - self._began) * 1000)
            self._began = None

    def rebalance_failed(self) -> None:
        """Record a failed rebalance."""
        self.failures.record()

    def listener(self, method: str, seconds: float) -> None:
        """Record the time in seconds that a method of the listener took."""
        self._listeners[method].record(seconds * 1000)

    # Creation of sensors

    def _timed(self, latency: str, count: str, what: str) -> Sensor:
        sensor = self._metrics.sensor(latency)
        self._latency(sensor, latency, what)
        self._count(sensor, count, what)
        return sensor

    def _callback(self, name: str, what: str) -> Sensor:
        sensor = self._metrics.sensor(name)
        self._latency(sensor, name, what)
        return sensor

    def _latency(self, sensor: Sensor, name: str, what: str) -> None:
        self._add(sensor, f"{name}-avg", f"The average time of a {what} in ms.", Avg())
        self._add(sensor, f"{name}-max", f"The maximum time of a {what} in ms.", Max())

    def _count(self, sensor: Sensor, name: str, what: str) -> None:
        rate = self._metrics.name(f"{name}-rate", COORDINATOR_GROUP, f"The number of {what}s per second.")
        total = self._metrics.name(f"{name}-total", COORDINATOR_GROUP, f"The number of {what}s.")
        sensor.add_meter(Meter(rate, total, counts=True))

    def _per_hour(self, sensor: Sensor, name: str, what: str) -> None:
        text = f"The number of {what}"
        self._add(sensor, f"{name}-rate-per-hour", f"{text} per hour.", HourlyRate())
        self._add(sensor, f"{name}-total", f"{text}.", CumulativeCount())

    def _add(self, sensor: Sensor, name: str, text: str, stat: Stat) -> None:
        sensor.add(self._metrics.name(name, COORDINATOR_GROUP, text), stat)

    def _gauge(self, name: str, text: str, gauge: Callable[[], int]) -> None:
        self._metrics.add_metric(self._metrics.name(name, COORDINATOR_GROUP, text), gauge)


class HourlyRate(Rate):
    """The rate of events per hour."""

    def __init__(self) -> None:
        super().__init__(WindowedCount())

    def measure(self, config: MetricConfig, now: float) -> float:
        return super().measure(config, now) * SECONDS_PER_HOUR


def seconds_since(moment: float | None) -> int:
    """Return the whole seconds since `moment` on the monotonic clock; -1 for None."""
    return NEVER if moment is None else int(time.monotonic() - moment)
