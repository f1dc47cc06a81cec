"""Sends ISR updates of leaders to the controller: AlterPartition, one request at a time (KIP-497).

Updates that arrive while a request is in flight go into the next ones, so when a follower dies, its leader sends a few
requests, not one per partition. Updates are sent again until the controller, which may have changed, has answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from ottla.backoff import ExponentialBackoff
from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage
from ottla.cluster.interbroker.client import RequestSender
from ottla.cluster.interbroker.request_batcher import RequestBatcher
from ottla.errors import KafkaError, NotControllerError, UnknownTopicOrPartitionError, for_code
from ottla.logs import listed
from ottla.model import TopicPartition
from ottla.protocol.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    AlterPartitionTopic,
)

log = logging.getLogger("ottla.replication")

VERSION = 3
PURPOSE = "isr"
TIMEOUT_SECONDS = 10.0
BACKOFF = ExponentialBackoff(0.02, 1.0)
FAILURES_TO_WARN = 6

AlterPartition = Callable[
    [int, TopicPartition, PartitionImage, tuple[int, ...], Mapping[int, int]], Awaitable[PartitionImage]
]
"""The function with which the controller on this broker alters a partition's ISR.

Its arguments are this broker's id and the fields of a `PendingUpdate`. It returns the new state.
"""


class PendingUpdate(NamedTuple):
    """An ISR that a leader requests for a partition whose state is `image`.

    `epochs`: the broker epochs in which the replicas in the ISR have fetched.
    """

    tp: TopicPartition
    image: PartitionImage
    isr: tuple[int, ...]
    epochs: Mapping[int, int]


Answer = PartitionImage | KafkaError | None
"""The new state of the partition, its error, or None if the update has to be sent again."""


class AlterPartitionManager:
    """The `IsrSubmitter` of a broker. Not thread-safe: event loop only."""

    def __init__(
        self, own_id: int, sender: RequestSender, image: Callable[[], ClusterImage], alter: AlterPartition
    ) -> None:
        self._own_id = own_id
        self._sender = sender
        self._image = image
        self._alter = alter
        self._batcher: RequestBatcher[PendingUpdate, Answer] = RequestBatcher(self._send)
        self._failures = 0
        """Number of consecutive requests that have failed as a whole, not only for some partitions."""
        self.shrinks = self.expansions = self.failed_updates = 0
        """Numbers of applied updates that made the ISR smaller, of those that made it larger, and of failed updates."""
        self._closed = False

    async def submit(
        self, tp: TopicPartition, image: PartitionImage, isr: tuple[int, ...], epochs: Mapping[int, int]
    ) -> PartitionImage:
        """Request an ISR, and return the state that the controller has written.

        Raises the controller's error for the partition, UnknownTopicOrPartitionError if the topic is not in
        the cluster image, and CancelledError after `close`. Retries after any other error.
        """
        update = PendingUpdate(tp, image, isr, epochs)
        failures = 0
        while not self._closed:
            try:
                answer = await self._batcher.submit(self._image().controller_id, update)
            except KafkaError:
                answer = None
            if isinstance(answer, KafkaError):
                self.failed_updates += 1
                raise answer
            if answer is not None:
                self._count(len(answer.isr) - len(image.isr))
                return answer
            await asyncio.sleep(BACKOFF.backoff(failures))
            failures += 1
        raise asyncio.CancelledError

    def _count(self, gained: int) -> None:
        self.shrinks += gained < 0
        self.expansions += gained > 0

    def close(self) -> None:
        self._closed = True
        self._batcher.close()

    async def _send(self, controller_id: int, updates: list[PendingUpdate]) -> list[Answer]:
        try:
            answers = await self._answers(controller_id, updates)
        except KafkaError as error:
            self._failures += 1
            level = logging.WARNING if self._failures == FAILURES_TO_WARN else logging.DEBUG
            partitions = listed([update.tp for update in updates])
            if controller_id < 0:
                log.log(level, "Cannot update the ISR of %s: the cluster has no controller; retrying", partitions)
            else:
                log.log(
                    level,
                    "Cannot update the ISR of %s at controller %d; retrying: %s",
                    partitions,
                    controller_id,
                    error,
                )
            raise
        self._failures = 0
        return answers

    async def _answers(self, controller_id: int, updates: list[PendingUpdate]) -> list[Answer]:
        if controller_id == self._own_id:
            return await asyncio.gather(*map(self._alter_here, updates))
        if controller_id < 0:
            raise NotControllerError("the cluster has no controller")
        request = self._request(updates)
        response = await self._sender.send(controller_id, request, VERSION, timeout=TIMEOUT_SECONDS, purpose=PURPOSE)
        if response.error_code:
            raise for_code(response.error_code)
        topics = self._image().topics
        results = _results(response, self._image().names)
        return [
            _answer(update, results.get(update.tp)) if update.tp.topic in topics else UnknownTopicOrPartitionError()
            for update in updates
        ]

    async def _alter_here(self, update: PendingUpdate) -> Answer:
        """Alter the partition on this broker, which is the controller."""
        try:
            return await self._alter(self._own_id, *update)
        except NotControllerError:
            return None
        except KafkaError as error:
            return error

    def _request(self, updates: list[PendingUpdate]) -> AlterPartitionRequest:
        image = self._image()
        own = image.brokers.get(self._own_id)
        own_epoch = -1 if own is None else own.epoch
        topics: dict[UUID, list[AlterPartitionData]] = {}
        for update in updates:
            topic = image.topics.get(update.tp.topic)
            if topic is None:
                continue
            data = AlterPartitionData(
                partition_index=update.tp.partition,
                leader_epoch=update.image.leader_epoch,
                new_isr_with_epochs=[
                    AlterPartitionBrokerState(
                        broker_id=i, broker_epoch=own_epoch if i == self._own_id else update.epochs.get(i, -1)
                    )
                    for i in update.isr
                ],
                partition_epoch=update.image.state_version,
            )
            topics.setdefault(topic.id, []).append(data)
        return AlterPartitionRequest(
            broker_id=self._own_id,
            broker_epoch=own_epoch,
            topics=[AlterPartitionTopic(topic_id=i, partitions=partitions) for i, partitions in topics.items()],
        )


def _results(response: AlterPartitionResponse, names: Mapping[UUID, str]) -> dict[TopicPartition, AlterPartitionResult]:
    return {
        TopicPartition(names.get(topic.topic_id, ""), result.partition_index): result
        for topic in response.topics
        for result in topic.partitions
    }


def _answer(update: PendingUpdate, result: AlterPartitionResult | None) -> Answer:
    if result is None:
        return None
    if result.error_code:
        return for_code(result.error_code)()
    return replace(
        update.image,
        leader=result.leader_id,
        leader_epoch=result.leader_epoch,
        isr=tuple(result.isr),
        state_version=result.partition_epoch,
    )
