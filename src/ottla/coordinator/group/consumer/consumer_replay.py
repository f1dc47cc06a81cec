"""Replay of the records of consumer groups in `__consumer_offsets`: the reverse of `consumer_records`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.coordinator.group.common.consumer_member import LEFT, NOTHING, Classic, ConsumerMember, MemberState, flatten
from ottla.coordinator.group.common.modern_group import apply_epoch, apply_target, apply_target_epoch
from ottla.coordinator.group.common.record_serde import RecordSerde, RecordType
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from ottla.protocol.messages import consumer_group_records as c


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
            group.put(replace(old, epoch=LEFT, previous_epoch=LEFT, assigned=NOTHING, revoking=NOTHING))
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
        # only its existence matters, so its value is not read: a tombstone follows with the next epoch
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
