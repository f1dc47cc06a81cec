"""Encoding of subscriptions and assignments of classic groups. Kafka's `ConsumerProtocol`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.consumer.group.assignors import Assignor, MemberSubscription, group_by_topic
from ottla.model import TopicPartition
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.messages.join_group import JoinGroupResponseMember
from ottla.protocol.versioned import decode_versioned, encode_versioned

SUBSCRIPTION_VERSION: Final = 3
ASSIGNMENT_VERSION: Final = 1

LastAssignment = tuple[int, set[TopicPartition]]
"""The generation and the partitions of the last assignment. `StickyAssignor` needs them after all partitions were
revoked.
"""


def subscription(
    assignor: Assignor,
    topics: frozenset[str],
    owned: Sequence[TopicPartition],
    generation: int,
    last: LastAssignment,
    rack: str | None,
) -> bytes:
    """Encode the subscription of a member."""
    user_data = getattr(assignor, "user_data", None)
    return encode_versioned(
        ConsumerProtocolSubscription(
            topics=sorted(topics),
            user_data=None if user_data is None else user_data(sorted(last[1]), last[0]),
            owned_partitions=group_by_topic(owned),
            generation_id=generation,
            rack_id=rack,
        ),
        SUBSCRIPTION_VERSION,
    )


def members(joined: Sequence[JoinGroupResponseMember]) -> dict[str, MemberSubscription]:
    """Decode the subscriptions of all members, by member id."""
    subscriptions = {}
    for member in joined:
        subscription = decode_versioned(ConsumerProtocolSubscription, member.metadata)
        owned = tuple(TopicPartition(t.topic, p) for t in subscription.owned_partitions for p in t.partitions)
        subscriptions[member.member_id] = MemberSubscription(
            tuple(subscription.topics),
            owned,
            subscription.generation_id,
            subscription.user_data,
            member.group_instance_id,
        )
    return subscriptions


def assignments(decided: Mapping[str, Sequence[TopicPartition]]) -> dict[str, bytes]:
    """Encode the assignments, by member id."""
    return {
        member: encode_versioned(
            ConsumerProtocolAssignment(assigned_partitions=group_by_topic(partitions)), ASSIGNMENT_VERSION
        )
        for member, partitions in decided.items()
    }


def assigned(data: bytes) -> set[TopicPartition]:
    """Decode the assignment of a member."""
    assignment = decode_versioned(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()
    return {TopicPartition(t.topic, p) for t in assignment.assigned_partitions for p in t.partitions}
