"""Offset planning of a stream, with fake brokers."""

import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from ottla.errors import ConfigurationError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.spark.options.options import Subscription, read_options
from ottla.spark.source.offsets import OffsetRange
from ottla.spark.source.ranges import DataLossError
from ottla.spark.source.reader import RangePartition
from ottla.spark.source.stream import StreamReader
from ottla.spark.source.unlimited_stream import UnlimitedStreamReader

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
EVERYTHING = ReadAllAvailable()


class FakeBrokers:
    def __init__(self, offsets: dict[TopicPartition, tuple[int, int]]) -> None:
        self.offsets = offsets
        self.topic_ids = {"a": uuid.uuid4()}
        self.closed = False

    def partitions(self, _: Subscription, *, all_must_exist: bool = True) -> frozenset[TopicPartition]:
        return frozenset(self.offsets)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.offsets[tp][0] for tp in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.offsets[tp][1] for tp in partitions}

    def latest_from(self, partitions: Iterable[TopicPartition], _: Mapping[TopicPartition, int]) -> dict[Any, int]:
        return self.latest(partitions)

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(timestamps)

    def close(self) -> None:
        self.closed = True


R = TypeVar("R", bound=StreamReader)


def make_reader(offsets: dict[TopicPartition, tuple[int, int]], **options: str) -> tuple[StreamReader, FakeBrokers]:
    return reader_of(StreamReader, offsets, options)


def reader_of(
    kind: type[R], offsets: dict[TopicPartition, tuple[int, int]], options: Mapping[str, str]
) -> tuple[R, FakeBrokers]:
    subscribed = {} if "subscribePattern" in options else {"subscribe": "a"}
    arguments = {"kafka.bootstrap.servers": "h:1", **subscribed, "startingOffsets": "earliest", **options}
    reader, brokers = kind(read_options(arguments, streaming=True)), FakeBrokers(offsets)
    reader._brokers = brokers  # type: ignore[assignment]
    return reader, brokers


def planned(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[OffsetRange]:
    parts = reader.partitions(start, end)
    assert all(isinstance(part, RangePartition) for part in parts)
    return [part.range for part in parts if isinstance(part, RangePartition)]


def test_micro_batch_reads_all_available_offsets() -> None:
    reader, brokers = make_reader({A0: (2, 5), A1: (0, 3)})
    start = reader.initialOffset()
    assert start == {"a": {"0": 2, "1": 0}}
    end = reader.latestOffset(start, EVERYTHING)
    assert end == {"a": {"0": 5, "1": 3}}
    assert planned(reader, start, end) == [OffsetRange(A0, 2, 5), OffsetRange(A1, 0, 3)]
    assert reader.latestOffset(end, EVERYTHING) == end
    brokers.offsets[A0] = (2, 9)
    assert planned(reader, end, reader.latestOffset(end, EVERYTHING)) == [OffsetRange(A0, 5, 9)]


def test_max_offsets_per_trigger_limits_the_micro_batch() -> None:
    reader, _ = make_reader({A0: (0, 100), A1: (0, 50)}, maxOffsetsPerTrigger="30")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(30)
    assert reader.latestOffset(reader.initialOffset(), limit) == {"a": {"0": 20, "1": 10}}


def test_limited_micro_batch_reports_latest_offsets() -> None:
    reader, brokers = make_reader({A0: (0, 100), A1: (0, 50)}, maxOffsetsPerTrigger="30")
    assert reader.reportLatestOffset() is None
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert reader.reportLatestOffset() == {"a": {"0": 100, "1": 50}}
    brokers.offsets[A0] = (0, 120)
    reader.latestOffset(end, reader.getDefaultReadLimit())
    assert reader.reportLatestOffset() == {"a": {"0": 120, "1": 50}}


def test_available_now_has_a_fixed_end() -> None:
    reader, brokers = make_reader({A0: (0, 10)})
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(6))
    brokers.offsets[A0] = (0, 99)
    assert reader.latestOffset(end, ReadMaxRows(6)) == {"a": {"0": 10}}
    assert reader.latestOffset({"a": {"0": 10}}, ReadMaxRows(6)) == {"a": {"0": 10}}


def test_new_partition_is_read_from_the_beginning() -> None:
    reader, brokers = make_reader({A0: (0, 5)})
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    brokers.offsets[A1] = (0, 7)
    later = reader.latestOffset(end, EVERYTHING)
    assert planned(reader, end, later) == [OffsetRange(A1, 0, 7)]


def test_deleted_partition_is_a_data_loss() -> None:
    reader, brokers = make_reader({A0: (0, 5), A1: (0, 5)})
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    del brokers.offsets[A1]
    later = reader.latestOffset(end, EVERYTHING)
    with pytest.raises(DataLossError, match=r"a-1: no longer exist.*failOnDataLoss"):
        planned(reader, end, later)


def test_topic_that_was_created_again_is_a_data_loss(caplog: pytest.LogCaptureFixture) -> None:
    """Even if it has as many records as the deleted one had."""
    reader, brokers = make_reader({A0: (0, 5)})
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    brokers.topic_ids = {"a": uuid.uuid4()}
    brokers.offsets[A0] = (0, 9)
    with pytest.raises(DataLossError, match=r"a: it was deleted and created again.*failOnDataLoss"):
        reader.latestOffset(end, EVERYTHING)
    reader, brokers = make_reader({A0: (0, 5)}, failOnDataLoss="false")
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    brokers.topic_ids = {"a": uuid.uuid4()}
    assert reader.latestOffset(end, EVERYTHING) == end
    assert reader.latestOffset(end, EVERYTHING) == end
    assert caplog.text.count("a: it was deleted and created again") == 1


def test_topic_without_an_id_is_not_taken_for_a_new_one() -> None:
    reader, brokers = make_reader({A0: (0, 5)})
    brokers.topic_ids = {"a": uuid.UUID(int=0)}
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    brokers.topic_ids = {"a": uuid.uuid4()}
    assert reader.latestOffset(end, EVERYTHING) == end


def test_pattern_without_matching_topics_keeps_its_offsets() -> None:
    reader, brokers = make_reader({A0: (0, 5)}, subscribePattern="a")
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    offsets, brokers.offsets = brokers.offsets, {}
    assert reader.latestOffset(end, EVERYTHING) == end == {"a": {"0": 5}}
    brokers.offsets = offsets
    offsets[A0] = (0, 7)
    assert planned(reader, end, reader.latestOffset(end, EVERYTHING)) == [OffsetRange(A0, 5, 7)]


def test_starting_at_latest_plans_an_empty_first_micro_batch() -> None:
    reader, brokers = make_reader({A0: (0, 5)}, startingOffsets="latest")
    start = reader.initialOffset()
    brokers.offsets[A0] = (0, 8)
    assert reader.latestOffset(start, EVERYTHING) == start
    assert planned(reader, start, start) == []
    assert planned(reader, start, reader.latestOffset(start, EVERYTHING)) == [OffsetRange(A0, 5, 8)]


@pytest.mark.parametrize(
    ("bound", "empty"),
    [
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": '{"a": {"0": 3}}'}, False),
        ({"startingOffsets": '{"a": {"0": -2}}'}, False),
        ({"startingOffsets": '{"a": {"0": -1}}'}, True),
        ({"startingTimestamp": "9", "startingOffsetsByTimestampStrategy": "latest"}, True),
    ],
)
def test_only_a_start_that_may_change_has_an_empty_first_micro_batch(bound: dict[str, str], empty: bool) -> None:
    reader, brokers = make_reader({A0: (0, 5)}, **bound)
    start = reader.initialOffset()
    brokers.offsets[A0] = (0, 8)
    assert (reader.latestOffset(start, EVERYTHING) == start) is empty


def test_crash_in_the_empty_first_micro_batch_skips_no_offsets() -> None:
    _, brokers = make_reader({A0: (0, 5)}, startingOffsets="latest")
    first_end = {"a": {"0": 5}}
    brokers.offsets[A0] = (0, 8)
    reader, _ = make_reader(brokers.offsets, startingOffsets="latest")
    # Spark looks the beginning up again, plans the logged micro-batch, and continues at its end.
    assert planned(reader, reader.initialOffset(), first_end) == []
    assert planned(reader, first_end, reader.latestOffset(first_end, EVERYTHING)) == [OffsetRange(A0, 5, 8)]


def test_min_offsets_per_trigger_delays_up_to_max_trigger_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reader, brokers = make_reader({A0: (0, 5)}, minOffsetsPerTrigger="10", maxTriggerDelay="30s")
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    assert end == {"a": {"0": 5}}, "the first micro-batch does not wait"
    brokers.offsets[A0] = (0, 14)
    assert reader.latestOffset(end, EVERYTHING) == end
    brokers.offsets[A0] = (0, 15)
    assert reader.latestOffset(end, EVERYTHING) == {"a": {"0": 15}}
    brokers.offsets[A0] = (0, 16)
    now[0] += 29
    assert reader.latestOffset({"a": {"0": 15}}, EVERYTHING) == {"a": {"0": 15}}
    now[0] += 1
    assert reader.latestOffset({"a": {"0": 15}}, EVERYTHING) == {"a": {"0": 16}}


def test_min_offsets_per_trigger_of_zero_does_not_delay() -> None:
    """The Kafka connector accepts it, too."""
    reader, brokers = make_reader({A0: (0, 5)}, minOffsetsPerTrigger="0")
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    brokers.offsets[A0] = (0, 6)
    assert reader.latestOffset(end, EVERYTHING) == {"a": {"0": 6}}


def test_max_records_per_partition_splits_large_ranges() -> None:
    reader, _ = make_reader({A0: (0, 10)}, maxRecordsPerPartition="4")
    start = reader.initialOffset()
    assert [r.size for r in planned(reader, start, reader.latestOffset(start, EVERYTHING))] == [3, 3, 4]


def test_connections_are_not_pickled_and_stop_closes_them() -> None:
    reader, brokers = make_reader({A0: (0, 10)})
    assert reader.__getstate__()["_brokers"] is None
    reader.stop()
    assert brokers.closed


def test_stream_of_spark_4_0_continues_at_the_last_planned_end() -> None:
    """Spark 4.0 passes neither the position of the query nor a limit to latestOffset(), and calls it first."""
    reader, brokers = reader_of(UnlimitedStreamReader, {A0: (2, 5)}, {})
    end = reader.latestOffset()
    assert planned(reader, reader.initialOffset(), end) == [OffsetRange(A0, 2, 5)]
    assert reader.latestOffset() == end
    brokers.offsets = {A0: (2, 9), A1: (0, 2)}
    assert planned(reader, end, reader.latestOffset()) == [OffsetRange(A0, 5, 9), OffsetRange(A1, 0, 2)]


def test_start_of_a_stream_of_spark_4_0_is_not_after_its_end() -> None:
    reader, brokers = reader_of(UnlimitedStreamReader, {A0: (0, 5)}, {"startingOffsets": "latest"})
    end = reader.latestOffset()
    brokers.offsets = {A0: (0, 9), A1: (0, 3)}
    start = reader.initialOffset()
    assert start == end == {"a": {"0": 5}}
    assert not planned(reader, start, end)
    assert planned(reader, end, reader.latestOffset()) == [OffsetRange(A0, 5, 9), OffsetRange(A1, 0, 3)]


@pytest.mark.parametrize(
    ("starting", "ranges"), [("latest", []), ('{"a": {"0": -1, "1": 2}}', [OffsetRange(A1, 2, 3)])]
)
def test_repeated_first_micro_batch_of_spark_4_0_reads_the_same_offsets(
    starting: str, ranges: list[OffsetRange]
) -> None:
    """The end is in the offset log, and the start is looked up again."""
    reader, _ = reader_of(UnlimitedStreamReader, {A0: (0, 9), A1: (0, 7)}, {"startingOffsets": starting})
    assert planned(reader, reader.initialOffset(), {"a": {"0": 5, "1": 3}}) == ranges


def test_restarted_stream_of_spark_4_0_reads_from_the_checkpoint() -> None:
    reader, brokers = reader_of(UnlimitedStreamReader, {A0: (0, 9)}, {})
    assert planned(reader, {"a": {"0": 5}}, reader.latestOffset()) == [OffsetRange(A0, 5, 9)]
    pattern, brokers = reader_of(UnlimitedStreamReader, {}, {"subscribePattern": "a.*"})
    with pytest.raises(UnknownTopicOrPartitionError, match=r"no topic matches 'a\.\*'"):
        pattern.latestOffset()


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_limits_are_rejected_on_spark_4_0_with_the_remedy(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name} needs Spark 4\.2 .*'pyspark>=4\.2'"):
        reader_of(UnlimitedStreamReader, {A0: (0, 9)}, {name: "5"})
