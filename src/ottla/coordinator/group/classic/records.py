"""The records of classic groups and committed offsets in `__consumer_offsets`, in Kafka's format."""

from __future__ import annotations

from typing import NamedTuple

from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState, ClassicMember
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.model import TopicPartition
from ottla.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.protocol.versioned import decode_versioned, encode_versioned, version_of

OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 3
GROUP_VALUE_VERSION = 3
"""OFFSET_VALUE_VERSION and GROUP_VALUE_VERSION: versions of record values that Kafka 2.3 and later can read."""


class CommittedOffset(NamedTuple):
    """A committed offset: the offset of the next record to read.

    Times are in milliseconds since 1970; `expire_ms` is -1 if offsets.retention.minutes applies.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1


def offset_record(group: str, tp: TopicPartition, committed: CommittedOffset | None) -> CoordinatorRecord:
    """Return the record of an offset commit; a tombstone if `committed` is None."""
    key = encode_versioned(OffsetCommitKey(group=group, topic=tp.topic, partition=tp.partition), OFFSET_KEY_VERSION)
    if committed is None:
        return CoordinatorRecord(key, None)
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
    )
    # Only version 1 has an expiry time. Clients can set one up to Kafka 2.0.
    version = OFFSET_VALUE_VERSION if committed.expire_ms < 0 else 1
    return CoordinatorRecord(key, encode_versioned(value, version))


def group_record(group: ClassicGroup, now_ms: int) -> CoordinatorRecord:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader if group.members else None,
        current_state_timestamp=now_ms,
        members=[_member_value(m, group.protocol) for m in group.members.values()],
    )
    return CoordinatorRecord(_group_key(group.id), encode_versioned(value, GROUP_VALUE_VERSION))


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(_group_key(group_id), None)


def read_key(key: bytes) -> tuple[str, TopicPartition | None] | None:
    """Decode a record's key.

    Return (group id, partition) for a committed offset, (group id, None) for group metadata, and None for other keys.
    """
    version = version_of(key)
    if version in (0, OFFSET_KEY_VERSION):
        decoded = decode_versioned(OffsetCommitKey, key)
        return decoded.group, TopicPartition(decoded.topic, decoded.partition)
    if version == GROUP_KEY_VERSION:
        return decode_versioned(GroupMetadataKey, key).group, None
    return None


def read_offset(value: bytes) -> CommittedOffset:
    v = decode_versioned(OffsetCommitValue, value)
    return CommittedOffset(v.offset, v.leader_epoch, v.metadata, v.commit_timestamp, v.expire_timestamp)


def read_generation(value: bytes) -> int | None:
    """Return the generation of a group metadata value; None if it has no protocol, as without members.

    The members, of which a group may have a thousand, are not decoded.
    """
    after_type = 4 + int.from_bytes(value[2:4], "big", signed=True)
    protocol_length = int.from_bytes(value[after_type + 4 : after_type + 6], "big", signed=True)
    return None if protocol_length < 0 else int.from_bytes(value[after_type : after_type + 4], "big", signed=True)


def read_group(group_id: str, value: bytes, now: float) -> ClassicGroup:
    """Decode a group metadata value into a group. The sessions of its members start at `now`."""
    v = decode_versioned(GroupMetadataValue, value)
    group = ClassicGroup(
        group_id,
        state=ClassicGroupState.STABLE if v.members else ClassicGroupState.EMPTY,
        generation=v.generation,
        protocol_type=v.protocol_type or None,
        protocol=v.protocol,
        empty_since_ms=v.current_state_timestamp,
    )
    for m in v.members:
        member = ClassicMember(
            id=m.member_id,
            instance_id=m.group_instance_id,
            client_id=m.client_id,
            client_host=m.client_host,
            session_timeout=m.session_timeout / 1000,
            rebalance_timeout=(m.rebalance_timeout if m.rebalance_timeout >= 0 else m.session_timeout) / 1000,
            protocols={v.protocol or "": m.subscription},
            assignment=m.assignment,
            synced=True,
        )
        member.touch(now)
        group.add(member)
    group.leader = v.leader if v.leader in group.members else next(iter(group.members), None)
    return group


def _group_key(group_id: str) -> bytes:
    return encode_versioned(GroupMetadataKey(group=group_id), GROUP_KEY_VERSION)


def _member_value(member: ClassicMember, protocol: str | None) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=round(member.rebalance_timeout * 1000),
        session_timeout=round(member.session_timeout * 1000),
        subscription=member.protocols.get(protocol or "", b""),
        assignment=member.assignment,
    )
