"""The records of share partitions in `__share_group_state`, in Kafka's format.

Kafka writes snapshots and updates in between, and deletes the log before the oldest needed snapshot. Ottla reads both
but writes only snapshots, so that compaction is enough.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.cluster.store.znodes import uuid_text
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.coordinator.share_partition.share_partition import RecordRange, RecordState
from ottla.protocol.messages import share_group_records as s
from ottla.protocol.versioned import decode_versioned, encode_versioned, version_of


class ShareKey(NamedTuple):
    """The key of a share partition: group id, topic id and partition number."""

    group_id: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        """Return the text whose hash determines the partition of `__share_group_state`."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"


UNINITIALIZED: Final = -1
"""The start offset of a share partition that no member has read yet."""


class ShareState(NamedTuple):
    """The state of a share partition."""

    state_epoch: int = 0
    """The group epoch of the last initialization. A leader that has read an earlier state is fenced."""
    leader_epoch: int = 0
    start: int = UNINITIALIZED
    done: int = -1
    """The number of records from the start on that are acknowledged or archived; -1 if unknown."""
    runs: Sequence[RecordRange] = ()
    snapshot_epoch: int = 0


Entry = tuple[ShareKey, ShareState | None]


def snapshot_record(key: ShareKey, state: ShareState, now_ms: int) -> CoordinatorRecord:
    value = s.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start,
        create_timestamp=now_ms,
        write_timestamp=now_ms,
        delivery_complete_count=state.done,
        state_batches=_batches(state.runs),
    )
    return CoordinatorRecord(_key(key, s.SNAPSHOT_KEY), encode_versioned(value, 0))


def tombstones(key: ShareKey) -> list[CoordinatorRecord]:
    return [CoordinatorRecord(_key(key, number), None) for number in (s.SNAPSHOT_KEY, s.UPDATE_KEY)]


def merge_runs(old: Iterable[RecordRange], new: Iterable[RecordRange], start: int) -> list[RecordRange]:
    """Return the ranges after a write: where both cover a record, the one with more deliveries counts, or else the
    later state. Nothing remains before `start`.

    So a write that was delayed in the network and arrives after later ones does not set records back, as in Kafka's
    `PersisterStateBatchCombiner`. Available records that were never delivered need no range.
    """
    runs = sorted((*old, *new))
    edges = sorted({edge for run in runs for edge in (run.first, run.last + 1)})
    best: dict[int, RecordRange] = {}
    for run in runs:
        begin, end = bisect_left(edges, run.first), bisect_left(edges, run.last + 1)
        for first, after in pairwise(edges[begin : end + 1]):
            best[first] = max(best.get(first, run), run, key=_progress)._replace(first=first, last=after - 1)
    merged: list[RecordRange] = []
    for run in map(best.__getitem__, sorted(best)):
        if run.last < start or (run.state is RecordState.AVAILABLE and not run.delivered):
            continue
        if merged and (merged[-1].last + 1, *merged[-1][2:]) == (run.first, *run[2:]):
            merged[-1] = merged[-1]._replace(last=run.last)
        else:
            merged.append(run._replace(first=max(run.first, start)))
    return merged


def _progress(run: RecordRange) -> tuple[int, RecordState]:
    return run.delivered, run.state


def read(key: bytes, value: bytes | None, before: Callable[[ShareKey], ShareState | None]) -> Entry | None:
    """Return the key of a record and its state, which is None for a tombstone. Return None for an unknown type of
    record.

    `before` returns the state to which an update record applies. An update that is older than the snapshot changes
    nothing.
    """
    number = version_of(key)
    if number not in (s.SNAPSHOT_KEY, s.UPDATE_KEY):
        return None
    decoded = decode_versioned(s.SharePartitionKey, b"\x00\x00" + bytes(key[2:]))
    share_key = ShareKey(decoded.group_id, decoded.topic_id, decoded.partition)
    if value is None:
        return share_key, None
    if number == s.SNAPSHOT_KEY:
        snapshot = decode_versioned(s.ShareSnapshotValue, value)
        return share_key, ShareState(
            snapshot.state_epoch,
            snapshot.leader_epoch,
            snapshot.start_offset,
            snapshot.delivery_complete_count,
            record_ranges(snapshot.state_batches),
            snapshot.snapshot_epoch,
        )
    update = decode_versioned(s.ShareUpdateValue, value)
    state = before(share_key) or ShareState(snapshot_epoch=update.snapshot_epoch)
    if update.snapshot_epoch < state.snapshot_epoch:
        return share_key, state
    start = max(update.start_offset, state.start)
    return share_key, state._replace(
        leader_epoch=max(update.leader_epoch, state.leader_epoch),
        start=start,
        done=update.delivery_complete_count,
        runs=merge_runs(state.runs, record_ranges(update.state_batches), start),
    )


def record_ranges(batches: Iterable[Any]) -> list[RecordRange]:
    """Return the ranges of `StateBatch` items."""
    return [
        RecordRange(b.first_offset, b.last_offset, RecordState(b.delivery_state), b.delivery_count) for b in batches
    ]


def _batches(runs: Iterable[RecordRange]) -> list[s.StateBatch]:
    return [
        s.StateBatch(first_offset=r.first, last_offset=r.last, delivery_state=r.state, delivery_count=r.delivered)
        for r in runs
    ]


def _key(key: ShareKey, number: int) -> bytes:
    return encode_versioned(
        s.SharePartitionKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition), 0, prefix=number
    )
