"""The records of share partitions in `__share_group_state`, in Kafka's format.

Kafka writes snapshots and updates in between, and deletes the log before the oldest needed snapshot. Ottla reads both
but writes only snapshots, so that compaction is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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


def merge_runs(old: Iterable[RecordRange], new: Sequence[RecordRange], start: int) -> list[RecordRange]:
    """Return the ranges after a write: `new` replaces what it covers, and nothing remains before `start`.

    Available records that were never delivered need no range.
    """
    covered: list[tuple[int, int]] = []
    for run in sorted(new):
        if covered and covered[-1][1] + 1 >= run.first:
            covered[-1] = covered[-1][0], run.last
        else:
            covered.append((run.first, run.last))
    pieces = list(old)
    for first, last in covered:
        pieces = [piece for run in pieces for piece in _outside(run, first, last)]
    return [
        run._replace(first=max(run.first, start))
        for run in sorted([*pieces, *new])
        if run.last >= start and (run.state is not RecordState.AVAILABLE or run.delivered)
    ]


def _outside(run: RecordRange, first: int, last: int) -> Iterator[RecordRange]:
    if run.last < first or run.first > last:
        yield run
        return
    if run.first < first:
        yield run._replace(last=first - 1)
    if run.last > last:
        yield run._replace(first=last + 1)


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
