"""Pairs of offsets of source and target: which ones to record, and the translation of offsets by them.

KIP-382, with the translation of KAFKA-12468 (Kafka 3.5): Kafka's `OffsetSyncWriter` and `OffsetSyncStore`.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from operator import attrgetter
from typing import Final

from ottla.mirror.records import OffsetSync
from ottla.model import TopicPartition

PRECISION: Final = 8
"""A sync may be dropped if the gap that it leaves is at most this part of its distance from the latest one."""
MIN_SYNCS: Final = 64
"""Number of syncs of a partition below which none is dropped."""


class SyncSelector:
    """Selects the pairs of offsets of one partition that are recorded.

    The first pair, those after a gap at the source, at least one in `max_lag` records, and the last one of a
    transaction. The translation relies on it: between two syncs, offsets of source and target grow alike, or the
    target's faster (by transaction markers).
    """

    def __init__(self, partition: TopicPartition, max_lag: int) -> None:
        self._partition = partition
        self._interval = max_lag + 1
        self._next_upstream = -1
        self._last: OffsetSync | None = None

    def select(self, upstream: int, downstream: int, count: int) -> Iterator[OffsetSync]:
        """Return the pairs to record of `count` records that have consecutive offsets at both clusters."""
        last = self._last
        first = upstream
        if last is not None and upstream == self._next_upstream and downstream >= last.downstream:
            first = max(upstream, last.upstream + self._interval)
        end = upstream + count
        self._next_upstream = end
        for offset in range(first, end, self._interval):
            last = OffsetSync(self._partition, offset, downstream + offset - upstream)
            self._last = last
            yield last

    def latest(self, upstream: int, downstream: int) -> OffsetSync | None:
        """Return the pair of the last copied record; None if it was recorded."""
        if self._last is not None and self._last[1:] == (upstream, downstream):
            return None
        self._last = OffsetSync(self._partition, upstream, downstream)
        return self._last


class OffsetSyncStore:
    """Translates offsets by the recorded pairs. It keeps fewer and fewer of the older ones."""

    def __init__(self) -> None:
        self._syncs: defaultdict[TopicPartition, list[OffsetSync]] = defaultdict(list)
        """By partition of the source, by rising offsets."""
        self._limits: defaultdict[TopicPartition, int] = defaultdict(lambda: MIN_SYNCS)

    def add(self, sync: OffsetSync) -> None:
        """Add a pair. One whose offset is lower than earlier ones, at either cluster, replaces them all.

        The partition was then created again, or copied again from an earlier offset.
        """
        syncs = self._syncs[sync.partition]
        if syncs and (sync.upstream < syncs[-1].upstream or sync.downstream < syncs[-1].downstream):
            syncs.clear()
        syncs.append(sync)
        if len(syncs) > self._limits[sync.partition]:
            syncs[:] = _thinned(syncs)
            self._limits[sync.partition] = max(MIN_SYNCS, 2 * len(syncs))

    def translate(self, partition: TopicPartition, offset: int) -> int | None:
        """Return an offset at the target from which a group misses no record; None if that cannot be determined.

        It is never beyond what was copied: at most one record after the latest pair at or before `offset`, because
        later records may have been compacted away, or not copied yet.
        """
        syncs = self._syncs.get(partition, [])
        index = bisect.bisect_right(syncs, offset, key=attrgetter("upstream")) - 1
        if index < 0:
            return None
        sync = syncs[index]
        return sync.downstream + (offset > sync.upstream)


def _thinned(syncs: list[OffsetSync]) -> list[OffsetSync]:
    """Drop pairs that are close to others in proportion to their age; the first and the last stay."""
    latest = syncs[-1].upstream
    result = [syncs[0]]
    for sync, following in pairwise(syncs[1:]):
        if (following.upstream - result[-1].upstream) * PRECISION > latest - sync.upstream:
            result.append(sync)
    return [*result, syncs[-1]]
