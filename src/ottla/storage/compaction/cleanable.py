"""The cleanable range of a log, and the choice of the dirtiest log. Not thread-safe: event loop only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.storage.log import Log
from ottla.storage.retention import newest_ms
from ottla.storage.segment import Segment


class Cleanable(NamedTuple):
    """A log and its cleanable range: the offsets from `first_dirty` to before `end`.

    `clean_bytes`, `dirty_bytes`: sizes of the segments before and in the range. `overdue`: whether
    max.compaction.lag.ms has passed.
    """

    log: Log
    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def ratio(self) -> float:
        """The fraction of bytes that are not compacted yet (Kafka's cleanable ratio)."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def measure(opened: Log, first_dirty: int, now_ms: int) -> Cleanable:
    """Return the cleanable range of a log.

    `first_dirty`: the end of the last pass; the log start offset if there was none.
    """
    first_dirty = max(first_dirty, opened.log_start_offset)
    if first_dirty > opened.log_end_offset:  # the log was truncated since the last pass
        first_dirty = opened.log_start_offset
    end = _first_uncleanable(opened, now_ms)
    clean = dirty = 0
    overdue = False
    for segment in opened.segments[:-1]:
        if segment.base_offset >= end:
            break
        if segment.base_offset < first_dirty:
            clean += segment.size
        else:
            dirty += segment.size
            overdue = overdue or _is_overdue(segment, now_ms - opened.config.max_compaction_lag_ms)
    return Cleanable(opened, first_dirty, max(end, first_dirty), clean, dirty, overdue)


def _is_overdue(segment: Segment, latest_ms: int) -> bool:
    """Return whether the segment's first batch is older than max.compaction.lag.ms."""
    return latest_ms > 0 and 0 < segment.first_batch_timestamp() < latest_ms


def _first_uncleanable(opened: Log, now_ms: int) -> int:
    """Return the end of the cleanable range, which excludes the active segment, open transactions, and records younger
    than min.compaction.lag.ms.
    """
    end = min(opened.active.base_offset, opened.last_stable_offset)
    lag = opened.config.min_compaction_lag_ms
    if lag > 0:
        for segment in opened.segments[:-1]:
            if newest_ms(segment) > now_ms - lag:
                return min(end, segment.base_offset)
    return end


def dirtiest(cleanables: Iterable[Cleanable]) -> Cleanable | None:
    """Return the log that most needs a pass; None if none has reached min.cleanable.dirty.ratio or
    max.compaction.lag.ms.
    """
    ready = [
        c for c in cleanables if c.dirty_bytes and (c.overdue or c.ratio >= c.log.config.min_cleanable_dirty_ratio)
    ]
    return max(ready, key=lambda c: (c.overdue, c.ratio), default=None)
