"""In-sync replicas as leaders want them (KIP-497): what the controller takes, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from ottla.cluster.controller import reassignment_rules
from ottla.cluster.controller.context import ControllerContext, with_states
from ottla.cluster.controller.reassignment import PartitionReassignments
from ottla.cluster.image.cluster_image import PartitionImage
from ottla.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    KafkaError,
    NotControllerError,
    StaleBrokerEpochError,
    UnknownTopicOrPartitionError,
)
from ottla.model import TopicPartition


class Proposal(NamedTuple):
    """An ISR as a leader wants it, and the state of the partition that it starts from."""

    tp: TopicPartition
    leader_epoch: int
    state_version: int
    isr: tuple[int, ...]
    broker_epochs: Mapping[int, int] = MappingProxyType({})
    """Epochs of the brokers in it, as far as the leader knows them."""


class IsrUpdates:
    """Decides on proposals of leaders."""

    def __init__(self, context: ControllerContext, moves: PartitionReassignments) -> None:
        self._context = context
        self._moves = moves

    async def alter_partition(
        self,
        broker_id: int,
        tp: TopicPartition,
        image: PartitionImage,
        isr: tuple[int, ...],
        broker_epochs: Mapping[int, int] = MappingProxyType({}),
    ) -> PartitionImage:
        """Give a partition the ISR that its leader proposes; the state as it is then."""
        proposal = Proposal(tp, image.leader_epoch, image.state_version, isr, broker_epochs)
        (answer,) = await self.alter_partitions(broker_id, -1, [proposal])
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[Proposal]
    ) -> list[PartitionImage | KafkaError]:
        """The same for many proposals of one leader; each has a state, or an error of its own (KIP-497)."""
        async with self._context.turn():
            broker = self._context.image.brokers.get(broker_id)
            if broker is None or -1 < broker_epoch < broker.epoch:
                raise StaleBrokerEpochError
            answers: dict[TopicPartition, PartitionImage | KafkaError] = {}
            wanted: dict[TopicPartition, PartitionImage] = {}
            for proposal in proposals:
                try:
                    after = self._proposed(broker_id, proposal)
                except KafkaError as error:
                    answers[proposal.tp] = error
                else:
                    known = self._context.image.partition(proposal.tp)
                    if after == known:
                        answers[proposal.tp] = after
                    else:
                        wanted[proposal.tp] = after
            done = await self._context.write(wanted)
            answers.update({tp: InvalidUpdateVersionError() for tp in wanted})
            answers.update(done)
            await self._context.publish(lambda view: with_states(view, done))
            if self._context.in_doubt:
                await self._context.take_states(self._context.in_doubt)
        if any(reassignment_rules.is_moving(p) for p in done.values()):
            await self._moves.go_on()
        return [answers[proposal.tp] for proposal in proposals]

    def _proposed(self, broker_id: int, proposal: Proposal) -> PartitionImage:
        image, broken, leaving = self._context.image, self._context.broken, self._context.leaving
        p = image.partition(proposal.tp)
        if p is None:
            raise UnknownTopicOrPartitionError
        if proposal.leader_epoch < p.leader_epoch:
            raise FencedLeaderEpochError
        if proposal.leader_epoch > p.leader_epoch or proposal.state_version > p.state_version:
            raise NotControllerError("the leader knows more than this controller")
        if broker_id != p.leader or broker_id not in proposal.isr:
            raise InvalidRequestError(f"{broker_id} is not the leader, or leaves itself out")
        if proposal.isr == p.isr:
            return p
        if proposal.state_version < p.state_version:
            raise InvalidUpdateVersionError
        for member in proposal.isr:
            known = image.brokers.get(member)
            stale = known is not None and -1 < proposal.broker_epochs.get(member, -1) < known.epoch
            absent = known is None or stale or member in leaving or proposal.tp in broken.get(member, ())
            if (absent or member not in p.replicas) and member not in p.isr:
                raise IneligibleReplicaError(f"broker {member} cannot be in sync now")
        return replace(p, isr=proposal.isr)
