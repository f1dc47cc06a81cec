"""`option("ottla.log.dirs", …)`: batch reads directly from log directories, for backfills and audits.

They need no broker; a broker may write to the directories at the same time. The directories must have the same paths on
all executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.errors import ConfigurationError, CorruptBatchError, KafkaError, OffsetOutOfRangeError
from ottla.model import INTERNAL_TOPICS, TopicPartition
from ottla.records import any_magic
from ottla.records.batch import BatchHeader
from ottla.records.column_decoder import ColumnDecoder
from ottla.records.columns import Columns
from ottla.records.decoder import decode_records
from ottla.spark.environment.python_workers import freeze_loaded_modules
from ottla.spark.options.offset_range_limit import Offsets
from ottla.spark.options.options import SourceOptions, Subscription
from ottla.spark.source.arrow import TARGET_BYTES, TARGET_ROWS, record_batches
from ottla.spark.source.offsets import OffsetRange, split
from ottla.spark.source.ranges import FilterPushdown, RangeReader, check_exists, remaining_records
from ottla.storage.batch_columns import add_batch
from ottla.storage.log_reader import ReadOnlyLog, StoredBatch, offline_logs
from ottla.storage.producer_state import ABORT, read_marker


class Aborted(NamedTuple):
    """An aborted transaction: the producer's transactional batches from offset `first` up to the offset of the marker
    are not returned.
    """

    producer_id: int
    first: int
    marker: int


class LogDirPartition(InputPartition):
    """The range of one task, as Spark serializes it, with its directory and aborted transactions."""

    def __init__(self, offsets: OffsetRange, directory: Path, aborted: Sequence[Aborted]) -> None:
        super().__init__(offsets)
        self.range = offsets
        self.directory = directory
        self.aborted: tuple[Aborted, ...] = tuple(
            a for a in aborted if a.first < offsets.end and a.marker >= offsets.start
        )


class LogDirReader(RangeReader, DataSourceReader):
    """The reader of log directories. It needs no broker."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return one task per partition with offsets to read, or more if minPartitions requires it."""
        options = self.options
        logs = LogFiles(options)
        ranges = split(self.ranges(logs), options.min_partitions)
        return [self._partition(offset_range, logs) for offset_range in ranges]

    def _partition(self, offset_range: OffsetRange, logs: LogFiles) -> LogDirPartition:
        tp = offset_range.topic_partition
        return LogDirPartition(offset_range, logs.logs[tp].directory, logs.aborted(tp))

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Return the records of one range as Arrow batches. Runs in a worker."""
        if not isinstance(partition, LogDirPartition):
            # If there are no ranges, Spark creates a partition itself.
            return iter(())
        freeze_loaded_modules()

        def lost(left: OffsetRange, error: OffsetOutOfRangeError) -> int:
            self.report_loss(f"{left.topic_partition}: {error}")
            return ReadOnlyLog(partition.directory, left.start, left.end).start

        read = partial(columns_of, partition=partition, headers=self.options.include_headers)
        columns = remaining_records(partition.range, read, lost)
        return record_batches(columns, partition.range.topic_partition, self.columns)


class FilteredLogDirReader(FilterPushdown, LogDirReader):
    """The reader of log directories for reads with filter pushdown."""


class LogFiles:
    """The logs in the directories of ottla.log.dirs. Implements `TopicLookup`."""

    def __init__(self, options: SourceOptions) -> None:
        self.logs: dict[TopicPartition, ReadOnlyLog] = offline_logs([Path(path) for path in options.log_dirs])
        self._where = f"ottla.log.dirs {','.join(options.log_dirs)}"
        self._committed = _only_committed(options.kafka.get("isolation.level", "read_uncommitted"))
        self._transactions: dict[TopicPartition, tuple[int, list[Aborted]]] = {}

    def partitions(self, subscription: Subscription) -> frozenset[TopicPartition]:
        """Return the partitions that a subscription matches. A pattern does not match internal topics. Raises
        UnknownTopicOrPartitionError for a topic that does not exist.
        """
        partitions = self.logs.keys()
        if subscription.pattern is not None:
            return frozenset(
                tp for tp in partitions if subscription.matches(tp.topic) and tp.topic not in INTERNAL_TOPICS
            )
        assigned = subscription.assigned
        topics = {tp.topic for tp in assigned} if assigned is not None else set(subscription.topics or ())
        check_exists(topics, assigned, partitions, self._where)
        return frozenset(tp for tp in partitions if (tp.topic in topics if assigned is None else tp in assigned))

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the first offset of each partition."""
        return {tp: self.logs[tp].start for tp in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offset up to which each log can be read (`ReadOnlyLog.end`) or, with read_committed, its last
        stable offset.
        """
        return {tp: self._outcomes(tp)[0] for tp in partitions}

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record at or after each timestamp (ms since 1970); None if there is none."""
        return {tp: self._at_time(tp, timestamp) for tp, timestamp in timestamps.items()}

    def _at_time(self, tp: TopicPartition, timestamp: int) -> int | None:
        # As in brokers, transaction markers count as well, because they have a timestamp; records that may not be read
        # do not.
        log, end = self.logs[tp], self._outcomes(tp)[0]
        for batch in log.batches(log.start, end):
            if batch.header.max_timestamp < timestamp:
                continue
            decoder = ColumnDecoder()
            add_batch(decoder, batch, log.start, end)
            columns = decoder.drain()
            for row in range(columns.rows):
                if columns.timestamps[row] >= timestamp:
                    return columns.offsets[row]
        return None

    def aborted(self, tp: TopicPartition) -> list[Aborted]:
        """Return the aborted transactions of a partition; an empty list unless isolation.level is read_committed."""
        return self._outcomes(tp)[1]

    def _outcomes(self, tp: TopicPartition) -> tuple[int, list[Aborted]]:
        outcomes_of_partition = self._transactions.get(tp)
        if outcomes_of_partition is None:
            log = self.logs[tp]
            outcomes_of_partition = self._transactions[tp] = outcomes(log) if self._committed else (log.end, [])
        return outcomes_of_partition


def _only_committed(level: str) -> bool:
    # There is no consumer that would reject an invalid value, and after a typing error aborted records would be read.
    if level.strip().lower() not in ("read_uncommitted", "read_committed"):
        raise ConfigurationError(
            f"kafka.isolation.level: {level!r} is not allowed: expected read_uncommitted or read_committed"
        )
    return level.strip().lower() == "read_committed"


def outcomes(log: ReadOnlyLog) -> tuple[int, list[Aborted]]:
    """Return the last stable offset and the aborted transactions, computed from the batches and the transaction markers
    in the log.
    """
    begun: dict[int, int] = {}
    aborted = []
    for batch in log.batches(log.start, log.end):
        header = batch.header
        if header.is_control:
            first = begun.pop(header.producer_id, None)
            if first is not None and _is_abort(batch):
                aborted.append(Aborted(header.producer_id, first, header.base_offset))
        elif header.is_transactional:
            begun.setdefault(header.producer_id, header.base_offset)
    return min(begun.values(), default=log.end), aborted


def _is_abort(batch: StoredBatch) -> bool:
    markers = map(read_marker, decode_records(batch.data, batch.position, batch.header))
    return any(marker is not None and marker.type == ABORT for marker in markers)


def columns_of(offset_range: OffsetRange, partition: LogDirPartition, *, headers: bool) -> Iterator[Columns]:
    """Yield the records of a range as columns, decoded from the memory-mapped files, without those of the partition's
    aborted transactions.

    Raises OffsetOutOfRangeError if the start of the range was deleted, CorruptBatchError for a batch that cannot be
    decoded, CorruptMessageError if a segment has no valid batch at some position, and KafkaStorageError if segments
    disappear in each of several attempts to read them.
    """
    tp, start, end = offset_range
    decoder = ColumnDecoder(headers=headers)
    for batch in ReadOnlyLog(partition.directory, start, end).batches(start, end):
        if batch.header.is_control or _is_hidden(batch.header, partition.aborted):
            continue
        try:
            any_magic.verify(batch.data, batch.position, batch.header)
            has_room = add_batch(decoder, batch, start, end)
        except KafkaError as error:
            if decoder.row_count:
                yield decoder.drain()
            header = batch.header
            raise CorruptBatchError(
                f"{tp}, offset {header.base_offset}: the batch of offsets {header.base_offset} to {header.last_offset} "
                f"in {partition.directory} cannot be decoded: {error}",
                tp,
                max(header.base_offset, start),
                header.next_offset,
            ) from error
        if not has_room:
            yield decoder.drain()
            assert add_batch(decoder, batch, start, end), "an empty decoder has room for any batch"
        if decoder.row_count >= TARGET_ROWS or decoder.nbytes >= TARGET_BYTES:
            yield decoder.drain()
    if decoder.row_count:
        yield decoder.drain()


def _is_hidden(header: BatchHeader, aborted: Sequence[Aborted]) -> bool:
    return header.is_transactional and any(
        a.producer_id == header.producer_id and a.first <= header.base_offset < a.marker for a in aborted
    )
