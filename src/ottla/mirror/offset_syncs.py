"""Offset syncs: pairs of an offset at the source and the offset of the same record at the target.

`SyncSelector` decides which of them are recorded, and `OffsetSyncStore` translates committed offsets with them.
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
"""A sync may be dropped if the gap that it leaves is at most 1/PRECISION of its distance to the latest sync."""
MIN_SYNCS: Final = 64
"""Number of syncs of a partition up to which none is dropped."""


class SyncSelector:
    """Selects the offset syncs of one partition that are recorded.

    These are the first sync, the syncs after a gap in the source offsets or a step back in the target offsets, those
    that `latest` returns, and in all at least one sync in `max_lag` + 1 records. So after a recorded sync and before
    the next one, the offsets at the target grow as fast as those at the source, or faster because of transaction
    markers. The translation relies on this.
    """

    def __init__(self, partition: TopicPartition, max_lag: int) -> None:
        self._partition = partition
        self._interval = max_lag + 1
        self._next_upstream = -1
        self._last: OffsetSync | None = None

    def select(self, upstream: int, downstream: int, count: int) -> Iterator[OffsetSync]:
        """Yield the syncs to record for `count` copied records with consecutive offsets at both clusters.

        `upstream` and `downstream`: the offsets of the first of these records at the source and at the target.
        """
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
        """Return the sync of the last copied record, to be recorded too; None if it was selected already."""
        if self._last is not None and self._last[1:] == (upstream, downstream):
            return None
        self._last = OffsetSync(self._partition, upstream, downstream)
        return self._last


class OffsetSyncStore:
    """Translates offsets with the recorded syncs. Of older syncs, it keeps fewer than of recent ones."""

    def __init__(self) -> None:
        self._syncs: defaultdict[TopicPartition, list[OffsetSync]] = defaultdict(list)
        """The syncs by source partition, in the order of their offsets."""
        self._limits: defaultdict[TopicPartition, int] = defaultdict(lambda: MIN_SYNCS)

    def add(self, sync: OffsetSync) -> None:
        """Add a sync. If its offset at either cluster is lower than that of the latest sync, it replaces all syncs
        of the partition.

        In this case, the partition was created again, or is copied again from an earlier offset.
        """
        syncs = self._syncs[sync.partition]
        if syncs and (sync.upstream < syncs[-1].upstream or sync.downstream < syncs[-1].downstream):
            syncs.clear()
        syncs.append(sync)
        if len(syncs) > self._limits[sync.partition]:
            syncs[:] = _thinned(syncs)
            self._limits[sync.partition] = max(MIN_SYNCS, 2 * len(syncs))

    def translate(self, partition: TopicPartition, offset: int) -> int | None:
        """Return the offset at which a group continues at the target without missing a record.

        It is at most one record after the latest sync at or before `offset`, because later records may have been
        removed by compaction, or may not be copied yet. None if there is no sync at or before `offset`.
        """
        syncs = self._syncs.get(partition, [])
        index = bisect.bisect_right(syncs, offset, key=attrgetter("upstream")) - 1
        if index < 0:
            return None
        sync = syncs[index]
        return sync.downstream + (offset > sync.upstream)


def _thinned(syncs: list[OffsetSync]) -> list[OffsetSync]:
    """Return the syncs without some that are close to others: the older, the fewer remain. The first and the last one
    stay.
    """
    latest = syncs[-1].upstream
    result = [syncs[0]]
    for sync, following in pairwise(syncs[1:]):
        if (following.upstream - result[-1].upstream) * PRECISION > latest - sync.upstream:
            result.append(sync)
    return [*result, syncs[-1]]
