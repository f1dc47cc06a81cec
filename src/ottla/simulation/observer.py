"""Looks at all brokers several times a second for what must never happen, and for what a whole cluster has."""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.broker.broker_context import BrokerContext
from ottla.model import TopicPartition
from ottla.replication.partition import Partition
from ottla.simulation.cluster import SimulatedBroker, SimulatedCluster

INTERVAL_SECONDS: Final = 0.5


class Observer:
    """Watches the leaders, their epochs and their watermarks."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.violations: list[str] = []
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        """The leader by partition and leader epoch."""
        self._watermarks: dict[tuple[TopicPartition, int, int], int] = {}
        """The high watermark by partition, leader epoch and run of the leader."""
        self._starts: dict[tuple[TopicPartition, int], int] = {}
        """The log start offset by partition and broker."""
        self._controllers: dict[int, int] = {}
        """The controller by controller epoch."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._watch())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            for broker in self._cluster.brokers:
                context = _context(broker)
                if context is not None:
                    for partition in context.partitions:
                        self._look(broker, partition)

    def _look(self, broker: SimulatedBroker, partition: Partition) -> None:
        tp = partition.topic_partition
        start = partition.log.log_start_offset
        if start < self._starts.get((tp, broker.id), 0):
            self.violations.append(f"the log start offset of {tp} went back to {start} at {broker.name}")
        self._starts[tp, broker.id] = start
        if not partition.leads:
            return
        epoch = partition.image.leader_epoch
        leader = self._leaders.setdefault((tp, epoch), broker.id)
        if leader != broker.id:
            self.violations.append(f"{tp} has two leaders of epoch {epoch}: {leader} and {broker.id}")
        key = (tp, epoch, broker.runs)
        watermark = partition.high_watermark
        if watermark < self._watermarks.get(key, 0):
            self.violations.append(f"the high watermark of {tp} went back to {watermark} in epoch {epoch}")
        self._watermarks[key] = watermark

    def incomplete(self) -> list[str]:
        """Return what a whole cluster has and this one does not."""
        missing = []
        for broker in self._cluster.brokers:
            context = _context(broker)
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


def _context(broker: SimulatedBroker) -> BrokerContext | None:
    return None if broker.node is None else broker.node._context
