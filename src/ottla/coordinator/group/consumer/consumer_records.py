"""The records of consumer groups in `__consumer_offsets`, in Kafka's format, and their replay.

Kafka's replay requires this order of tombstones: the current and target assignments of a member, then the member; for a
whole group, the target assignment's epoch before the group's epoch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.coordinator.group.common.consumer_member import (
    LEAVE_GROUP_EPOCH,
    NOTHING,
    Assignment,
    Classic,
    ConsumerMember,
    MemberState,
    by_topic,
    flatten,
)
from ottla.coordinator.group.common.modern_group import apply_epoch, apply_target, apply_target_epoch
from ottla.coordinator.group.common.record_serde import RecordSerde, RecordType, record
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.protocol.message import Data
from ottla.protocol.messages import consumer_group_records as c


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of the group's epoch and the hash of its topics."""
    value = c.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _of_group(c.METADATA_KEY, group_id, value)


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> CoordinatorRecord:
    """Return the record of the group epoch for which the target assignment was computed."""
    value = c.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return _of_group(c.TARGET_METADATA_KEY, group_id, value)


def topics_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of the ConsumerGroupPartitionMetadata record, which Kafka wrote before 4.1."""
    return _of_group(c.PARTITION_METADATA_KEY, group_id, None)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> CoordinatorRecord:
    """Return the record of a resolved regular expression; a tombstone if `resolved` is None."""
    value = None
    if resolved is not None:
        value = c.ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        )
    return record(c.REGEX_KEY, c.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    classic = None
    if member.classic is not None:
        protocols = [c.ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols]
        classic = c.ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms, supported_protocols=protocols
        )
    value = c.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )
    return _of_member(c.MEMBER_KEY, group_id, member.id, value)


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    topics = [c.TargetTopicPartition(topic_id=t, partitions=p) for t, p in by_topic(target)]
    value = c.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)
    return _of_member(c.TARGET_MEMBER_KEY, group_id, member_id, value)


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member's current assignment."""
    value = c.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_current(member.assigned),
        partitions_pending_revocation=_current(member.revoking),
    )
    return _of_member(c.CURRENT_MEMBER_KEY, group_id, member.id, value)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    keys = (c.CURRENT_MEMBER_KEY, c.TARGET_MEMBER_KEY, c.MEMBER_KEY)
    return [_of_member(key, group_id, member_id, None) for key in keys]


def group_tombstones(group: ConsumerGroup) -> list[CoordinatorRecord]:
    records = [_of_member(c.CURRENT_MEMBER_KEY, group.id, m, None) for m in group.members]
    records += [_of_member(c.TARGET_MEMBER_KEY, group.id, m, None) for m in group.targets]
    records.append(_of_group(c.TARGET_METADATA_KEY, group.id, None))
    records += [_of_member(c.MEMBER_KEY, group.id, m, None) for m in group.members]
    records += [regex_record(group.id, regex, None) for regex in group.regexes]
    if group.has_topics_record:
        records.append(topics_tombstone(group.id))
    records.append(_of_group(c.METADATA_KEY, group.id, None))
    return records


def _current(partitions: Assignment) -> list[c.CurrentTopicPartitions]:
    return [c.CurrentTopicPartitions(topic_id=t, partitions=p) for t, p in by_topic(partitions)]


def _of_group(number: int, group_id: str, value: Data | None) -> CoordinatorRecord:
    return record(number, c.ConsumerGroupMetadataKey(group_id=group_id), value)


def _of_member(number: int, group_id: str, member_id: str, value: Data | None) -> CoordinatorRecord:
    return record(number, c.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def _apply_topics(group: ConsumerGroup, _key: Any, value: object) -> None:
    group.has_topics_record = value is not None


def _apply_regex(
    group: ConsumerGroup,
    key: c.ConsumerGroupRegularExpressionKey,
    value: c.ConsumerGroupRegularExpressionValue | None,
) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        group.regexes[key.regular_expression] = resolved


def _apply_member(group: ConsumerGroup, key: Any, value: c.ConsumerGroupMemberMetadataValue | None) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    metadata = value.classic_member_metadata
    classic = None
    if metadata is not None:
        classic = Classic(
            metadata.session_timeout_ms, tuple((p.name, p.metadata) for p in metadata.supported_protocols)
        )
    group.put(
        replace(
            group.members.get(key.member_id) or ConsumerMember(key.member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=classic,
        )
    )


def _apply_current(group: ConsumerGroup, key: Any, value: c.ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
    old = group.members.get(key.member_id)
    if value is None:
        if old is not None:
            group.put(
                replace(
                    old, epoch=LEAVE_GROUP_EPOCH, previous_epoch=LEAVE_GROUP_EPOCH, assigned=NOTHING, revoking=NOTHING
                )
            )
        return
    group.put(
        replace(
            old or ConsumerMember(key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=flatten(value.assigned_partitions),
            revoking=flatten(value.partitions_pending_revocation),
        )
    )


_TABLE = RecordSerde(
    {
        c.METADATA_KEY: RecordType(c.ConsumerGroupMetadataKey, c.ConsumerGroupMetadataValue, apply_epoch),
        # only its existence matters: the next epoch writes a tombstone for it
        c.PARTITION_METADATA_KEY: RecordType(
            c.ConsumerGroupMetadataKey, c.ConsumerGroupPartitionMetadataValue, _apply_topics
        ),
        c.MEMBER_KEY: RecordType(c.ConsumerGroupMemberMetadataKey, c.ConsumerGroupMemberMetadataValue, _apply_member),
        c.TARGET_METADATA_KEY: RecordType(
            c.ConsumerGroupMetadataKey, c.ConsumerGroupTargetAssignmentMetadataValue, apply_target_epoch
        ),
        c.TARGET_MEMBER_KEY: RecordType(
            c.ConsumerGroupMemberMetadataKey, c.ConsumerGroupTargetAssignmentMemberValue, apply_target
        ),
        c.CURRENT_MEMBER_KEY: RecordType(
            c.ConsumerGroupMemberMetadataKey, c.ConsumerGroupCurrentMemberAssignmentValue, _apply_current
        ),
        c.REGEX_KEY: RecordType(
            c.ConsumerGroupRegularExpressionKey, c.ConsumerGroupRegularExpressionValue, _apply_regex
        ),
    },
    end=c.METADATA_KEY,
)

is_known, group_of, replay = _TABLE.is_known, _TABLE.group_of, _TABLE.replay
