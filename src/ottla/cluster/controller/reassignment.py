"""Partition reassignments in the controller (KIP-455). The state transitions are in `reassignment_rules`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
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

log = logging.getLogger("ottla.controller")


class PartitionReassignments:
    """Starts and cancels reassignments, and completes those whose target replicas are in sync."""

    def __init__(self, context: ControllerContext, complete_later: Callable[[], None]) -> None:
        """`complete_later`: has `complete_finished` called by another task, until it succeeds or the term ends."""
        self._context = context
        self.complete_later = complete_later

    async def reassign(self, tp: TopicPartition, target: Sequence[int] | None) -> None:
        """Start to move a partition to the brokers in `target`, the preferred leader first.

        `target`: None to cancel the reassignment in progress.

        Raises UnknownTopicOrPartitionError; InvalidReplicaAssignmentError if the target is invalid or no replica could
        lead; NoReassignmentInProgressError if there is no reassignment to cancel; NotControllerError outside a term.
        """
        try:
            async with self._context.exclusive():
                after = self._decide(tp, target)
                await self._remove_from_request(tp, target)
                if after is not None:
                    await self._write({tp: after})
            await self.complete_finished()
        except asyncio.CancelledError:  # the client has disconnected
            self.complete_later()
            raise
        await self._context.wait_propagated()

    async def apply_request(self, tp: TopicPartition, item: store_reader.Item, request: bytes) -> None:
        """Start a reassignment that `/admin/reassign_partitions` requests, unless the request was replaced or deleted
        meanwhile.

        Raises the errors of `reassign`, and KeyError, TypeError or ValueError if `item` is malformed.
        """
        async with self._context.exclusive():
            node = await self._context.store.get(znodes.REASSIGN)
            if node is None:
                return
            # An unchanged request is not parsed again, because it may name thousands of partitions, and this method is
            # called for each.
            if node.value != request and store_reader.parse_request(znodes.REASSIGN, node.value).get(tp) != item:
                return  # the request was replaced after it was read
            after = self._decide(tp, [int(broker) for broker in item["replicas"]])
            if after is not None:
                await self._write({tp: after})

    async def _remove_from_request(self, tp: TopicPartition, target: Sequence[int] | None) -> None:
        """Remove a partition from the request in `/admin/reassign_partitions`, unless that has the same target, so that
        the next controller does not start the old reassignment again.
        """
        store = self._context.store
        node = await store.get(znodes.REASSIGN)
        items = {} if node is None else store_reader.parse_request(znodes.REASSIGN, node.value)
        if node is None or tp not in items or items.pop(tp).get("replicas") == target:
            return
        left = Set(znodes.REASSIGN, znodes.request_value(items.values()), node.version)
        try:
            write = left if items else Delete(znodes.REASSIGN, node.version)
            await partition_states.write_fenced(store, self._context.term, [write])
        except (BadVersionError, NoNodeError):
            pass  # the request has changed meanwhile, and will be read again

    def _decide(self, tp: TopicPartition, target: Sequence[int] | None) -> PartitionImage | None:
        p = self._context.image.partition(tp)
        if p is None:
            raise UnknownTopicOrPartitionError
        return self._cancel(tp, p) if target is None else self._start(tp, p, target)

    def _start(self, tp: TopicPartition, p: PartitionImage, target: Sequence[int]) -> PartitionImage | None:
        image = self._context.image
        checked = reassignment_rules.validate(p, target, image.brokers.keys(), image.cordoned_brokers)
        return reassignment_rules.start(p, checked, self._context.candidates(self._context.image, tp))

    def _cancel(self, tp: TopicPartition, p: PartitionImage) -> PartitionImage:
        if not reassignment_rules.is_reassigning(p):
            raise NoReassignmentInProgressError
        after = reassignment_rules.cancel(p, self._context.candidates(self._context.image, tp))
        if after is None:
            raise InvalidReplicaAssignmentError(
                f"None of {list(reassignment_rules.origin_of(p))} is in sync and could lead {tp}; "
                "the reassignment goes on."
            )
        return after

    async def complete_finished(self) -> None:
        """If this broker is the controller, complete the reassignments for which `reassignment_rules.complete` returns
        a state. If that fails, it is tried again later.
        """
        if not self._context.is_active:
            return
        try:
            await self._complete_finished()
        except BaseException:
            self.complete_later()
            raise

    async def _complete_finished(self) -> None:
        async with self._context.exclusive():
            image = self._context.image
            reassigning = [
                (tp, p, self._context.candidates(image, tp))
                for tp, p in all_partitions(image)
                if reassignment_rules.is_reassigning(p)
            ]
            done = {
                tp: after
                for tp, p, candidates in reassigning
                if (after := reassignment_rules.complete(p, candidates)) is not None
            }
            if done:
                await self._write(done)

    async def _write(self, states: States) -> None:
        """Write partitions with new replicas, and publish them.

        Each transaction has the znode of one topic, and the states of at most MAX_STATES of its partitions.
        """
        for name in {tp.topic for tp in states}:
            changed = [(tp.partition, p) for tp, p in states.items() if tp.topic == name]
            for begin in range(0, len(changed), partition_states.MAX_STATES):
                await self._write_batch(name, dict(changed[begin : begin + partition_states.MAX_STATES]))

    async def _write_batch(self, name: str, changed: Mapping[int, PartitionImage]) -> None:
        context = self._context
        topic = context.image.topics[name]
        changed_topic = replace(topic, partitions=reassignment_rules.layout(topic, changed))
        writes: list[Operation] = [Set(znodes.topic(name), reassignment_rules.topic_value(changed_topic))]
        writes += [partition_states.change(context.term, TopicPartition(name, i), p) for i, p in changed.items()]
        done = {TopicPartition(name, i): partition_states.written(p) for i, p in changed.items()}
        context.uncertain |= done.keys()
        await partition_states.write_fenced(context.store, context.term, writes)
        context.uncertain -= done.keys()
        for tp, p in done.items():
            _log_reassignment(tp, p)
        await context.publish(lambda current: with_states(current, done))


def _log_reassignment(tp: TopicPartition, p: PartitionImage) -> None:
    if reassignment_rules.is_reassigning(p):
        text = "Reassigning %s to replicas %s: adding %s, removing %s"
        target = [replica for replica in p.replicas if replica not in p.removing]
        log.info(text, tp, target, list(p.adding), list(p.removing))
    else:
        log.info(
            "Ended the reassignment of %s: replicas %s, ISR %s, leader %d", tp, list(p.replicas), list(p.isr), p.leader
        )
