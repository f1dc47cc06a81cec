"""Reading a range of offsets from brokers in a Spark task, and planning those ranges for a batch.

Planning runs in a Python process beside the driver, reading in Python workers beside the executors; only
`RangePartition` and the reader itself travel between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.errors import OffsetOutOfRangeError
from ottla.spark.arrow import record_batches
from ottla.spark.brokers import Brokers, read_range
from ottla.spark.offsets import OffsetRange, split
from ottla.spark.python_workers import keep_what_is_loaded
from ottla.spark.ranges import FilterPushdown, RangeReader, what_is_left


class RangePartition(InputPartition):
    """One task's range, as Spark passes it around."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.range = offsets


class BrokerReader(RangeReader):
    """What batch and stream share: tasks, and reading the range of one."""

    def planned(self, ranges: Sequence[OffsetRange]) -> list[RangePartition]:
        """A task for each range, large ones split as the options say."""
        options = self.options
        return [RangePartition(r) for r in split(ranges, options.min_partitions, options.max_records_per_partition)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The records of one range as Arrow batches. Runs in a worker."""
        if not isinstance(partition, RangePartition):
            # Where nothing was planned, Spark reads a partition of its own.
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
    """`spark.read.format("ottla")`."""

    def partitions(self) -> Sequence[InputPartition]:
        """One task per topic partition, or more by minPartitions."""
        with Brokers(self.options) as brokers:
            return self.planned(self.ranges(brokers))


class FilteredReader(FilterPushdown, BatchReader):
    """The same for a session that lets Python sources see filters."""
