"""Filter pushdown: offset ranges without the offsets that a query's conditions on topic, partition, offset and
timestamp exclude.

There is no I/O except lookups by timestamp. Spark evaluates all filters again, so ranges may contain rows that do not
match, but must not lack rows that do.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource

from ottla.spark.source.offsets import Lookup, OffsetRange

if TYPE_CHECKING:
    # Spark 4.0 has no filters, and passes none.
    from pyspark.sql.datasource import Filter

EVER: Final = 1 << 63


@dataclass(frozen=True)
class Bounds:
    """Bounds that contain all rows which match the conditions so far. `behind_offset` is exclusive."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    behind_offset: int = EVER
    first_time_ms: int | None = None
    """A lower bound of the timestamps of matching rows in milliseconds since 1970; None for no bound. There is no upper
    bound, because records need not be in the order of timestamps.
    """

    def narrowed_by(self, filters: Iterable[Filter]) -> Bounds:
        """Return these bounds, narrowed by further conditions. Conditions that do not narrow them are ignored, such as
        those on other columns.
        """
        bounds = self
        for one in filters:
            bounds = bounds._and(one)
        return bounds

    def _and(self, one: Filter) -> Bounds:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        narrow = _COLUMNS.get(attribute[0].lower()) if len(attribute) == 1 else None
        return self if narrow is None else narrow(self, one)

    def cut(self, ranges: Iterable[OffsetRange], lookup: Lookup) -> list[OffsetRange]:
        """Return the ranges without the offsets that the bounds exclude. `first_time_ms` excludes the offsets before a
        partition's first record of that time or later; all if there is none.
        """
        remaining = [
            OffsetRange(tp, max(start, self.first_offset), min(end, self.behind_offset))
            for tp, start, end in ranges
            if (self.topics is None or tp.topic in self.topics)
            and (self.partitions is None or tp.partition in self.partitions)
        ]
        remaining = [offset_range for offset_range in remaining if offset_range.size > 0]
        return remaining if self.first_time_ms is None else _from_time(remaining, self.first_time_ms, lookup)


def _from_time(ranges: list[OffsetRange], first_ms: int, lookup: Lookup) -> list[OffsetRange]:
    begins = lookup.at_times({offset_range.topic_partition: first_ms for offset_range in ranges})
    remaining = []
    for tp, start, end in ranges:
        begin = begins.get(tp)
        if begin is not None and begin < end:
            remaining.append(OffsetRange(tp, max(start, begin), end))
    return remaining


def _values(one: Filter) -> frozenset[Any] | None:
    """Return the values that a condition allows for its column, if it lists them; otherwise None."""
    match one:
        case datasource.EqualTo():
            return frozenset([one.value])
        case datasource.In():
            return frozenset(one.value)
        case _:
            return None


def _topic(bounds: Bounds, one: Filter) -> Bounds:
    named = _values(one)
    if named is None:
        return bounds
    return replace(bounds, topics=named if bounds.topics is None else bounds.topics & named)


def _partition(bounds: Bounds, one: Filter) -> Bounds:
    named = _values(one)
    if named is None:
        return bounds
    return replace(bounds, partitions=named if bounds.partitions is None else bounds.partitions & named)


def _offset(bounds: Bounds, one: Filter) -> Bounds:
    low, behind = bounds.first_offset, bounds.behind_offset
    match one:
        case datasource.EqualTo():
            low, behind = max(low, one.value), min(behind, one.value + 1)
        case datasource.In() if values := [value for value in one.value if value is not None]:  # no offset equals null
            low, behind = max(low, min(values)), min(behind, max(values) + 1)
        case datasource.GreaterThan():
            low = max(low, one.value + 1)
        case datasource.GreaterThanOrEqual():
            low = max(low, one.value)
        case datasource.LessThan():
            behind = min(behind, one.value)
        case datasource.LessThanOrEqual():
            behind = min(behind, one.value + 1)
    return replace(bounds, first_offset=low, behind_offset=behind)


def _timestamp(bounds: Bounds, one: Filter) -> Bounds:
    if not isinstance(
        one, (datasource.EqualTo, datasource.GreaterThan, datasource.GreaterThanOrEqual)
    ) or not isinstance(one.value, dt.datetime):
        return bounds
    if one.value.tzinfo is None:
        return bounds
    millis = int(one.value.timestamp() * 1000) - 1  # one less: the timestamp may have been rounded
    if millis < 0:
        # Records may be older than 1970 (-1 without a timestamp), and brokers reject such timestamps.
        return bounds
    return replace(bounds, first_time_ms=max(millis, bounds.first_time_ms or 0))


_COLUMNS: Final[dict[str, Callable[[Bounds, Filter], Bounds]]] = {
    "topic": _topic,
    "partition": _partition,
    "offset": _offset,
    "timestamp": _timestamp,
}
"""By column: the function that narrows the bounds by a condition on that column."""
