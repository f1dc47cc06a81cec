"""AlterPartition in the controller: which ISR updates of leaders it accepts (KIP-497)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from ottla import errors
from ottla.cluster.controller import reassignment_rules
from ottla.cluster.controller.context import ControllerContext, with_states
from ottla.cluster.controller.reassignment import PartitionReassignments
from ottla.cluster.image.cluster_image import PartitionImage
from ottla.model import TopicPartition


class AlterPartitionItem(NamedTuple):
    """An ISR that a leader requests.

    `leader_epoch` and `state_version` are those of the partition state that the request is based on.
    """

    tp: TopicPartition
    leader_epoch: int
    state_version: int
    isr: tuple[int, ...]
    broker_epochs: Mapping[int, int] = MappingProxyType({})
    """Broker epochs of the replicas in the ISR, as far as the leader knows them."""


class IsrUpdates:
    """Accepts or rejects ISR updates of leaders."""

    def __init__(self, context: ControllerContext, moves: PartitionReassignments) -> None:
        self._context = context
        self._reassignments = moves

    async def alter_partition(
        self,
        broker_id: int,
        tp: TopicPartition,
        image: PartitionImage,
        isr: tuple[int, ...],
        broker_epochs: Mapping[int, int] = MappingProxyType({}),
    ) -> PartitionImage:
        """Write the ISR that a leader requests for one partition, and return the new state of the partition.

        Raises the error that the controller rejects the request with, such as FencedLeaderEpochError.
        """
        item = AlterPartitionItem(tp, image.leader_epoch, image.state_version, isr, broker_epochs)
        (result,) = await self.alter_partitions(broker_id, -1, [item])
        if isinstance(result, errors.KafkaError):
            raise result
        return result

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, items: Sequence[AlterPartitionItem]
    ) -> list[PartitionImage | errors.KafkaError]:
        """Write the ISRs that a broker requests for the partitions that it leads (KIP-497).

        Return the new state or the error of each item. Raises StaleBrokerEpochError if the broker is not registered, or
        `broker_epoch` is that of an earlier registration, and NotControllerError outside a term.
        """
        try:
            return await self._alter_partitions(broker_id, broker_epoch, items)
        except asyncio.CancelledError:  # the leader has disconnected
            self._reassignments.complete_later()
            raise

    async def _alter_partitions(
        self, broker_id: int, broker_epoch: int, items: Sequence[AlterPartitionItem]
    ) -> list[PartitionImage | errors.KafkaError]:
        async with self._context.exclusive():
            broker = self._context.image.brokers.get(broker_id)
            if broker is None or -1 < broker_epoch < broker.epoch:
                raise errors.StaleBrokerEpochError
            results: dict[TopicPartition, PartitionImage | errors.KafkaError] = {}
            updates: dict[TopicPartition, PartitionImage] = {}
            for item in items:
                try:
                    after = self._decide(broker_id, item)
                except errors.KafkaError as error:
                    results[item.tp] = error
                else:
                    if after == self._context.image.partition(item.tp):
                        results[item.tp] = after
                    else:
                        updates[item.tp] = after
            done = await self._context.write(updates)
            results.update({tp: errors.InvalidUpdateVersionError() for tp in updates})
            results.update(done)
            await self._context.publish(lambda current: with_states(current, done))
            if self._context.uncertain:
                await self._context.reload_states(self._context.uncertain)
        if any(reassignment_rules.is_reassigning(p) for p in done.values()):
            await self._reassignments.complete_finished()
        return [results[item.tp] for item in items]

    def _decide(self, broker_id: int, item: AlterPartitionItem) -> PartitionImage:
        image, offline, leaving = self._context.image, self._context.offline_replicas, self._context.shutting_down
        p = image.partition(item.tp)
        if p is None:
            raise errors.UnknownTopicOrPartitionError
        if item.leader_epoch < p.leader_epoch:
            raise errors.FencedLeaderEpochError
        if item.leader_epoch > p.leader_epoch or item.state_version > p.state_version:
            raise errors.NotControllerError("the leader has a newer state than this controller")
        if broker_id != p.leader or broker_id not in item.isr:
            raise errors.InvalidRequestError(f"broker {broker_id} is not the leader, or not in the requested ISR")
        if item.isr == p.isr:
            return p
        if item.state_version < p.state_version:
            raise errors.InvalidUpdateVersionError
        for member in item.isr:
            broker = image.brokers.get(member)
            stale = broker is not None and -1 < item.broker_epochs.get(member, -1) < broker.epoch
            absent = broker is None or stale or member in leaving or item.tp in offline.get(member, ())
            if (absent or member not in p.replicas) and member not in p.isr:
                raise errors.IneligibleReplicaError(
                    f"broker {member} cannot be in sync now: it is no replica, not alive, shutting down, or offline"
                )
        return replace(p, isr=item.isr)
