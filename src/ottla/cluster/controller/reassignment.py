"""Partitions move to other brokers (KIP-455): what of it is the controller's. The decisions are in `reassignments`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ottla.cluster.controller import partition_states, reassignment_rules
from ottla.cluster.controller.context import ControllerContext, all_partitions, with_states
from ottla.cluster.controller.partition_states import States
from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import PartitionImage
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import BadVersionError, Delete, NoNodeError, Operation, Set
from ottla.errors import InvalidReplicaAssignmentError, NoReassignmentInProgressError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition


class PartitionReassignments:
    """Begins moves, takes them back, and finishes those whose targets are in sync."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def reassign(self, tp: TopicPartition, target: Sequence[int] | None) -> None:
        """Move a partition to the brokers of `target`, in this order of preference; None takes a move back.

        Raises UnknownTopicOrPartitionError, InvalidReplicaAssignmentError where nobody there could hold or lead it, and
        NoReassignmentInProgressError where there is nothing to take back.
        """
        async with self._context.turn():
            after = self._decided(tp, target)
            await self._overrule(tp, target)
            if after is not None:
                await self._place({tp: after})
        await self.go_on()
        await self._context.settle()

    async def carry_out(self, tp: TopicPartition, item: store_reader.Item, request: bytes) -> None:
        """Begin what a request, read from the tree, says of a partition, if it still says so. Raises as above."""
        async with self._context.turn():
            node = await self._context.store.get(znodes.REASSIGN)
            if node is None:
                return
            # one that is as it was is not parsed again: it may name thousands, each of which comes here
            if node.value != request and store_reader.requested(znodes.REASSIGN, node.value).get(tp) != item:
                return  # overruled since it was read
            after = self._decided(tp, [int(broker) for broker in item["replicas"]])
            if after is not None:
                await self._place({tp: after})

    async def _overrule(self, tp: TopicPartition, target: Sequence[int] | None) -> None:
        """Take a partition out of the request in the tree: the next controller must not begin that move again."""
        store = self._context.store
        node = await store.get(znodes.REASSIGN)
        items = {} if node is None else store_reader.requested(znodes.REASSIGN, node.value)
        if node is None or tp not in items or items.pop(tp).get("replicas") == target:
            return
        left = Set(znodes.REASSIGN, znodes.request_value(items.values()), node.version)
        try:
            write = left if items else Delete(znodes.REASSIGN, node.version)
            await partition_states.guarded(store, self._context.office, [write])
        except (BadVersionError, NoNodeError):
            pass  # it was changed at this moment, and is looked at again

    def _decided(self, tp: TopicPartition, target: Sequence[int] | None) -> PartitionImage | None:
        p = self._context.image.partition(tp)
        if p is None:
            raise UnknownTopicOrPartitionError
        return self._taken_back(tp, p) if target is None else self._begun(tp, p, target)

    def _begun(self, tp: TopicPartition, p: PartitionImage, target: Sequence[int]) -> PartitionImage | None:
        checked = reassignment_rules.checked(p, target, self._context.image.brokers.keys())
        return reassignment_rules.begun(p, checked, self._context.candidates(self._context.image, tp))

    def _taken_back(self, tp: TopicPartition, p: PartitionImage) -> PartitionImage:
        if not reassignment_rules.is_moving(p):
            raise NoReassignmentInProgressError
        after = reassignment_rules.cancelled(p, self._context.candidates(self._context.image, tp))
        if after is None:
            raise InvalidReplicaAssignmentError(
                f"None of {list(reassignment_rules.origin_of(p))} is in sync and could lead {tp}, so the move goes on."
            )
        return after

    async def go_on(self) -> None:
        """Finish the moves whose targets are all in sync."""
        if not self._context.is_active:
            return
        async with self._context.turn():
            image = self._context.image
            moving = [
                (tp, p, self._context.candidates(image, tp))
                for tp, p in all_partitions(image)
                if reassignment_rules.is_moving(p)
            ]
            done = {tp: after for tp, p, who in moving if (after := reassignment_rules.finished(p, who)) is not None}
            if done:
                await self._place(done)

    async def _place(self, states: States) -> None:
        """Write partitions with other replicas: the topic's node and the states, in one step each topic."""
        context = self._context
        for name in {tp.topic for tp in states}:
            topic = context.image.topics[name]
            changed = {tp.partition: p for tp, p in states.items() if tp.topic == name}
            whole = replace(topic, partitions=reassignment_rules.layout(topic, changed))
            writes: list[Operation] = [Set(znodes.topic(name), reassignment_rules.topic_value(whole))]
            writes += [partition_states.change(context.office, TopicPartition(name, i), p) for i, p in changed.items()]
            done = {TopicPartition(name, i): partition_states.written(p) for i, p in changed.items()}
            context.in_doubt |= done.keys()
            await partition_states.guarded(context.store, context.office, writes)
            context.in_doubt -= done.keys()
            await context.publish(lambda view, done=done: with_states(view, done))  # type: ignore[misc]
