"""Reading a range when records are gone, over brokers that are a dictionary."""

from collections.abc import Iterable, Iterator
from typing import Any

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


class Held:
    """A partition that holds `first` to `end`, and loses some of it while it is read."""

    def __init__(self, first: int, end: int, then: tuple[int, int]) -> None:
        self.first, self.end, self.then = first, end, then

    def read_range(self, expected: OffsetRange, _: SourceOptions) -> Iterator[Columns]:
        start = expected.start
        if not self.first <= start:
            raise OffsetOutOfRangeError
        while start < expected.end:
            if start >= self.end:
                self.first, self.end = self.then
                if not self.first <= start < self.end:
                    raise OffsetOutOfRangeError
            step = min(start + 2, expected.end)
            yield columns(start, step)
            start = step

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.first)


def read(monkeypatch: pytest.MonkeyPatch, held: Held, expected: OffsetRange, **more: str) -> list[int]:
    monkeypatch.setattr(reader, "read_range", held.read_range)
    monkeypatch.setattr(reader, "Brokers", lambda _: held)
    batches = BatchReader(options(**more)).read(RangePartition(expected))
    return [n for batch in batches for n in batch.column("offset").to_pylist()]


def test_a_range_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, Held(0, 10, (0, 10)), OffsetRange(A0, 3, 8)) == [3, 4, 5, 6, 7]


def test_records_deleted_while_reading_fail_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        DataLossError, match=r"a-0: offsets 4 to 9 do not all exist; the log starts at 7.*failOnDataLoss"
    ):
        read(monkeypatch, Held(0, 4, (7, 10)), OffsetRange(A0, 0, 10))


def test_or_are_left_out_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    actual = read(monkeypatch, Held(0, 4, (7, 10)), OffsetRange(A0, 0, 10), failOnDataLoss="false")
    assert actual == [0, 1, 2, 3, 7, 8, 9]


def test_a_log_that_went_back_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    actual = read(monkeypatch, Held(0, 4, (0, 2)), OffsetRange(A0, 0, 10), failOnDataLoss="false")
    assert actual == [0, 1, 2, 3]


def test_nothing_planned_is_nothing_read() -> None:
    assert list(BatchReader(options()).read(None)) == []


class FakePlanner:
    def __init__(self, topics: dict[str, int], errors: Iterable[Exception] = ()) -> None:
        self._topics = topics
        self._errors = list(errors)

    def topics(self, pattern: str | None = None) -> set[str]:
        if self._errors:
            raise self._errors.pop(0)
        return {t for t in self._topics if pattern is None or Subscription(pattern=pattern).matches(t)}

    def partitions(self, topics: Iterable[str]) -> set[TopicPartition]:
        return {TopicPartition(t, p) for t in topics for p in range(self._topics[t])}


def looking(monkeypatch: pytest.MonkeyPatch, planner: FakePlanner, **more: str) -> Brokers:
    monkeypatch.setattr(ranges, "Planner", lambda _: planner)
    return Brokers(options(**{"fetchOffset.retryIntervalMs": "0", **more}))


TOPICS = {"a": 2, "ab": 1, "__consumer_offsets": 1}


def test_subscriptions_mean_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    actual = looking(monkeypatch, FakePlanner(TOPICS))
    assert actual.partitions(Subscription(topics=("a",))) == {A0, A1}
    assert actual.partitions(Subscription(assigned=frozenset({A1}))) == {A1}
    assert actual.partitions(Subscription(pattern=".")) == {A0, A1, TopicPartition("ab", 0)}


@pytest.mark.parametrize(
    ("subscription", "message"),
    [
        (Subscription(topics=("a", "nope")), "subscribe: no such topic: nope .*h:1"),
        (Subscription(assigned=frozenset({TopicPartition("nope", 9)})), "assign: no such topic: nope"),
    ],
)
def test_what_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, subscription: Subscription, message: str) -> None:
    actual = looking(monkeypatch, FakePlanner(TOPICS))
    with pytest.raises(UnknownTopicOrPartitionError, match=message):
        actual.partitions(subscription)
    actual.partitions(subscription, all_must_exist=False)


def test_a_partition_that_is_not_there_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    actual = looking(monkeypatch, FakePlanner(TOPICS))
    assert actual.partitions(Subscription(assigned=frozenset({A0, TopicPartition("a", 9)}))) == {A0}
    assert "assign: ignoring partitions that do not exist: a-9" in caplog.text


def test_brokers_that_never_answered_are_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    actual = looking(monkeypatch, FakePlanner(TOPICS, [KafkaTimeoutError("no metadata")]))
    with pytest.raises(KafkaTimeoutError, match=r"kafka.bootstrap.servers h:1: no metadata.*default.api.timeout.ms"):
        actual.partitions(Subscription(topics=("a",)))


def test_a_running_query_waits_for_brokers_that_have_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = FakePlanner(TOPICS)
    actual = looking(monkeypatch, planner)
    actual.partitions(Subscription(topics=("a",)))
    planner._errors = [KafkaTimeoutError("no metadata")] * 3
    assert actual.partitions(Subscription(topics=("a",))) == {A0, A1}
    planner._errors = [KafkaTimeoutError("no metadata")] * 4
    with pytest.raises(KafkaTimeoutError, match="no metadata"):
        actual.partitions(Subscription(topics=("a",)))


def test_a_look_up_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Any] = [UnknownTopicOrPartitionError("first"), UnknownTopicOrPartitionError("second")]
    actual = looking(monkeypatch, FakePlanner(TOPICS, errors), **{"fetchOffset.numRetries": "2"})
    assert actual.partitions(Subscription(topics=("a",))) == {A0, A1}
    errors = [UnknownTopicOrPartitionError(str(n)) for n in range(3)]
    actual = looking(monkeypatch, FakePlanner(TOPICS, errors), **{"fetchOffset.numRetries": "1"})
    with pytest.raises(UnknownTopicOrPartitionError, match="1"):
        actual.partitions(Subscription(topics=("a",)))
