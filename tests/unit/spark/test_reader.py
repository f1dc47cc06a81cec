"""Reading of offset ranges with deleted records, and lookup of partitions, with fake brokers."""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

from ottla.client.consumer.fetch import ranges
from ottla.errors import KafkaTimeoutError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.records.columns import BinaryColumn, Columns
from ottla.spark.options.options import SourceOptions, Subscription, read_options
from ottla.spark.source import reader
from ottla.spark.source.brokers import Brokers
from ottla.spark.source.offsets import OffsetRange
from ottla.spark.source.ranges import DataLossError
from ottla.spark.source.reader import BatchReader, RangePartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def options(**more: str) -> SourceOptions:
    return read_options({"kafka.bootstrap.servers": "h:1", "subscribe": "a", **more}, streaming=False)


def columns(start: int, end: int) -> Columns:
    numbers = pa.array(range(start, end), pa.int64())
    zeros = pa.array([0] * (end - start), pa.int32())
    values = BinaryColumn.from_arrow(pa.array([b"v"] * (end - start), pa.binary()))
    view = memoryview(numbers.buffers()[1]).cast("B").cast("q")
    return Columns(end - start, view, view, memoryview(zeros.buffers()[1]).cast("B").cast("i"), values, values)


class FakePartition:
    """A partition with the offsets `first` to `end`, of which some are deleted during the read."""

    def __init__(self, first: int, end: int, then: tuple[int, int]) -> None:
        self.first, self.end, self.then = first, end, then

    def read_range(self, offset_range: OffsetRange, _: SourceOptions) -> Iterator[Columns]:
        start = offset_range.start
        if not self.first <= start:
            raise OffsetOutOfRangeError
        while start < offset_range.end:
            if start >= self.end:
                self.first, self.end = self.then
                if not self.first <= start < self.end:
                    raise OffsetOutOfRangeError
            step = min(start + 2, offset_range.end)
            yield columns(start, step)
            start = step

    def __enter__(self) -> "FakePartition":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.first)


def read(
    monkeypatch: pytest.MonkeyPatch, partition: FakePartition, offset_range: OffsetRange, **more: str
) -> list[int]:
    monkeypatch.setattr(reader, "read_range", partition.read_range)
    monkeypatch.setattr(reader, "Brokers", lambda _: partition)
    batches = BatchReader(options(**more)).read(RangePartition(offset_range))
    return [n for batch in batches for n in batch.column("offset").to_pylist()]


def test_range_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, FakePartition(0, 10, (0, 10)), OffsetRange(A0, 3, 8)) == [3, 4, 5, 6, 7]


def test_records_deleted_while_reading_fail_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        DataLossError, match=r"a-0: offsets 4 to 9 do not all exist; the log starts at 7.*failOnDataLoss"
    ):
        read(monkeypatch, FakePartition(0, 4, (7, 10)), OffsetRange(A0, 0, 10))


def test_records_deleted_while_reading_are_skipped_without_fail_on_data_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    result = read(monkeypatch, FakePartition(0, 4, (7, 10)), OffsetRange(A0, 0, 10), failOnDataLoss="false")
    assert result == [0, 1, 2, 3, 7, 8, 9]


def test_truncated_log_ends_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    result = read(monkeypatch, FakePartition(0, 4, (0, 2)), OffsetRange(A0, 0, 10), failOnDataLoss="false")
    assert result == [0, 1, 2, 3]


def test_partition_without_range_reads_nothing() -> None:
    assert list(BatchReader(options()).read(None)) == []


class FakePlanner:
    def __init__(self, topics: dict[str, int], errors: Iterable[Exception] = ()) -> None:
        self._topics = topics
        self._errors = list(errors)
        self.topic_ids: dict[str, UUID] = {}

    def topics(self, pattern: str | None = None) -> set[str]:
        if self._errors:
            raise self._errors.pop(0)
        return {t for t in self._topics if pattern is None or Subscription(pattern=pattern).matches(t)}

    def partitions(self, topics: Iterable[str]) -> set[TopicPartition]:
        return {TopicPartition(t, p) for t in topics for p in range(self._topics[t])}


def brokers_with(monkeypatch: pytest.MonkeyPatch, planner: FakePlanner, **more: str) -> Brokers:
    monkeypatch.setattr(ranges, "Planner", lambda _: planner)
    return Brokers(options(**{"fetchOffset.retryIntervalMs": "0", **more}))


TOPICS = {"a": 2, "ab": 1, "__consumer_offsets": 1}


def test_subscriptions_resolve_to_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = brokers_with(monkeypatch, FakePlanner(TOPICS))
    assert brokers.partitions(Subscription(topics=("a",))) == {A0, A1}
    assert brokers.partitions(Subscription(assigned=frozenset({A1}))) == {A1}
    assert brokers.partitions(Subscription(pattern=".")) == {A0, A1, TopicPartition("ab", 0)}


@pytest.mark.parametrize(
    ("subscription", "message"),
    [
        (Subscription(topics=("a", "nope")), "subscribe: no such topic: nope .*h:1"),
        (Subscription(assigned=frozenset({TopicPartition("nope", 9)})), "assign: no such topic: nope"),
    ],
)
def test_missing_topic_is_named(monkeypatch: pytest.MonkeyPatch, subscription: Subscription, message: str) -> None:
    brokers = brokers_with(monkeypatch, FakePlanner(TOPICS))
    with pytest.raises(UnknownTopicOrPartitionError, match=message):
        brokers.partitions(subscription)
    brokers.partitions(subscription, all_must_exist=False)


def test_missing_partition_is_ignored_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = brokers_with(monkeypatch, FakePlanner(TOPICS))
    assert brokers.partitions(Subscription(assigned=frozenset({A0, TopicPartition("a", 9)}))) == {A0}
    assert "assign: ignoring partitions that do not exist: a-9" in caplog.text


def test_brokers_that_never_responded_are_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = brokers_with(monkeypatch, FakePlanner(TOPICS, [KafkaTimeoutError("no metadata")]))
    with pytest.raises(KafkaTimeoutError, match=r"kafka.bootstrap.servers h:1: no metadata.*default.api.timeout.ms"):
        brokers.partitions(Subscription(topics=("a",)))


def test_running_query_retries_brokers_that_have_responded(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = FakePlanner(TOPICS)
    brokers = brokers_with(monkeypatch, planner)
    brokers.partitions(Subscription(topics=("a",)))
    planner._errors = [KafkaTimeoutError("no metadata")] * 3
    assert brokers.partitions(Subscription(topics=("a",))) == {A0, A1}
    planner._errors = [KafkaTimeoutError("no metadata")] * 4
    with pytest.raises(KafkaTimeoutError, match="no metadata"):
        brokers.partitions(Subscription(topics=("a",)))


def test_failed_lookup_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Any] = [UnknownTopicOrPartitionError("first"), UnknownTopicOrPartitionError("second")]
    brokers = brokers_with(monkeypatch, FakePlanner(TOPICS, errors), **{"fetchOffset.numRetries": "2"})
    assert brokers.partitions(Subscription(topics=("a",))) == {A0, A1}
    errors = [UnknownTopicOrPartitionError(str(n)) for n in range(3)]
    brokers = brokers_with(monkeypatch, FakePlanner(TOPICS, errors), **{"fetchOffset.numRetries": "1"})
    with pytest.raises(UnknownTopicOrPartitionError, match="1"):
        brokers.partitions(Subscription(topics=("a",)))
