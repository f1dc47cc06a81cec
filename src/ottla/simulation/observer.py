"""The observer checks invariants on all brokers that serve clients, several times per second of virtual time while
messages arrive. On request, it reports why the cluster has not recovered yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

from ottla.broker.broker_context import BrokerContext
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.model import TopicPartition
from ottla.replication.partition import Partition
from ottla.simulation.checking.partition_states import WrittenState
from ottla.simulation.cluster import SimulatedBroker, SimulatedCluster
from ottla.simulation.history import ORDERED, UNCLEAN, Ack

INTERVAL_SECONDS: Final = 0.25
LOST_SECONDS: Final = 30.0
"""Time in seconds after a power loss in which a replica may lack records that it had acknowledged."""
MAX_LACKING: Final = 1
"""Maximum number of replicas that may lack an acknowledged record: `min.insync.replicas`, two of the three, have it."""

Key = tuple[TopicPartition, UUID]
"""A partition with the id of its topic, because a topic that is deleted and created again starts with epoch 0."""


LOG_START: Final = "log start offset"


class WatchedReplica:
    """One replica of a partition, with its offsets and epochs, which must not decrease."""

    def __init__(self, partition: Partition, broker: SimulatedBroker) -> None:
        self.partition = partition
        self.starts, self._crashes = broker.starts, broker.crashes
        self._last: dict[str, int] = {}

    def restart(self, partition: Partition, broker: SimulatedBroker) -> None:
        """Continue after a restart of the broker. Only the log start offset has to survive it, and only after a
        controlled shutdown.
        """
        survives = (LOG_START,) if broker.crashes == self._crashes else ()
        self.partition, self.starts, self._crashes = partition, broker.starts, broker.crashes
        self._last = {name: value for name, value in self._last.items() if name in survives}

    def decreases(self, numbers: dict[str, int]) -> list[str]:
        """Return descriptions of the numbers that have decreased since the previous call."""
        last, self._last = self._last, {**self._last, **numbers}
        return [
            f"the {name} went back from {last[name]} to {value}"
            for name, value in numbers.items()
            if value < last.get(name, value)
        ]


class Observer:
    """Checks leaders, epochs, offsets such as the high watermark, and the owners of partitions in consumer groups."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        on_observed: Callable[[SimulatedBroker, BrokerContext, Sequence[Partition]], object],
    ) -> None:
        """Create an observer. `on_observed` is called for each broker, after its checks, with the partitions that have
        changed.
        """
        self._cluster = cluster
        self._on_observed = on_observed
        self.violations: list[str] = []
        self._leaders: dict[tuple[Key, int], int] = {}
        """The leader by partition and leader epoch."""
        self._replicas: dict[tuple[str, Key], WatchedReplica] = {}
        """The replicas by broker and partition."""
        self._seen: dict[TopicPartition, list[object]] = {}
        """The replicas of each partition and its written state, as they were at the previous check."""
        self._controllers: dict[tuple[str, int], int] = {}
        """The controller epoch by broker and start."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._watch())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        seen = 0
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            if seen == (seen := self._cluster.world.messages):
                continue  # changes by timers are checked after the next message
            serving = list(self._serving())
            changed = self._changed(serving)
            for broker, context in serving:
                start = broker.name, broker.starts
                epoch, last = context.image.controller_epoch, self._controllers.get(start, 0)
                if epoch < last:
                    self._add(f"the controller epoch of {broker.name} went back from {last} to {epoch}")
                self._controllers[start] = epoch
                partitions = [partition for partition in context.partitions if partition.topic_partition in changed]
                for partition in partitions:
                    self._check_replica(broker, partition)
                for group in context.groups.groups.by_id.values():
                    if isinstance(group, ConsumerGroup):
                        self._check_owners(group)
                self._on_observed(broker, context, partitions)

    def _changed(self, serving: Sequence[tuple[SimulatedBroker, BrokerContext]]) -> set[TopicPartition]:
        """Return the partitions of which a replica or the written state has changed since the previous call.

        Everything on which the checks of a partition depend is compared, so the checks of the other partitions would
        have the same results as before.
        """
        states = self._cluster.world.partition_states.states
        seen: dict[TopicPartition, list[object]] = {}
        for broker, context in serving:
            run = broker.id, broker.starts, self._may_lack(broker)
            for partition in context.partitions:
                log, leads = partition.log, partition.leads
                offsets = log.log_start_offset, log.high_watermark, log.log_end_offset
                stable = log.last_stable_offset if leads else None
                replica = run, partition, partition.topic_id, partition.image, leads, partition.failed, offsets, stable
                seen.setdefault(log.topic_partition, []).append(replica)
        for tp, replicas in seen.items():
            replicas.append(states.get((tp.topic, tp.partition)))
        before, self._seen = self._seen, seen
        return {tp for tp, replicas in seen.items() if before.get(tp) != replicas}

    def _serving(self) -> Iterator[tuple[SimulatedBroker, BrokerContext]]:
        for broker in self._cluster.brokers:
            if broker.context is not None:
                yield broker, broker.context

    def _watched(self, broker: SimulatedBroker, partition: Partition) -> WatchedReplica:
        """Return the watched replica: a new one at first, or if the broker had removed the replica and has it again."""
        key = broker.name, (partition.topic_partition, partition.topic_id)
        watched = self._replicas.get(key)
        if watched is None or (watched.starts == broker.starts and watched.partition is not partition):
            watched = self._replicas[key] = WatchedReplica(partition, broker)
        elif watched.starts != broker.starts:
            watched.restart(partition, broker)
        return watched

    def _add(self, text: str) -> None:
        if text not in self.violations:
            self.violations.append(text)

    def _check_replica(self, broker: SimulatedBroker, partition: Partition) -> None:
        key = partition.topic_partition, partition.topic_id
        watched = self._watched(broker, partition)
        epoch = partition.image.leader_epoch
        is_clean = key[0].topic != UNCLEAN
        numbers = {"leader epoch": epoch}
        if is_clean:  # otherwise replicas truncate records that an unclean leader does not have
            numbers |= {LOG_START: partition.log.log_start_offset, "high watermark": partition.high_watermark}
        if partition.leads and is_clean:
            numbers[f"last stable offset in epoch {epoch}"] = partition.log.last_stable_offset
        for text in watched.decreases(numbers):
            self._add(f"{key[0]} at {broker.name}: {text}")
        if not partition.leads:
            return
        leader = self._leaders.setdefault((key, epoch), broker.id)
        if leader != broker.id:
            self._add(f"{key[0]} has two leaders of epoch {epoch}: {leader} and {broker.id}")
        stable = partition.log.last_stable_offset
        if stable > partition.high_watermark:
            self._add(f"{key[0]}: last stable offset {stable} is above high watermark {partition.high_watermark}")
        state = self._cluster.world.partition_states.states.get((key[0].topic, key[0].partition))
        if state is not None and (state.leader, state.leader_epoch) == (broker.id, epoch):
            self._check_followers(partition, state)

    def _check_followers(self, partition: Partition, state: WrittenState) -> None:
        """Check that every in-sync replica has all records below the leader's high watermark.

        Not checked: replicas that are missing or out of service, and those on brokers that do not serve clients or have
        lost power recently.
        """
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
        """Check that at most MAX_LACKING replicas lack the acknowledged record. Replicas on brokers that do not serve
        clients, or have lost power recently, do not count. A record without an offset is not checked.
        """
        if ack.offset is None:
            return
        tp = TopicPartition(ORDERED, ack.sent.partition)
        lacking = []
        for broker, context in self._serving():
            replica = context.partitions.get(tp)
            if replica is not None and not self._may_lack(broker) and replica.log.log_end_offset <= ack.offset:
                lacking.append(broker.name)
        if len(lacking) > MAX_LACKING:
            self._add(f"{tp} offset {ack.offset} was acknowledged, but {', '.join(lacking)} do not have it")

    def open_transactions(self) -> list[str]:
        """Return descriptions of the transactions that are open in the logs of leaders."""
        return [
            f"{partition.topic_partition} has open transactions from offsets {sorted(partition.log.producers.ongoing)}"
            for _, context in self._serving()
            for partition in context.partitions
            if partition.leads and partition.log.producers.ongoing
        ]

    def incomplete(self) -> list[str]:
        """Return the reasons why the cluster has not recovered completely; empty if it has."""
        missing = []
        for broker in self._cluster.brokers:
            context = broker.context
            if context is None:
                missing.append(f"{broker.name} does not serve clients")
                continue
            image = context.image
            if len(image.brokers) < len(self._cluster.brokers):
                missing.append(f"{broker.name} knows only brokers {sorted(image.brokers)}")
            for topic in image.topics.values():
                for number, partition in enumerate(topic.partitions):
                    if set(partition.isr) != set(partition.replicas) or partition.leader < 0:
                        missing.append(f"{topic.name}-{number} has ISR {partition.isr} at {broker.name}")
        return missing
