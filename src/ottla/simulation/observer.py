"""Looks at all brokers several times a second for what must never happen, and for what a whole cluster has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from ottla.broker.broker_context import BrokerContext
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.model import TopicPartition
from ottla.replication.partition import Partition
from ottla.simulation.checking.partition_states import WrittenState
from ottla.simulation.cluster import SimulatedBroker, SimulatedCluster
from ottla.simulation.history import ORDERED, Ack

INTERVAL_SECONDS: Final = 0.25
LOST_SECONDS: Final = 30.0
"""Time after a loss of power in which a replica may lack records that it had acknowledged."""
MAX_LACKING: Final = 1
"""Replicas that may lack an acknowledged record: of three, `min.insync.replicas` have it."""

Key = tuple[TopicPartition, UUID]
"""A partition; with its topic's id, as a topic that was deleted and created again starts with epoch 0."""


class Observer:
    """Watches leaders, epochs, watermarks, and the owners of partitions in groups."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.violations: list[str] = []
        self._leaders: dict[tuple[Key, int], int] = {}
        """The leader by partition and leader epoch."""
        self._lowest: dict[tuple[object, ...], int] = {}
        """The last value of each number that must not go back, by what it is about."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._watch())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            for broker, context in self._serving():
                self._not_back(context.image.controller_epoch, "the controller epoch of", broker.name, broker.starts)
                for partition in context.partitions:
                    self._look(broker, partition)
                for group in context.groups.groups.by_id.values():
                    if isinstance(group, ConsumerGroup):
                        self._check_owners(group)

    def _serving(self) -> Iterator[tuple[SimulatedBroker, BrokerContext]]:
        for broker in self._cluster.brokers:
            if broker.context is not None:
                yield broker, broker.context

    def _not_back(self, value: int, *about: object) -> None:
        if value < self._lowest.get(about, value):
            self._add(f"{' '.join(map(str, about))} went back from {self._lowest[about]} to {value}")
        self._lowest[about] = value

    def _add(self, text: str) -> None:
        if text not in self.violations:
            self.violations.append(text)

    def _look(self, broker: SimulatedBroker, partition: Partition) -> None:
        key = partition.topic_partition, partition.topic_id
        name = f"{key[0]} {str(key[1])[:8]}"
        self._not_back(partition.log.log_start_offset, "the log start offset of", name, "at", broker.name)
        self._not_back(partition.high_watermark, "the high watermark of", name, "in run", broker.starts, broker.name)
        epoch = partition.image.leader_epoch
        self._not_back(epoch, "the leader epoch of", name, "in run", broker.starts, "of", broker.name)
        if not partition.leads:
            return
        leader = self._leaders.setdefault((key, epoch), broker.id)
        if leader != broker.id:
            self._add(f"{key[0]} has two leaders of epoch {epoch}: {leader} and {broker.id}")
        stable = partition.log.last_stable_offset
        self._not_back(stable, "the last stable offset of", name, "in epoch", epoch, "run", broker.starts)
        if stable > partition.high_watermark:
            self._add(f"the last stable offset of {name} is {stable}, its high watermark {partition.high_watermark}")
        state = self._cluster.world.partition_states.states.get((key[0].topic, key[0].partition))
        if state is not None and (state.leader, state.leader_epoch) == (broker.id, epoch):
            self._check_followers(partition, state)

    def _check_followers(self, partition: Partition, state: WrittenState) -> None:
        """Check that every replica in sync has what consumers may read."""
        for broker, context in self._serving():
            replica = context.partitions.get(partition.topic_partition)
            if broker.id not in state.isr or replica is None or replica.failed or self._may_lack(broker):
                continue
            if replica.topic_id == partition.topic_id and replica.log.log_end_offset < partition.high_watermark:
                self._add(
                    f"the high watermark of {partition.topic_partition} is {partition.high_watermark} in epoch "
                    f"{state.leader_epoch}, but {broker.name}, in the ISR, ends at {replica.log.log_end_offset}"
                )

    def _may_lack(self, broker: SimulatedBroker) -> bool:
        return self._cluster.world.loop.time() - broker.power_lost_at < LOST_SECONDS

    def _check_owners(self, group: ConsumerGroup) -> None:
        owners: dict[object, str] = {}
        for member in group.members.values():
            for partition in member.holds:
                owner = owners.setdefault(partition, member.id)
                if owner != member.id:
                    self._add(f"{owner} and {member.id} of group {group.id} both have partition {partition.partition}")

    def on_ack(self, ack: Ack) -> None:
        """Check that enough replicas have an acknowledged record."""
        if ack.offset is None:
            return
        tp = TopicPartition(ORDERED, ack.sent.partition)
        lacking = []
        for broker, context in self._serving():
            replica = context.partitions.get(tp)
            if replica is not None and not self._may_lack(broker) and replica.log.log_end_offset <= ack.offset:
                lacking.append(broker.name)
        if len(lacking) > MAX_LACKING:
            self._add(f"{tp} offset {ack.offset} was acknowledged, but {', '.join(lacking)} have it not")

    def incomplete(self) -> list[str]:
        """Return what a whole cluster has and this one does not."""
        missing = []
        for broker in self._cluster.brokers:
            context = broker.context
            if context is None:
                missing.append(f"{broker.name} does not serve clients")
                continue
            image = context.image
            if len(image.brokers) < len(self._cluster.brokers):
                missing.append(f"{broker.name} knows brokers {sorted(image.brokers)} only")
            for topic in image.topics.values():
                for number, partition in enumerate(topic.partitions):
                    if set(partition.isr) != set(partition.replicas) or partition.leader < 0:
                        missing.append(f"{topic.name}-{number} has ISR {partition.isr} at {broker.name}")
        return missing
