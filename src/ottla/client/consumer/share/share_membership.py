"""Membership in a share group (KIP-932). Kafka's `ShareMembershipManager`.

The partitions of a share group are not exclusive: nothing has to be revoked, committed or acknowledged before a new
assignment is adopted. Heartbeats have fewer fields than those of `ConsumerMembership`.
"""

from __future__ import annotations

from typing import Any

from ottla.client.consumer.group.consumer_membership import LEAVE_EPOCH, ConsumerMembership, State
from ottla.client.consumer.group.group_heartbeat import JOIN_EPOCH
from ottla.client.consumer.metrics import CoordinatorMetrics
from ottla.client.consumer.poll_trigger import PollTrigger
from ottla.client.consumer.subscription import Subscription
from ottla.client.core.coordinator import Coordinator
from ottla.client.core.metadata import Metadata
from ottla.config.share_consumer import ShareConsumerConfig
from ottla.protocol.message import Request
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


async def _nothing() -> None:
    """Do nothing. A share consumer has no positions to commit before partitions are revoked."""


class ShareMembership(ConsumerMembership):
    """A member of a share group."""

    unsupported = "the cluster does not support share groups (KIP-932, Kafka 4.1 and Ottla)"

    def __init__(
        self,
        config: ShareConsumerConfig,
        coordinator: Coordinator,
        metadata: Metadata,
        subscription: Subscription,
        metrics: CoordinatorMetrics,
        poll_trigger: PollTrigger,
    ) -> None:
        super().__init__(config, coordinator, metadata, subscription, metrics, poll_trigger, _nothing)

    def _request(self) -> Request[Any]:
        # Of the changes in a consumer group's heartbeat, a share group's heartbeat has the subscription and the rack.
        epoch = JOIN_EPOCH if self.state is State.JOINING else self.generation
        changes = self._beats.next_request(self.member_id, epoch, self._owned, acknowledges=False)
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=changes.rack_id,
            subscribed_topic_names=changes.subscribed_topic_names,
        )

    def _leave_request(self, epoch: int) -> Request[Any]:
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH, subscribed_topic_names=None
        )
