"""Heartbeat requests of a KIP-848 member. Most fields are left out if they have not changed since the last request.
Kafka's `HeartbeatState`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ottla.client.consumer.subscription import Subscription
from ottla.config.consumer import ConsumerConfig
from ottla.model import TopicPartition
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

JOIN_EPOCH = 0

Owned = Mapping[TopicPartition, UUID]
"""The current assignment: the topic id of each partition."""


class GroupHeartbeat:
    """Creates the heartbeat requests of one member."""

    def __init__(self, config: ConsumerConfig, subscription: Subscription) -> None:
        self.config = config
        self.subscription = subscription
        self._sent: dict[str, Any] = {}
        """The values of the fields in the requests since the last reset."""

    def reset(self) -> None:
        """Include all fields in the next request."""
        self._sent = {}

    @property
    def has_changes(self) -> bool:
        """Whether the subscription has changed since the last request; False after a reset."""
        return bool(self._sent) and any(self._sent.get(k) != v for k, v in self._subscribed().items())

    def join_request(self, member_id: str) -> ConsumerGroupHeartbeatRequest:
        """Return the request that joins the group; it contains all fields."""
        self.reset()
        return self._request(member_id, JOIN_EPOCH, {})

    def next_request(
        self, member_id: str, epoch: int, owned: Owned, *, acknowledges: bool
    ) -> ConsumerGroupHeartbeatRequest:
        """Return a request of a member. If it acknowledges an assignment, it contains the assignment in any case."""
        if acknowledges:
            self._sent.pop("topic_partitions", None)
        return self._request(member_id, epoch, owned)

    def _request(self, member_id: str, epoch: int, owned: Owned) -> ConsumerGroupHeartbeatRequest:
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": self.config.max_poll_interval_ms,
            "server_assignor": self.config.group_remote_assignor,
            "rack_id": self.config.client_rack or None,
            **self._subscribed(),
        }
        if "topic_partitions" not in self._sent:
            fields["topic_partitions"] = by_topic(owned)
        changed = {name: value for name, value in fields.items() if self._sent.get(name) != value}
        self._sent.update(fields)
        return ConsumerGroupHeartbeatRequest(
            group_id=self.config.group_id or "",
            member_id=member_id,
            member_epoch=epoch,
            instance_id=self.config.group_instance_id,
            **changed,
        )

    def _subscribed(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"subscribed_topic_names": sorted(self.subscription.topics)}
        pattern = self.subscription.remote_pattern
        if pattern is not None or self._sent.get("subscribed_topic_regex"):
            fields["subscribed_topic_regex"] = pattern or ""
        return fields


def by_topic(owned: Owned) -> list[TopicPartitions]:
    """Return the partitions grouped by topic id, as heartbeats contain them."""
    topics: dict[UUID, list[int]] = {}
    for tp, topic_id in sorted(owned.items()):
        topics.setdefault(topic_id, []).append(tp.partition)
    return [TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topics.items()]
