"""Common parts of reads from brokers and from log directories: the ranges of a read, and continuing after lost records.

Each of Spark's Python processes that use the source imports this module, so it does not import the client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Set
from typing import TYPE_CHECKING, Final, Protocol

from ottla.errors import KafkaError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.records.columns import Columns
from ottla.spark.environment.python_workers import SentToWorkers
from ottla.spark.options.offset_range_limit import partition_list
from ottla.spark.options.options import SourceOptions, Subscription
from ottla.spark.source.arrow import column_names
from ottla.spark.source.filters import Bounds
from ottla.spark.source.offsets import Lookup, OffsetRange, batch_ranges, resolve

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter  # since Spark 4.1

log: Final = logging.getLogger("ottla.spark")


class TopicLookup(Lookup, Protocol):
    """The lookups for planning a read: partitions, and their offsets."""

    def partitions(self, subscription: Subscription) -> frozenset[TopicPartition]:
        """Return the partitions that the subscription matches at the moment."""
        ...


class DataLossError(KafkaError):
    """Records that should be read no longer exist."""


class FilterPushdown:
    """Mixin for readers that skip the offsets which a query's conditions exclude."""

    bounds: Bounds

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - the name is Spark's
        """Narrow the bounds by the filters, and return all of them, because Spark has to evaluate them as well."""
        self.bounds = self.bounds.narrowed_by(filters)
        return filters


class RangeReader(SentToWorkers):
    """Base class of the readers of brokers and log directories: options, ranges, and reporting of lost records."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.bounds: Bounds = Bounds()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows."""
        return self.options.columns or column_names(self.options.include_headers)

    def report_loss(self, message: str) -> None:
        """Raise DataLossError or, if failOnDataLoss is false, log a warning."""
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"{message}. Retention, a deleted or a recreated topic may be the cause; "
                "set failOnDataLoss to false to continue without them"
            )
        log.warning("%s (failOnDataLoss is false, so reading continues without the missing records)", message)

    def ranges(self, lookup: TopicLookup) -> list[OffsetRange]:
        """Return the ranges of a batch, narrowed by `bounds`."""
        options = self.options
        partitions = lookup.partitions(options.subscription)
        starts = resolve(options.starting, partitions, lookup, "startingOffsets")
        ends = resolve(options.ending, partitions, lookup, "endingOffsets")
        return self.bounds.cut(batch_ranges(starts, ends, lookup, self.report_loss), lookup)


def remaining_records(
    offset_range: OffsetRange,
    read: Callable[[OffsetRange], Iterator[Columns]],
    lost: Callable[[OffsetRange, OffsetOutOfRangeError], int],
) -> Iterator[Columns]:
    """Yield the records of a range. If records are missing, `lost` raises an error, or reports the loss and returns the
    offset at which the log starts now. Reading continues there if it is after the missing offset, and otherwise ends.
    """
    left = offset_range
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
            # A smaller end offset leaves nothing to read; a larger start offset does.
            left = left._replace(start=begin if begin > left.start else left.end)


def check_exists(
    topics: Set[str], assigned: Set[TopicPartition] | None, existing: Set[TopicPartition], where: str
) -> None:
    """Raise UnknownTopicOrPartitionError if a topic does not exist.

    For a partition that does not exist, a warning is logged, as by the connector.
    """
    missing = topics - {tp.topic for tp in existing}
    if missing:
        option = "subscribe" if assigned is None else "assign"
        raise UnknownTopicOrPartitionError(
            f"{option}: no such topic: {', '.join(sorted(missing))} ({where}); create it, or correct the name"
        )
    if assigned is not None and assigned - existing:
        log.warning(
            "assign: ignoring partitions that do not exist: %s (%s)", partition_list(assigned - existing), where
        )
