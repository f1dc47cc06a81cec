"""The cleanable range of a log, and the choice of the log to compact next. Not thread-safe: event loop only."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from ottla.storage.log import Log
from ottla.storage.retention import newest_ms
from ottla.storage.segment import Segment


class Cleanable(NamedTuple):
    """A log and its cleanable range: the offsets from `first_dirty` to before `end`.

    `clean_bytes`, `dirty_bytes`: sizes of the segments that begin before the range, and of those that have a part of
    it. As in Kafka, a segment in which the range begins counts as both: the last pass may have ended there because its
    map was full. `overdue`: whether one of the segments with a part of the range is older than max.compaction.lag.ms.
    """

    log: Log
    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def ratio(self) -> float:
        """The fraction of `dirty_bytes` in the clean and dirty bytes (Kafka's cleanable ratio); 0 if there are none."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def measure(opened: Log, first_dirty: int, now_ms: int) -> Cleanable:
    """Return the cleanable range of a log.

    `first_dirty`: the offset at which the last pass ended; 0 if there was none.
    """
    first_dirty = max(first_dirty, opened.log_start_offset)
    if first_dirty > opened.log_end_offset:  # the log was truncated since the last pass
        first_dirty = opened.log_start_offset
    end = _first_uncleanable(opened, now_ms)
    clean = dirty = 0
    overdue = False
    for segment, following in pairwise(opened.segments):
        if segment.base_offset >= end:
            break
        if segment.base_offset < first_dirty:
            clean += segment.size
        if first_dirty < min(following.base_offset, end):
            dirty += segment.size
            overdue = overdue or _is_overdue(segment, now_ms - opened.config.max_compaction_lag_ms)
    return Cleanable(opened, first_dirty, max(end, first_dirty), clean, dirty, overdue)


def _is_overdue(segment: Segment, latest_ms: int) -> bool:
    """Return whether the segment's first batch is older than `latest_ms`; False if the batch has no timestamp, or
    `latest_ms` is not positive.
    """
    return latest_ms > 0 and 0 < segment.first_batch_timestamp() < latest_ms


def _first_uncleanable(opened: Log, now_ms: int) -> int:
    """Return the end of the cleanable range: the start of the active segment, of the records that are not stable, or of
    the first segment with a record younger than min.compaction.lag.ms, whichever comes first.
    """
    end = min(opened.active.base_offset, opened.last_stable_offset)
    lag = opened.config.min_compaction_lag_ms
    if lag > 0:
        for segment in opened.segments[:-1]:
            if newest_ms(segment) > now_ms - lag:
                return min(end, segment.base_offset)
    return end


def dirtiest(cleanables: Iterable[Cleanable]) -> Cleanable | None:
    """Return the log to compact next: one that is overdue, or else the one with the highest ratio.

    Return None if no log with dirty bytes is overdue or has reached min.cleanable.dirty.ratio.
    """
    ready = [
        c for c in cleanables if c.dirty_bytes and (c.overdue or c.ratio >= c.log.config.min_cleanable_dirty_ratio)
    ]
    return max(ready, key=lambda c: (c.overdue, c.ratio), default=None)
