"""Leaders' wishes for other ISRs, carried to the controller: AlterPartition, one request at a time (KIP-497).

What comes while a request is on its way goes with the next one, so a broker whose follower dies asks once for all of
its partitions. Until the controller answers, whoever it is by then, it is asked again. Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from ottla.backoff import ExponentialBackoff
from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage
from ottla.errors import KafkaError, NotControllerError, UnknownServerError, UnknownTopicOrPartitionError, for_code
from ottla.model import TopicPartition
from ottla.protocol.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    AlterPartitionTopic,
)
from ottla.replication.fetcher import Ask

log = logging.getLogger("ottla.replication")

VERSION = 3
LANE = "isr"
TIMEOUT_SECONDS = 10.0
BACKOFF = ExponentialBackoff(0.02, 1.0)

Alter = Callable[[int, TopicPartition, PartitionImage, tuple[int, ...], Mapping[int, int]], Awaitable[PartitionImage]]
"""The controller's own `alter_partition`."""


@dataclass(eq=False, slots=True)
class Wish:
    """One proposal and who waits for what becomes of it."""

    tp: TopicPartition
    image: PartitionImage
    isr: tuple[int, ...]
    epochs: Mapping[int, int]
    answer: asyncio.Future[PartitionImage]


class AlterPartitionManager:
    """`IsrChanges` of one broker."""

    def __init__(self, own_id: int, ask: Ask, image: Callable[[], ClusterImage], alter: Alter) -> None:
        self._own_id = own_id
        self._ask = ask
        self._image = image
        self._alter = alter
        self._wishes: list[Wish] = []
        self._sending: asyncio.Task[None] | None = None

    async def propose(
        self, tp: TopicPartition, image: PartitionImage, isr: tuple[int, ...], epochs: Mapping[int, int]
    ) -> PartitionImage:
        """Ask for this ISR; the state that the controller has written."""
        loop = asyncio.get_running_loop()
        wish = Wish(tp, image, isr, epochs, loop.create_future())
        self._wishes.append(wish)
        if self._sending is None or self._sending.done():
            self._sending = loop.create_task(self._send_all())
        return await wish.answer

    def close(self) -> None:
        """Ask for nothing more."""
        if self._sending is not None:
            self._sending.cancel()
        for wish in self._wishes:
            wish.answer.cancel()
        self._wishes.clear()

    async def _send_all(self) -> None:
        failures = 0
        while wishes := self._next():
            try:
                await self._send(wishes)
            except KafkaError as error:
                level = logging.WARNING if failures == 5 else logging.DEBUG
                log.log(level, "the controller %d does not answer: %s", self._image().controller_id, error)
            except Exception:
                # a fault of ours must not leave leaders without an answer for good
                log.exception("the controller cannot be asked for other in-sync replicas")
            else:
                failures = 0
                continue
            await asyncio.sleep(BACKOFF.backoff(failures))
            failures += 1

    def _next(self) -> dict[TopicPartition, Wish]:
        """The wishes that somebody still waits for, one per partition."""
        self._wishes = [wish for wish in self._wishes if not wish.answer.done()]
        return {wish.tp: wish for wish in self._wishes}

    async def _send(self, wishes: dict[TopicPartition, Wish]) -> None:
        controller = self._image().controller_id
        if controller == self._own_id:
            await asyncio.gather(*(self._decide(wish) for wish in wishes.values()))
            return
        if controller < 0:
            raise NotControllerError("there is none")
        request = self._request(wishes)
        response = await self._ask(controller, request, VERSION, timeout=TIMEOUT_SECONDS, lane=LANE)
        if response.error_code:
            raise for_code(response.error_code)
        self._answer(response, wishes)
        if not all(wish.answer.done() for wish in wishes.values()):
            raise UnknownServerError("it has left partitions out")

    async def _decide(self, wish: Wish) -> None:
        """This broker is the controller."""
        try:
            image = await self._alter(self._own_id, wish.tp, wish.image, wish.isr, wish.epochs)
        except NotControllerError:
            raise
        except KafkaError as error:
            _tell(wish, error)
        else:
            _tell(wish, image)

    def _request(self, wishes: dict[TopicPartition, Wish]) -> AlterPartitionRequest:
        image = self._image()
        own = image.brokers.get(self._own_id)
        own_epoch = -1 if own is None else own.epoch
        topics: dict[str, list[AlterPartitionData]] = {}
        for tp, wish in wishes.items():
            topic = image.topics.get(tp.topic)
            if topic is None:
                _tell(wish, UnknownTopicOrPartitionError())
                continue
            data = AlterPartitionData(
                partition_index=tp.partition,
                leader_epoch=wish.image.leader_epoch,
                new_isr_with_epochs=[
                    AlterPartitionBrokerState(
                        broker_id=i, broker_epoch=own_epoch if i == self._own_id else wish.epochs.get(i, -1)
                    )
                    for i in wish.isr
                ],
                partition_epoch=wish.image.state_version,
            )
            topics.setdefault(tp.topic, []).append(data)
        return AlterPartitionRequest(
            broker_id=self._own_id,
            broker_epoch=own_epoch,
            topics=[AlterPartitionTopic(topic_id=image.topics[n].id, partitions=p) for n, p in topics.items()],
        )

    def _answer(self, response: AlterPartitionResponse, wishes: dict[TopicPartition, Wish]) -> None:
        names: Mapping[UUID, str] = self._image().names
        for topic in response.topics:
            for result in topic.partitions:
                wish = wishes.get(TopicPartition(names.get(topic.topic_id, ""), result.partition_index))
                if wish is not None:
                    _tell(wish, for_code(result.error_code)() if result.error_code else _state(wish.image, result))


def _state(before: PartitionImage, result: AlterPartitionResult) -> PartitionImage:
    return replace(
        before,
        leader=result.leader_id,
        leader_epoch=result.leader_epoch,
        isr=tuple(result.isr),
        state_version=result.partition_epoch,
    )


def _tell(wish: Wish, answer: PartitionImage | KafkaError) -> None:
    if wish.answer.done():
        return
    if isinstance(answer, KafkaError):
        wish.answer.set_exception(answer)
    else:
        wish.answer.set_result(answer)
