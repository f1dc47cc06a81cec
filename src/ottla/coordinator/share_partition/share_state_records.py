"""The records of share partitions in `__share_group_state`, in Kafka's format.

Kafka writes snapshots with updates in between, and prunes the log before the last snapshots. Ottla writes snapshots
only, so that compaction is enough, and reads both.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from ottla.cluster.store.znodes import uuid_text
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.coordinator.share_partition.share_partition import RecordRange, RecordState
from ottla.protocol.messages import share_group_records as s
from ottla.protocol.versioned import decode_versioned, encode_versioned, version_of


class ShareKey(NamedTuple):
    """A share partition: a group and a partition."""

    group_id: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        """Return the key that is hashed to find the partition of the state topic."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"


class ShareState(NamedTuple):
    """The state in a record."""

    snapshot_epoch: int
    start: int
    runs: list[RecordRange]
    is_snapshot: bool


def snapshot_record(key: ShareKey, epoch: int, start: int, runs: list[RecordRange], now_ms: int) -> CoordinatorRecord:
    value = s.ShareSnapshotValue(
        snapshot_epoch=epoch,
        start_offset=start,
        create_timestamp=now_ms,
        write_timestamp=now_ms,
        state_batches=_batches(runs),
    )
    return CoordinatorRecord(_key(key, s.SNAPSHOT_KEY), encode_versioned(value, 0))


def tombstones(key: ShareKey) -> list[CoordinatorRecord]:
    return [CoordinatorRecord(_key(key, number), None) for number in (s.SNAPSHOT_KEY, s.UPDATE_KEY)]


def read(key: bytes, value: bytes | None) -> tuple[ShareKey, ShareState | None] | None:
    """Return key and state of a record, the state None for a tombstone; None for an unknown key."""
    number = version_of(key)
    if number not in (s.SNAPSHOT_KEY, s.UPDATE_KEY):
        return None
    decoded = decode_versioned(s.SharePartitionKey, b"\x00\x00" + bytes(key[2:]))
    share_key = ShareKey(decoded.group_id, decoded.topic_id, decoded.partition)
    if value is None:
        return share_key, None
    is_snapshot = number == s.SNAPSHOT_KEY
    state = decode_versioned(s.ShareSnapshotValue if is_snapshot else s.ShareUpdateValue, value)
    assert isinstance(state, (s.ShareSnapshotValue, s.ShareUpdateValue))
    runs = [
        RecordRange(batch.first_offset, batch.last_offset, RecordState(batch.delivery_state), batch.delivery_count)
        for batch in state.state_batches
    ]
    return share_key, ShareState(state.snapshot_epoch, state.start_offset, runs, is_snapshot)


def _batches(runs: list[RecordRange]) -> list[s.StateBatch]:
    return [
        s.StateBatch(first_offset=r.first, last_offset=r.last, delivery_state=r.state, delivery_count=r.delivered)
        for r in runs
    ]


def _key(key: ShareKey, number: int) -> bytes:
    return encode_versioned(
        s.SharePartitionKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition), 0, prefix=number
    )
