"""Fetch metrics: Kafka's group `consumer-fetch-manager-metrics`, of the client, its topics and partitions.

Nothing is recorded per record. Latency and throttle time are recorded when a response arrives; bytes and records, when
all data of the response has been returned or dropped; lag and lead, when the data of one partition has been.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.client.consumer.subscription import PartitionState
from ottla.metrics.metrics import Metrics
from ottla.metrics.sensor import Sensor
from ottla.metrics.stats import Avg, Max, Meter, Min, Stat
from ottla.model import TopicPartition

GROUP: Final = "consumer-fetch-manager-metrics"
CONSUMED: Final = ("bytes-consumed", "records-consumed", "fetch-size", "records-per-request")
NO_REPLICA: Final = -1


class ResponseTotals:
    """Bytes and records of one response by topic. They are added up until the data of all partitions has been returned
    or dropped.
    """

    __slots__ = ("parts", "topics")

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.topics: dict[str, tuple[int, int]] = {}


class Consumed(NamedTuple):
    """The sensors for consumed bytes and records, of the client or of one topic."""

    bytes: Sensor
    records: Sensor
    fetch_size: Sensor
    per_request: Sensor

    def record(self, nbytes: int, records: int) -> None:
        """Record the totals of one response."""
        self.bytes.record(nbytes)
        self.records.record(records)
        self.fetch_size.record(nbytes)
        self.per_request.record(records)


class MeasuredPartition(NamedTuple):
    """A partition, and the sensors of its lag and lead."""

    state: PartitionState
    lag: Sensor
    lead: Sensor


class FetchMetrics:
    """The fetch metrics of one consumer. `lag_of` returns the lag of a partition in records; None if unknown."""

    def __init__(self, metrics: Metrics, lag_of: Callable[[PartitionState], int | None]) -> None:
        self._metrics = metrics
        self._lag_of = lag_of
        self._latency = self._sensor("fetch-latency")
        self._add(self._latency, "fetch-latency-avg", "The average time of a fetch request in ms.", Avg())
        self._add(self._latency, "fetch-latency-max", "The maximum time of a fetch request in ms.", Max())
        rate = metrics.name("fetch-rate", GROUP, "The number of fetch requests per second.")
        self._latency.add_meter(
            Meter(rate, metrics.name("fetch-total", GROUP, "The number of fetch requests."), counts=True)
        )
        self._throttled = self._sensor("fetch-throttle-time")
        self._add(self._throttled, "fetch-throttle-time-avg", "The average throttle time in ms.", Avg())
        self._add(self._throttled, "fetch-throttle-time-max", "The maximum throttle time in ms.", Max())
        self._all = self._consumed("")
        self._lag = self._sensor("records-lag")
        self._add(self._lag, "records-lag-max", "The maximum lag of any partition in records.", Max())
        self._lead = self._sensor("records-lead")
        self._add(self._lead, "records-lead-min", "The minimum lead of any partition in records.", Min())
        self._partitions: dict[TopicPartition, MeasuredPartition] = {}
        self._topics: dict[str, Consumed] = {}

    def fetched(self, seconds: float, throttled_ms: int) -> None:
        """Record a response: its latency in seconds, and the throttle time in milliseconds."""
        self._latency.record(seconds * 1000)
        self._throttled.record(throttled_ms)

    def partition_drained(self, state: PartitionState, nbytes: int, records: int, totals: ResponseTotals) -> None:
        """Record that the data of one partition in a response was returned or dropped, and its current lag and lead."""
        before = totals.topics.get(state.tp.topic, (0, 0))
        totals.topics[state.tp.topic] = (before[0] + nbytes, before[1] + records)
        totals.parts -= 1
        if totals.parts == 0:
            self._record(totals)
        lag, lead = self._lag_of(state), lead_of(state)
        measured = self.partition_metrics(state)
        if lag is not None:
            measured.lag.record(lag)
        if lead is not None:
            measured.lead.record(lead)

    def partition_metrics(self, state: PartitionState) -> MeasuredPartition:
        """Return the sensors of a partition. The first call creates them."""
        return self._partitions.get(state.tp) or self._measure(state)

    def _record(self, totals: ResponseTotals) -> None:
        for topic, (nbytes, records) in totals.topics.items():
            self._of_topic(topic).record(nbytes, records)
        sums = zip(*totals.topics.values(), strict=True)
        self._all.record(*map(sum, sums))

    def update_assignment(self, states: Iterable[PartitionState]) -> None:
        """Remove the sensors of partitions and topics that are not in the new assignment, and of partitions that were
        revoked and assigned again.
        """
        now = {state.tp: state for state in states}
        for tp in [tp for tp, measured in self._partitions.items() if now.get(tp) is not measured.state]:
            self._forget(tp)
        for topic in self._topics.keys() - {tp.topic for tp in now}:
            del self._topics[topic]
            for name in CONSUMED:
                self._metrics.remove_sensor(f"topic.{topic}.{name}")

    def _measure(self, state: PartitionState) -> MeasuredPartition:
        tp = state.tp
        tags = {"topic": tp.topic, "partition": str(tp.partition)}
        lag = self._metrics.sensor(f"{tp}.records-lag", parents=[self._lag])
        lead = self._metrics.sensor(f"{tp}.records-lead", parents=[self._lead])
        for sensor, name, text, stat in (
            (lag, "records-lag-avg", "The average lag of the partition in records.", Avg()),
            (lag, "records-lag-max", "The maximum lag of the partition in records.", Max()),
            (lead, "records-lead-avg", "The average lead of the partition in records.", Avg()),
            (lead, "records-lead-min", "The minimum lead of the partition in records.", Min()),
        ):
            sensor.add(self._metrics.name(name, GROUP, text, **tags), stat)
        self._partitions[tp] = measured = MeasuredPartition(state, lag, lead)
        for name, text, gauge in (
            ("records-lag", "The lag of the partition in records.", lambda: nan_for_none(self._lag_of(state))),
            ("records-lead", "The lead of the partition in records.", lambda: nan_for_none(lead_of(state))),
            (
                "preferred-read-replica",
                "The replica that is fetched from instead of the leader, or -1.",
                lambda: nearest(state),
            ),
        ):
            self._metrics.add_metric(self._metrics.name(name, GROUP, text, **tags), gauge)
        return measured

    def _forget(self, tp: TopicPartition) -> None:
        del self._partitions[tp]
        tags = {"topic": tp.topic, "partition": str(tp.partition)}
        for sensor in ("records-lag", "records-lead"):
            self._metrics.remove_sensor(f"{tp}.{sensor}")
        for name in ("records-lag", "records-lead", "preferred-read-replica"):
            self._metrics.remove_metric(self._metrics.name(name, GROUP, **tags))

    # Creation of sensors

    def _sensor(self, name: str) -> Sensor:
        return self._metrics.sensor(name)

    def _add(self, sensor: Sensor, name: str, text: str, stat: Stat, **tags: str) -> None:
        sensor.add(self._metrics.name(name, GROUP, text, **tags), stat)

    def _of_topic(self, topic: str) -> Consumed:
        sensors = self._topics.get(topic)
        if sensors is None:
            sensors = self._topics[topic] = self._consumed(topic)
        return sensors

    def _consumed(self, topic: str) -> Consumed:
        """Create the sensors of a topic; those of the whole client if `topic` is empty."""
        of, tags = (f" of {topic}", {"topic": topic}) if topic else ("", {})
        sensors = Consumed(*(self._sensor(f"topic.{topic}.{name}") for name in CONSUMED))
        for sensor, name in zip(sensors, ("bytes-consumed", "records-consumed"), strict=False):
            what = name.partition("-")[0]
            rate = self._metrics.name(f"{name}-rate", GROUP, f"The number of {what} consumed per second{of}.", **tags)
            total = self._metrics.name(f"{name}-total", GROUP, f"The number of {what} consumed{of}.", **tags)
            sensor.add_meter(Meter(rate, total))
        self._add(sensors.fetch_size, "fetch-size-avg", f"The average number of bytes in a fetch{of}.", Avg(), **tags)
        self._add(sensors.fetch_size, "fetch-size-max", f"The maximum number of bytes in a fetch{of}.", Max(), **tags)
        text = f"The average number of records in a fetch{of}."
        self._add(sensors.per_request, "records-per-request-avg", text, Avg(), **tags)
        return sensors


def lead_of(state: PartitionState) -> int | None:
    """Return the lead: the number of records from the log start offset to the position. None if unknown."""
    if state.log_start_offset is None or state.position is None:
        return None
    return max(0, state.position - state.log_start_offset)


def nearest(state: PartitionState) -> int:
    """Return the preferred read replica of a partition; -1 if there is none."""
    return NO_REPLICA if state.preferred_replica is None else state.preferred_replica[0]


def nan_for_none(value: int | None) -> float:
    return float("nan") if value is None else value
