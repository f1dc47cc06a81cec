"""The segments of one partition in remote storage, as `__remote_log_metadata` describes them. Kafka's
RemoteLogMetadataCache.

Segments are looked up by leader epoch and offset, because after an unclean leader election the segments of a diverged
log may also have been copied. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Collection, Iterator
from typing import NamedTuple
from uuid import UUID

from ottla.remote_log.segment_metadata import (
    TRANSITIONS,
    RemoteLogEvent,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemoteLogSegmentUpdate,
    RemotePartition,
)
from ottla.storage.leader_epochs import LeaderEpochs


class _EpochRange(NamedTuple):
    """The offsets that a segment has of one epoch, from `start` to `end` inclusive."""

    start: int
    end: int
    order: int
    """Increases with each segment, so that of two segments with the same start and end the newer one is found."""
    id: UUID


class ChainedSegment(NamedTuple):
    """A segment of a log, and the offset after the last record that the log has in common with it."""

    metadata: RemoteLogSegmentMetadata
    until: int


def common_end(segment: RemoteLogSegmentMetadata, epochs: LeaderEpochs, offset: int) -> int:
    """Return the offset up to which a segment and a log with these epochs have the same records, starting from their
    common `offset`.

    After an unclean leader election, the log may not have the last records of a segment.
    """
    log_entries = epochs.entries
    for epoch, start, end in segment.epoch_ranges():
        if end < offset:
            continue
        if start > offset and epochs.epoch_for(start) != epoch:
            return start
        i = bisect_right(log_entries, epoch, key=lambda entry: entry.epoch)
        if i < len(log_entries) and log_entries[i].start_offset <= end:
            return max(log_entries[i].start_offset, offset)
    return segment.next_offset


class RemotePartitionMetadataStore:
    """The segments of one partition by id, and the readable ones by epoch and offset."""

    def __init__(self, partition: RemotePartition) -> None:
        self.partition = partition
        self._ready = asyncio.Event()
        self.readable_bytes = 0
        """The size of all readable segments in bytes."""
        self.version = 0
        """Incremented by every event that is applied."""
        self.to_delete: deque[RemoteLogSegmentMetadata] = deque()
        """The segments that the last pass of the leader's task had to delete, without those that it has deleted."""
        self._segments: dict[UUID, RemoteLogSegmentMetadata] = {}
        self._by_epoch: dict[int, list[_EpochRange]] = {}
        self._with_aborted: dict[UUID, RemoteLogSegmentMetadata] = {}
        """The readable segments that may have aborted transactions."""
        self._applied = 0
        """The offset in `__remote_log_metadata` after the last event that was applied."""
        self._added = 0

    @property
    def is_ready(self) -> bool:
        """Whether all records about the partition that were in `__remote_log_metadata` when its end was looked up have
        been applied.
        """
        return self._ready.is_set()

    def set_ready(self) -> None:
        self._ready.set()

    async def wait_ready(self) -> None:
        """Wait until `is_ready` is true."""
        await self._ready.wait()

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def segments(self) -> Collection[RemoteLogSegmentMetadata]:
        """All segments that are not deleted completely, in the order in which their copying started."""
        return self._segments.values()

    def get(self, segment_id: UUID) -> RemoteLogSegmentMetadata | None:
        return self._segments.get(segment_id)

    def apply(self, offset: int, event: RemoteLogEvent) -> None:
        """Apply the event at an offset of `__remote_log_metadata`. One that was already applied is ignored, because the
        topic is read again when a partition is added.
        """
        if offset < self._applied:
            return
        self._applied = offset + 1
        self.version += 1
        if isinstance(event, RemoteLogSegmentMetadata):
            if event.id not in self._segments:
                self._segments[event.id] = event
                if event.is_readable:
                    self._index(event)
        elif isinstance(event, RemoteLogSegmentUpdate):
            self._update(event)

    def _update(self, event: RemoteLogSegmentUpdate) -> None:
        before = self._segments.get(event.id)
        if before is None or event.state not in TRANSITIONS[before.state]:
            return
        if before.is_readable:
            self._remove_from_index(before)
        if event.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            del self._segments[event.id]
            return
        after = self._segments[event.id] = before.update(event)
        if after.is_readable:
            self._index(after)

    def _index(self, segment: RemoteLogSegmentMetadata) -> None:
        self.readable_bytes += segment.size
        self._added += 1
        if not segment.txn_index_empty:
            self._with_aborted[segment.id] = segment
        for epoch, start, end in segment.epoch_ranges():
            insort(self._by_epoch.setdefault(epoch, []), _EpochRange(start, end, self._added, segment.id))

    def _remove_from_index(self, segment: RemoteLogSegmentMetadata) -> None:
        self.readable_bytes -= segment.size
        self._with_aborted.pop(segment.id, None)
        for epoch, _, _ in segment.epoch_ranges():
            ranges = [entry for entry in self._by_epoch[epoch] if entry.id != segment.id]
            if ranges:
                self._by_epoch[epoch] = ranges
            else:
                del self._by_epoch[epoch]

    def find(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the readable segment with the record at `offset` of a leader epoch; None if there is none.

        Of several, return the one that starts last; of those with the same start, the one that ends last; of those with
        the same end, the one whose copy was completed last. Start and end are those within the leader epoch.
        """
        ranges = self._by_epoch.get(epoch, ())
        i = bisect_right(ranges, offset, key=lambda entry: entry.start)
        while i:
            i -= 1
            if ranges[i].end >= offset:
                return self._segments[ranges[i].id]
        return None

    def find_in(self, epochs: LeaderEpochs, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the readable segment with the record at `offset` of a log with these leader epochs; None if there is
        none.
        """
        return self.find(epochs.epoch_for(offset), offset)

    def chain(self, epochs: LeaderEpochs, offset: int) -> Iterator[ChainedSegment]:
        """Yield the readable segments of a log with these epochs, from the one with `offset` up to the first gap."""
        segment = self.find_in(epochs, offset)
        while segment is not None:
            offset = common_end(segment, epochs, offset)
            yield ChainedSegment(segment, offset)
            segment = self.find_in(epochs, offset)

    def with_aborted_transactions(self, epochs: LeaderEpochs, offset: int) -> list[RemoteLogSegmentMetadata]:
        """Return the readable segments of a log with these epochs that end at `offset` or later and may have aborted
        transactions, in the order of their offsets.
        """
        later = (s for s in self._with_aborted.values() if s.end_offset >= offset)
        current = [s for s in later if self.find_in(epochs, max(offset, s.start_offset)) is s]
        return sorted(current, key=lambda segment: segment.start_offset)

    def contiguous_end(self, epochs: LeaderEpochs, offset: int) -> int:
        """Return the offset up to which all records from `offset` on are in readable segments, without a gap."""
        for chained in self.chain(epochs, offset):
            offset = chained.until
        return offset

    def first_offset(self, epochs: LeaderEpochs) -> int | None:
        """Return the first offset in readable segments of a log with these leader epochs; None if there are none."""
        for (epoch, first), end in zip(
            epochs.entries, [*(e.start_offset for e in epochs.entries[1:]), None], strict=True
        ):
            starts = (max(entry.start, first) for entry in self._by_epoch.get(epoch, ()) if entry.end >= first)
            start = min(starts, default=None)
            if start is not None and (end is None or start < end):
                return start
        return None
