"""A group coordinator with a log, a clock and topics, without a broker, for tests of consumer groups."""

from __future__ import annotations

from itertools import count
from typing import Any
from uuid import UUID

from ottla.clock import ManualClock
from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_groups import GroupClient
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.group_coordinator import GroupCoordinator
from ottla.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from ottla.errors import for_code
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

CLIENT = GroupClient("client", "/127.0.0.1")
Owned = dict[str, list[int]]


def topic_id(name: str) -> UUID:
    return UUID(bytes=name.encode().ljust(16, b"."))


class World:
    """One coordinator. `log`: the records of its group's partition."""

    def __init__(self, topics: dict[str, int] | None = None, **options: Any) -> None:
        self.clock = ManualClock()
        self.config = BrokerConfig(
            {"group.initial.rebalance.delay.ms": 0, **{k.replace("_", "."): v for k, v in options.items()}}
        )
        self.image = ClusterImage("c")
        self.topics({"t": 6} if topics is None else topics)
        self.log: list[CoordinatorRecord] = []
        self.ids = count(1)
        self.coordinator = self.new_coordinator()
        self.responses: dict[object, Any] = {}
        self.client = CLIENT

    def new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(self.config, self.clock, lambda: self.image, lambda: str(next(self.ids)))

    def topics(self, sizes: dict[str, int], **options: dict[str, str]) -> None:
        partition = PartitionImage(0, 0, (0,), (0,))
        topics = {name: TopicImage(name, topic_id(name), (partition,) * size) for name, size in sizes.items()}
        names = {topic.id: name for name, topic in topics.items()}
        set_on = {path.replace("__", "/"): value for path, value in options.items()}
        self.image = ClusterImage("c", topics=topics, names=names, configs=set_on)

    def apply(self, result: CoordinatorResult) -> None:
        for record in result.records:
            self.coordinator.replay(record.key, record.value, live=True)
        self.log += result.records
        if result.replacement is not None:
            self.coordinator.by_id[result.replacement.id] = result.replacement
        for token, response in result.responses:
            assert token not in self.responses, f"{token} has two responses"
            self.responses[token] = response

    def restart(self) -> None:
        """Restart the coordinator: replay the log as compaction leaves it."""
        self.coordinator = self.new_coordinator()
        latest = {record.key: record for record in self.log}
        for record in self.log:
            if latest[record.key] is record:
                self.coordinator.replay(record.key, record.value, live=False)

    def heartbeat(
        self, member: str, epoch: int, owned: Owned | None = None, **more: Any
    ) -> ConsumerGroupHeartbeatResponse:
        topic_partitions = None
        if owned is not None:
            topic_partitions = [TopicPartitions(topic_id=topic_id(t), partitions=p) for t, p in owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member, member_epoch=epoch, topic_partitions=topic_partitions, **more
        )
        return self.send_heartbeat(request)

    def send_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int = 1
    ) -> ConsumerGroupHeartbeatResponse:
        token = object()
        self.apply(self.coordinator.consumer_heartbeat(request, version, self.client, token))
        response = self.responses[token]
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def join(self, member: str, topics: str | None = "t", **more: Any) -> ConsumerGroupHeartbeatResponse:
        names = None if topics is None else topics.split(",")
        timeout = more.pop("rebalance_timeout_ms", 60_000)
        return self.heartbeat(member, 0, {}, rebalance_timeout_ms=timeout, subscribed_topic_names=names, **more)

    def leave(self, member: str, epoch: int = -1, **more: Any) -> ConsumerGroupHeartbeatResponse:
        return self.heartbeat(member, epoch, **more)

    def pass_time(self, ms: float) -> None:
        self.clock.advance(ms)
        for group in list(self.coordinator.by_id.values()):
            if group.next_deadline() <= self.clock.monotonic():
                self.apply(self.coordinator.expire(group))

    @property
    def group(self) -> ConsumerGroup:
        group = self.coordinator.by_id["g"]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def classic(self) -> ClassicGroup:
        group = self.coordinator.by_id["g"]
        assert isinstance(group, ClassicGroup)
        return group


def error(response: Any) -> str | None:
    return for_code(response.error_code).name if response.error_code else None


def assigned(response: ConsumerGroupHeartbeatResponse) -> Owned | None:
    """Return the assignment of a response by topic name."""
    if response.assignment is None:
        return None
    return {t.topic_id.bytes.rstrip(b".").decode(): t.partitions for t in response.assignment.topic_partitions}
