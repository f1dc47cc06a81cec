"""Reading a range of offsets in a Spark task, and planning those ranges for a batch.

Planning runs in a Python process beside the driver, reading in Python workers beside the executors; only
`RangePartition` and the reader itself travel between them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ottla.errors import KafkaError, OffsetOutOfRangeError
from ottla.model import TopicPartition
from ottla.records.columns import Columns
from ottla.spark.arrow import column_names, record_batches
from ottla.spark.brokers import Brokers, read_range
from ottla.spark.filters import Bounds
from ottla.spark.offsets import Lookup, OffsetRange, batch_ranges, resolve, split
from ottla.spark.options import SourceOptions, Subscription

log = logging.getLogger("ottla.spark")


class TopicLookup(Lookup, Protocol):
    """What planning a whole read asks: the topics, too."""

    def partitions(self, subscription: Subscription) -> frozenset[TopicPartition]:
        """The partitions that a subscription means now."""
        ...


class DataLossError(KafkaError):
    """Records that should be read are gone."""


class FilterPushdown:
    """Mixed into a reader: what a query's conditions leave out is not read."""

    bounds: Bounds

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - the name is Spark's
        """Take note of the filters, and give all of them back: Spark evaluates them, too."""
        self.bounds = self.bounds.of(filters)
        return filters


class RangePartition(InputPartition):
    """One task's range, as Spark passes it around."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.range = offsets


class RangeReader:
    """What batch and stream share: reading one range, and what to do where records are gone."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.bounds = Bounds()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows."""
        return self.options.columns or column_names(self.options.include_headers)

    def report_loss(self, message: str) -> None:
        """Raise, or warn and go on, as failOnDataLoss says."""
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"{message}. Retention, a deleted or a recreated topic may be the cause; "
                "set failOnDataLoss to false to read on without them"
            )
        log.warning("%s (failOnDataLoss is false, so reading goes on)", message)

    def ranges(self, lookup: TopicLookup) -> list[OffsetRange]:
        """What a batch reads, as the options say it and the topics hold it, without what filters leave out."""
        options = self.options
        partitions = lookup.partitions(options.subscription)
        starts = resolve(options.starting, partitions, lookup, "startingOffsets")
        ends = resolve(options.ending, partitions, lookup, "endingOffsets")
        return self.bounds.cut(batch_ranges(starts, ends, lookup, self.report_loss), lookup)

    def planned(self, ranges: Sequence[OffsetRange]) -> list[RangePartition]:
        """A task for each range, large ones split as the options say."""
        options = self.options
        return [RangePartition(r) for r in split(ranges, options.min_partitions, options.max_records_per_partition)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The records of one range as Arrow batches. Runs in a worker."""
        if not isinstance(partition, RangePartition):
            # Where nothing was planned, Spark reads a partition of its own.
            return iter(())
        columns = what_is_left(partition.range, lambda left: read_range(left, self.options), self._lost)
        return record_batches(columns, partition.range.topic_partition, self.columns)

    def _lost(self, left: OffsetRange, _error: OffsetOutOfRangeError) -> int:
        tp = left.topic_partition
        with Brokers(self.options) as brokers:
            earliest = brokers.earliest([tp])[tp]
        self.report_loss(f"{tp}: offsets {left.start} to {left.end - 1} are not all there; it begins at {earliest}")
        return earliest


def what_is_left(
    wanted: OffsetRange,
    read: Callable[[OffsetRange], Iterator[Columns]],
    lost: Callable[[OffsetRange, OffsetOutOfRangeError], int],
) -> Iterator[Columns]:
    """Read a range. Where records are gone, `lost` reports that (or raises) and tells where the log begins now."""
    left = wanted
    while left.start < left.end:
        try:
            for columns in read(left):
                if columns.rows:
                    left = left._replace(start=columns.offsets[columns.rows - 1] + 1)
                yield columns
            return
        except OffsetOutOfRangeError as error:
            # Deleted between planning and reading, by retention or with the topic.
            begin = lost(left, error)
            # An end that went back leaves nothing to read; a moved beginning does.
            left = left._replace(start=begin if begin > left.start else left.end)


class BatchReader(RangeReader, DataSourceReader):
    """`spark.read.format("ottla")`."""

    def partitions(self) -> Sequence[InputPartition]:
        """One task per topic partition, or more by minPartitions."""
        with Brokers(self.options) as brokers:
            return self.planned(self.ranges(brokers))


class FilteredReader(FilterPushdown, BatchReader):
    """The same for a session that lets Python sources see filters."""
