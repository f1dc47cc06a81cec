"""Batch reads from brokers: planning of offset ranges, and reading one range in a Spark task.

Planning runs in a Python process of the driver, reading in Python workers of the executors; only `RangePartition` and
the reader itself are serialized.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.errors import OffsetOutOfRangeError
from ottla.spark.environment.python_workers import keep_what_is_loaded
from ottla.spark.source.arrow import record_batches
from ottla.spark.source.brokers import Brokers, read_range
from ottla.spark.source.offsets import OffsetRange, split
from ottla.spark.source.ranges import FilterPushdown, RangeReader, what_is_left


class RangePartition(InputPartition):
    """The range of one task, as Spark serializes it."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.range = offsets


class BrokerReader(RangeReader):
    """Base of batch and stream readers: tasks, and reading the range of a task."""

    def planned(self, ranges: Sequence[OffsetRange]) -> list[RangePartition]:
        """Return a task for each range; large ranges are split as the options say."""
        options = self.options
        return [RangePartition(r) for r in split(ranges, options.min_partitions, options.max_records_per_partition)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range as Arrow batches. Runs in a worker."""
        if not isinstance(partition, RangePartition):
            # If nothing was planned, Spark reads one partition that it makes itself.
            return iter(())
        keep_what_is_loaded()
        columns = what_is_left(partition.range, lambda left: read_range(left, self.options), self._lost)
        return record_batches(columns, partition.range.topic_partition, self.columns)

    def _lost(self, left: OffsetRange, _error: OffsetOutOfRangeError) -> int:
        tp = left.topic_partition
        with Brokers(self.options) as brokers:
            earliest = brokers.earliest([tp])[tp]
        self.report_loss(f"{tp}: offsets {left.start} to {left.end - 1} are not all there; it begins at {earliest}")
        return earliest


class BatchReader(BrokerReader, DataSourceReader):
    """Reader of `spark.read.format("ottla")`."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return a task per topic partition, or more with minPartitions."""
        with Brokers(self.options) as brokers:
            return self.planned(self.ranges(brokers))


class FilteredReader(FilterPushdown, BatchReader):
    """Batch reader for sessions with filter pushdown."""
