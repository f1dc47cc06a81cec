"""The batch reader for brokers, and the base class that it shares with the stream reader: tasks for ranges, and reading
a range.

Planning runs in a Python process on the driver, reading in Python workers of the executors. Spark serializes the data
source, the reader and each `RangePartition` to get them there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.errors import OffsetOutOfRangeError
from ottla.spark.environment.python_workers import freeze_loaded_modules
from ottla.spark.source.arrow import record_batches
from ottla.spark.source.brokers import Brokers, read_range
from ottla.spark.source.offsets import OffsetRange, split
from ottla.spark.source.ranges import FilterPushdown, RangeReader, remaining_records


class RangePartition(InputPartition):
    """The range of one task, as Spark serializes it."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.range = offsets


class BrokerReader(RangeReader):
    """Base class of the batch reader and the stream reader: planning of tasks, and reading of a task's range."""

    def planned(self, ranges: Sequence[OffsetRange]) -> list[RangePartition]:
        """Return the tasks for ranges. Large ranges are split as minPartitions and maxRecordsPerPartition require."""
        options = self.options
        return [RangePartition(r) for r in split(ranges, options.min_partitions, options.max_records_per_partition)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Return the records of a task's range as Arrow batches. Runs in a worker."""
        if not isinstance(partition, RangePartition):
            # If nothing was planned, Spark reads one partition that it makes itself.
            return iter(())
        freeze_loaded_modules()
        columns = remaining_records(partition.range, lambda left: read_range(left, self.options), self._lost)
        return record_batches(columns, partition.range.topic_partition, self.columns)

    def _lost(self, left: OffsetRange, _error: OffsetOutOfRangeError) -> int:
        tp = left.topic_partition
        with Brokers(self.options) as brokers:
            earliest = brokers.earliest([tp])[tp]
        self.report_loss(f"{tp}: offsets {left.start} to {left.end - 1} do not all exist; the log starts at {earliest}")
        return earliest


class BatchReader(BrokerReader, DataSourceReader):
    """The reader of `spark.read.format("ottla")`."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return one task per partition with offsets to read, or more if minPartitions requires it."""
        with Brokers(self.options) as brokers:
            return self.planned(self.ranges(brokers))


class FilteredReader(FilterPushdown, BatchReader):
    """The batch reader for reads with filter pushdown."""
