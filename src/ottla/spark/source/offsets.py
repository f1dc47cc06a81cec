"""Planning of reads: computes ranges from limits and from the current offsets of partitions. It uses neither network
nor Spark nor clock.

Offsets are looked up through `Lookup`, so that tests can use dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from ottla.errors import ConfigurationError
from ottla.model import TopicPartition
from ottla.spark.options.offset_range_limit import (
    EARLIEST_MARK,
    LATEST_MARK,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    OffsetRangeLimit,
    Offsets,
    Specific,
    partition_list,
)

ReportLoss = Callable[[str], None]
"""Called with a message if records are missing. It raises DataLossError or logs a warning, depending on
failOnDataLoss.
"""


class Lookup(Protocol):
    """Lookups of offsets for planning."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the first offset of each partition."""
        ...

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offset up to which each partition can be read."""
        ...

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record at or after each timestamp (ms since 1970); None if there is none."""
        ...


class OffsetRange(NamedTuple):
    """A range of offsets of a partition, from `start` inclusive to `end` exclusive. Each Spark task reads one."""

    topic_partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets. There may be fewer records, because of compaction and transaction markers."""
        return self.end - self.start


def resolve(bound: OffsetRangeLimit, partitions: frozenset[TopicPartition], lookup: Lookup, option: str) -> Offsets:
    """Return an offset for each partition. Raises ConfigurationError, which names the option, if `bound` does not give
    an offset for each, or names other partitions.

    `option`: startingOffsets or endingOffsets. The names of the options with timestamps are derived from it.
    """
    match bound:
        case Earliest():
            return lookup.earliest(partitions)
        case Latest():
            return lookup.latest(partitions)
        case Specific(offsets):
            return _resolve_specific(offsets, partitions, lookup, option)
        case AtTimestamps(timestamps, latest_if_none):
            _must_name_all(f"{option}ByTimestamp", timestamps, partitions)
            return _resolve_times(timestamps, latest_if_none, lookup, f"{option}ByTimestamp")
        case AtTimestamp(timestamp, latest_if_none):
            times = dict.fromkeys(partitions, timestamp)
            return _resolve_times(times, latest_if_none, lookup, option.replace("Offsets", "Timestamp"))


def _resolve_specific(
    offsets: Mapping[TopicPartition, int], partitions: frozenset[TopicPartition], lookup: Lookup, option: str
) -> Offsets:
    _must_name_all(option, offsets, partitions)
    early = lookup.earliest([tp for tp, n in offsets.items() if n == EARLIEST_MARK])
    late = lookup.latest([tp for tp, n in offsets.items() if n == LATEST_MARK])
    return {**offsets, **early, **late}


def _must_name_all(option: str, named: Iterable[TopicPartition], partitions: frozenset[TopicPartition]) -> None:
    missing, extra = partitions - set(named), set(named) - partitions
    if missing or extra:
        problems = [f"missing: {partition_list(missing)}"] if missing else []
        problems += [f"not read: {partition_list(extra)}"] if extra else []
        raise ConfigurationError(
            f"{option} must name exactly the partitions that are read, -2 for earliest, -1 for latest "
            f"({'; '.join(problems)})"
        )


def _resolve_times(
    timestamps: Mapping[TopicPartition, int], latest_if_none: bool, lookup: Lookup, option: str
) -> Offsets:
    offsets = lookup.at_times(timestamps)
    without = [tp for tp in timestamps if offsets.get(tp) is None]
    if without and not latest_if_none:
        tp = min(without)
        raise ConfigurationError(
            f"{option}: {partition_list(without)} holds no record at or after {timestamps[tp]}; choose an earlier "
            "time or set startingOffsetsByTimestampStrategy to latest"
        )
    return {**{tp: n for tp, n in offsets.items() if n is not None}, **lookup.latest(without)}


def batch_ranges(starts: Offsets, ends: Offsets, lookup: Lookup, report_loss: ReportLoss) -> list[OffsetRange]:
    """Return the ranges of a batch read, limited to existing offsets, without empty ones. Missing offsets are reported
    to `report_loss`.

    Raises ConfigurationError if a start is after the end, unless it is the beginning of the log or does not exist.
    """
    earliest, latest = lookup.earliest(starts), lookup.latest(starts)
    ranges = []
    for tp in sorted(starts):
        start, end = starts[tp], ends[tp]
        if start > latest[tp]:
            report_loss(f"{tp}: it ends at {latest[tp]}, before the startingOffsets {start}")
        elif start > end and start > earliest[tp]:
            raise ConfigurationError(
                f"{tp}: the start, offset {start}, is after the end, offset {end}: choose an earlier"
                " start or a later end"
            )
        if start < end and start < earliest[tp]:
            report_loss(
                f"{tp}: offsets {start} to {min(end, earliest[tp]) - 1} no longer exist; the log starts at"
                f" {earliest[tp]}"
            )
        if end > latest[tp]:
            report_loss(f"{tp}: it ends at {latest[tp]}, before the endingOffsets {end}")
        ranges.append(OffsetRange(tp, max(start, earliest[tp]), min(end, latest[tp])))
    return [r for r in ranges if r.size > 0]


def check_start(starts: Offsets, lookup: Lookup, report_loss: ReportLoss) -> Offsets:
    """Return the first offsets of a stream, moved into the range of existing offsets. Each move is reported to
    `report_loss`.
    """
    earliest, latest = lookup.earliest(starts), lookup.latest(starts)
    checked = {}
    for tp, start in starts.items():
        checked[tp] = min(max(start, earliest[tp]), latest[tp])
        if checked[tp] != start:
            report_loss(
                f"{tp}: startingOffsets {start} is outside the log, which has the offsets {earliest[tp]} to"
                f" {latest[tp]}"
            )
    return checked


def stream_ranges(start: Offsets, end: Offsets, lookup: Lookup, report_loss: ReportLoss) -> list[OffsetRange]:
    """Return the ranges of a micro-batch, without empty ones. New partitions are read from their start. Missing offsets
    and partitions are reported to `report_loss`.
    """
    new = end.keys() - start.keys()
    earliest = lookup.earliest(new)
    for tp in sorted(new):
        if earliest[tp] != 0:
            report_loss(f"{tp}: the new partition starts at {earliest[tp]} instead of 0")
    removed = start.keys() - end.keys()
    if removed:
        report_loss(f"{partition_list(removed)}: no longer exist; records that were not read may be lost")
    ranges = []
    for tp in sorted(end):
        begin = start[tp] if tp in start else earliest[tp]
        if end[tp] < begin:
            report_loss(f"{tp}: its end offset has decreased from {begin} to {end[tp]}")
        ranges.append(OffsetRange(tp, begin, end[tp]))
    return [r for r in ranges if r.size > 0]


def limit_offsets(limit: int, start: Offsets, latest: Offsets, earliest_of_new: Offsets) -> Offsets:
    """Return end offsets for a micro-batch of about `limit` offsets, which are divided among the partitions in
    proportion to their available offsets.

    Shares are rounded down, but a partition with available offsets gets at least one. For example, limit 100 advances
    each of three equal partitions by 33.
    """
    begins = {tp: start[tp] if tp in start else earliest_of_new[tp] for tp in latest}
    waiting = {tp: latest[tp] - begins[tp] for tp in latest if latest[tp] > begins[tp]}
    total = sum(waiting.values())
    if total <= limit:
        return dict(latest)
    shares = {tp: max(limit * size // total, 1) for tp, size in waiting.items()}
    return {tp: min(end, begins[tp] + shares[tp]) if tp in shares else end for tp, end in latest.items()}


def split(
    ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None = None
) -> list[OffsetRange]:
    """Return the ranges of tasks: each range, or parts of it. First, ranges are split into parts of `max_records` at
    most, then into about `min_partitions` parts in total, in proportion to their sizes.
    """
    if max_records is not None:
        ranges = [part for r in ranges for part in _cut(r, -(-r.size // max_records))]
    if min_partitions is None or len(ranges) >= min_partitions:
        return list(ranges)
    total = sum(r.size for r in ranges)
    small = {r for r in ranges if _tasks(r.size, total, min_partitions) == 1}
    # Small ranges stay whole; the remaining tasks are shared among the others.
    left_total = total - sum(r.size for r in small)
    left_tasks = max(min_partitions - len(small), 1)
    return [p for r in ranges for p in ([r] if r in small else _cut(r, _tasks(r.size, left_total, left_tasks)))]


def _tasks(size: int, total: int, task_count: int) -> int:
    # Round half up, as Java does; Python's round() rounds half to even.
    return max((2 * size * task_count + total) // (2 * total), 1)


def _cut(r: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cut a range into at most `parts` non-empty pieces of nearly equal size, the larger ones last."""
    bounds, left = [r.start], r.size
    parts = min(parts, r.size)  # minPartitions may be any number
    for i in range(parts):
        bounds.append(bounds[-1] + left // (parts - i))
        left = r.end - bounds[-1]
    return [OffsetRange(r.topic_partition, a, b) for a, b in pairwise(bounds) if b > a]
