"""`option("ottla.log.dirs", …)`: batch reads straight from data directories, for backfills and audits.

No broker is involved; one may be writing at the same time. Executors must see the directories under the same paths.
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
from ottla.records import any_magic, legacy_message_set
from ottla.records.batch import MAGIC, BatchHeader, read_header
from ottla.records.column_decoder import ColumnDecoder
from ottla.records.columns import Columns
from ottla.records.decoder import decode_records
from ottla.spark.environment.python_workers import keep_what_is_loaded
from ottla.spark.options.offset_range_limit import Offsets
from ottla.spark.options.options import SourceOptions, Subscription
from ottla.spark.source.arrow import TARGET_BYTES, TARGET_ROWS, record_batches
from ottla.spark.source.offsets import OffsetRange, split
from ottla.spark.source.ranges import FilterPushdown, RangeReader, check_exists, what_is_left
from ottla.storage.log_reader import ReadOnlyLog, StoredBatch, offline_logs
from ottla.storage.producer_state import ABORT, read_marker


class Aborted(NamedTuple):
    """An aborted transaction: the producer's batches from `first` up to the marker are not visible."""

    producer_id: int
    first: int
    marker: int


class LogDirPartition(InputPartition):
    """The range of one task, as Spark serializes it."""

    def __init__(self, offsets: OffsetRange, directory: Path, aborted: Sequence[Aborted]) -> None:
        super().__init__(offsets)
        self.range = offsets
        self.directory = directory
        self.aborted = tuple(a for a in aborted if a.first < offsets.end and a.marker >= offsets.start)


class LogDirReader(RangeReader, DataSourceReader):
    """The reader of log directories, which needs no brokers."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return one task per topic partition, or more if minPartitions requires it."""
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
            # If nothing was planned, Spark reads a partition of its own.
            return iter(())
        keep_what_is_loaded()

        def lost(left: OffsetRange, error: OffsetOutOfRangeError) -> int:
            self.report_loss(f"{left.topic_partition}: {error}")
            return ReadOnlyLog(partition.directory, left.start, left.end).start

        read = partial(columns_of, partition=partition, headers=self.options.include_headers)
        columns = what_is_left(partition.range, read, lost)
        return record_batches(columns, partition.range.topic_partition, self.columns)


class FilteredLogDirReader(FilterPushdown, LogDirReader):
    """The same for a session that lets Python sources see filters."""


class LogFiles:
    """The logs in the directories. A planning `Lookup`, like the brokers."""

    def __init__(self, options: SourceOptions) -> None:
        self.logs = offline_logs([Path(path) for path in options.log_dirs])
        self._where = f"ottla.log.dirs {','.join(options.log_dirs)}"
        self._committed = _only_committed(options.kafka.get("isolation.level", "read_uncommitted"))
        self._transactions: dict[TopicPartition, tuple[int, list[Aborted]]] = {}

    def partitions(self, subscription: Subscription) -> frozenset[TopicPartition]:
        """Return the partitions of a subscription. Raises UnknownTopicOrPartitionError for missing ones."""
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
        """Return the high watermarks or, with read_committed, the first offsets of open transactions."""
        return {tp: self._outcomes(tp)[0] for tp in partitions}

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after each timestamp in ms, or None if a partition has no such record."""
        return {tp: self._at_time(tp, timestamp) for tp, timestamp in timestamps.items()}

    def _at_time(self, tp: TopicPartition, timestamp: int) -> int | None:
        # As brokers look it up: markers of transactions have a time, too, and what may not be read has none.
        log, end = self.logs[tp], self._outcomes(tp)[0]
        for batch in log.batches(log.start, end):
            if batch.header.max_timestamp < timestamp:
                continue
            decoder = ColumnDecoder()
            _add(decoder, batch, log.start, end)
            columns = decoder.drain()
            for row in range(columns.rows):
                if columns.timestamps[row] >= timestamp:
                    return columns.offsets[row]
        return None

    def aborted(self, tp: TopicPartition) -> list[Aborted]:
        """Return the transactions to leave out: none unless the reader uses read_committed."""
        return self._outcomes(tp)[1]

    def _outcomes(self, tp: TopicPartition) -> tuple[int, list[Aborted]]:
        outcomes_of_partition = self._transactions.get(tp)
        if outcomes_of_partition is None:
            log = self.logs[tp]
            outcomes_of_partition = self._transactions[tp] = outcomes(log) if self._committed else (log.end, [])
        return outcomes_of_partition


def _only_committed(level: str) -> bool:
    # No consumer is there to refuse it, and a slip of the pen would read what was rolled back.
    if level.strip().lower() not in ("read_uncommitted", "read_committed"):
        raise ConfigurationError(
            f"kafka.isolation.level: {level!r} is not allowed: expected read_uncommitted or read_committed"
        )
    return level.strip().lower() == "read_committed"


def outcomes(log: ReadOnlyLog) -> tuple[int, list[Aborted]]:
    """Return the last stable offset and the aborted transactions, computed from the markers as in a broker."""
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
    """Return the records of a range, decoded in place from the mapped files.

    Raises OffsetOutOfRangeError if the range begins with records that have been deleted.
    """
    tp, start, end = offset_range
    decoder = ColumnDecoder(headers=headers)
    for batch in ReadOnlyLog(partition.directory, start, end).batches(start, end):
        if batch.header.is_control or _is_hidden(batch.header, partition.aborted):
            continue
        try:
            any_magic.verify(batch.data, batch.position, batch.header)
            has_room = _add(decoder, batch, start, end)
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
            assert _add(decoder, batch, start, end), "an empty decoder has room for any batch"
        if decoder.row_count >= TARGET_ROWS or decoder.nbytes >= TARGET_BYTES:
            yield decoder.drain()
    if decoder.row_count:
        yield decoder.drain()


def _is_hidden(header: BatchHeader, aborted: Sequence[Aborted]) -> bool:
    return header.is_transactional and any(
        a.producer_id == header.producer_id and a.first <= header.base_offset < a.marker for a in aborted
    )


def _add(decoder: ColumnDecoder, batch: StoredBatch, start: int, end: int) -> bool:
    """Decode a batch of any format; False when the columns are full."""
    data, position, header = batch
    if header.magic == MAGIC:
        return decoder.add_batch(data, position, header, start, end)
    # One batch, however many messages a compressed one holds: part of a batch must not be added.
    converted = legacy_message_set.in_place(data[position : position + header.size_in_bytes])
    return decoder.add_batch(converted, 0, read_header(converted), start, end)
