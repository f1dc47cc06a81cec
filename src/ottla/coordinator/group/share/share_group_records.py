"""The records of share groups in `__consumer_offsets`, in Kafka's format, and their replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from ottla.coordinator.group.common.consumer_member import NOTHING, Assignment, by_topic, flatten
from ottla.coordinator.group.common.modern_group import apply_epoch, apply_target, apply_target_epoch
from ottla.coordinator.group.common.record_serde import RecordSerde, RecordType, record
from ottla.coordinator.group.share.share_group import ShareGroup, ShareMember
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.protocol.message import Data
from ottla.protocol.messages import share_group_records as s


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of the group's epoch and the hash of its topics."""
    return _of_group(s.METADATA_KEY, group_id, s.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> CoordinatorRecord:
    """Return the record of the group epoch for which the target assignment was computed."""
    value = s.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return _of_group(s.TARGET_METADATA_KEY, group_id, value)


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    value = s.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return _of_member(s.MEMBER_KEY, group_id, member.id, value)


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    value = s.ShareGroupTargetAssignmentMemberValue(topic_partitions=_topics(target))
    return _of_member(s.TARGET_MEMBER_KEY, group_id, member_id, value)


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record of a member's current assignment."""
    value = s.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        assigned_partitions=_topics(member.assigned),
    )
    return _of_member(s.CURRENT_MEMBER_KEY, group_id, member.id, value)


def initialized_record(group_id: str, partitions: Assignment, names: Mapping[UUID, str]) -> CoordinatorRecord:
    """Return the record of the partitions whose share state has been initialized.

    `names`: the names of the cluster's topics, by topic id. Partitions of topics without a name are left out.
    """
    topics = [
        s.NamedTopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=numbers)
        for topic_id, numbers in by_topic(partitions)
        if topic_id in names
    ]
    return _of_group(
        s.STATE_PARTITIONS_KEY, group_id, s.ShareGroupStatePartitionMetadataValue(initialized_topics=topics)
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    keys = (s.CURRENT_MEMBER_KEY, s.TARGET_MEMBER_KEY, s.MEMBER_KEY)
    return [_of_member(key, group_id, member_id, None) for key in keys]


def group_tombstones(group: ShareGroup) -> list[CoordinatorRecord]:
    members = [one for member_id in group.members for one in member_tombstones(group.id, member_id)]
    numbers = (s.STATE_PARTITIONS_KEY, s.TARGET_METADATA_KEY, s.METADATA_KEY)
    return [*members, *(_of_group(number, group.id, None) for number in numbers)]


def _apply_member(group: ShareGroup, key: Any, value: s.ShareGroupMemberMetadataValue | None) -> None:
    if value is None:
        group.members.pop(key.member_id, None)
        group.deadlines.pop(key.member_id, None)
        return
    group.members[key.member_id] = replace(
        group.members.get(key.member_id) or ShareMember(key.member_id),
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
    )


def _apply_current(group: ShareGroup, key: Any, value: s.ShareGroupCurrentMemberAssignmentValue | None) -> None:
    old = group.members.get(key.member_id)
    if value is not None:
        old = old or ShareMember(key.member_id)
        group.members[key.member_id] = replace(
            old,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=flatten(value.assigned_partitions),
        )
    elif old is not None:
        group.members[key.member_id] = replace(old, epoch=-1, previous_epoch=-1, assigned=NOTHING)


def _apply_initialized(group: ShareGroup, _: Any, value: s.ShareGroupStatePartitionMetadataValue | None) -> None:
    group.initialized = NOTHING if value is None else flatten(value.initialized_topics)


_TABLE = RecordSerde(
    {
        s.MEMBER_KEY: RecordType(s.ShareGroupMemberMetadataKey, s.ShareGroupMemberMetadataValue, _apply_member),
        s.METADATA_KEY: RecordType(s.ShareGroupMetadataKey, s.ShareGroupMetadataValue, apply_epoch),
        s.TARGET_METADATA_KEY: RecordType(
            s.ShareGroupMetadataKey, s.ShareGroupTargetAssignmentMetadataValue, apply_target_epoch
        ),
        s.TARGET_MEMBER_KEY: RecordType(
            s.ShareGroupMemberMetadataKey, s.ShareGroupTargetAssignmentMemberValue, apply_target
        ),
        s.STATE_PARTITIONS_KEY: RecordType(
            s.ShareGroupMetadataKey, s.ShareGroupStatePartitionMetadataValue, _apply_initialized
        ),
        s.CURRENT_MEMBER_KEY: RecordType(
            s.ShareGroupMemberMetadataKey, s.ShareGroupCurrentMemberAssignmentValue, _apply_current
        ),
    },
    end=s.METADATA_KEY,
)

is_known, group_of, replay = _TABLE.is_known, _TABLE.group_of, _TABLE.replay


def _topics(partitions: Assignment) -> list[s.TopicPartitions]:
    return [s.TopicPartitions(topic_id=t, partitions=p) for t, p in by_topic(partitions)]


def _of_group(number: int, group_id: str, value: Data | None) -> CoordinatorRecord:
    return record(number, s.ShareGroupMetadataKey(group_id=group_id), value)


def _of_member(number: int, group_id: str, member_id: str, value: Data | None) -> CoordinatorRecord:
    return record(number, s.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)
