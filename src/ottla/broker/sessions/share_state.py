"""Parts of requests about the states of share partitions: results by topic, initialization, and end offsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from types import ModuleType
from typing import Any, Final

from ottla.broker.broker_context import BrokerContext
from ottla.broker.error_responses import errors_in
from ottla.broker.topic_creation import create_internal
from ottla.cluster.interbroker.end_offsets import end_offsets_from
from ottla.coordinator.group.share import share_group_records
from ottla.coordinator.group.share.share_group import ShareGroup
from ottla.coordinator.share_partition.share_state_records import UNINITIALIZED, ShareKey
from ottla.errors import KafkaError
from ottla.logs import listed
from ottla.model import SHARE_GROUP_STATE, TopicIdPartition, TopicPartition

log = logging.getLogger("ottla.coordinator.group")

INITIALIZE_SECONDS: Final = 1.0
"""Maximum time in seconds that a heartbeat waits for the initialization, which then continues in the background."""


async def results_by_topic(
    request: Any, messages: ModuleType, act: Callable[[ShareKey, Any, Any], Awaitable[None]]
) -> list[Any]:
    """Call `act` with each partition of a request and its result, and return the results by topic.

    The partitions of a topic are processed concurrently, topics one after the other.

    `messages` is the API's module of messages; the error of a partition goes into its result.
    """

    async def result_of(topic_id: Any, data: Any) -> Any:
        result = messages.PartitionResult(partition=data.partition)
        with errors_in(result):
            await act(ShareKey(request.group_id, topic_id, data.partition), data, result)
        return result

    return [
        messages.TopicResult(
            topic_id=topic.topic_id,
            partitions=list(await asyncio.gather(*(result_of(topic.topic_id, data) for data in topic.partitions))),
        )
        for topic in request.topics
    ]


async def initialize_subscribed(broker: BrokerContext, group_id: str) -> None:
    """Create the states of partitions that a group subscribes to and for which it has no state yet.

    After INITIALIZE_SECONDS, this continues in the background. A failure is only logged: the next heartbeat tries
    again, and a leader that needs the state earlier creates it itself.
    """
    group = broker.groups.groups.by_id.get(group_id)
    if not isinstance(group, ShareGroup):
        return
    running = broker.share_persister.initializing
    task = running.get(group_id)
    if task is None:
        new = group.uninitialized(broker.image)
        if not new:
            return
        task = running[group_id] = asyncio.get_running_loop().create_task(_initialize(broker, group, new))
        task.add_done_callback(lambda _: running.pop(group_id, None))
    await asyncio.wait([task], timeout=INITIALIZE_SECONDS)


async def _initialize(broker: BrokerContext, group: ShareGroup, new: list[TopicIdPartition]) -> None:
    try:
        await create_internal(broker, SHARE_GROUP_STATE)
        await asyncio.gather(
            *(broker.share_persister.initialize(ShareKey(group.id, *tip), group.epoch, UNINITIALIZED) for tip in new)
        )
        await record_initialized(broker, group.id, new)
    except KafkaError as error:
        log.warning(
            "Cannot initialize share partitions of share group %s (%s); the next heartbeat tries again: %s",
            group.id,
            listed([f"{broker.image.names.get(tip.topic_id, tip.topic_id)}-{tip.partition}" for tip in new]),
            error,
        )


async def record_initialized(broker: BrokerContext, group_id: str, new: Iterable[TopicIdPartition]) -> None:
    """Record in the group's log that these partitions have a state, unless that is already recorded for all of them or
    there is no such share group.
    """
    group = broker.groups.groups.by_id.get(group_id)
    if isinstance(group, ShareGroup) and not group.initialized.issuperset(new):
        partitions = group.initialized.union(new)
        await broker.groups.append(
            group_id, [share_group_records.initialized_record(group_id, partitions, broker.image.names)]
        )


async def end_offsets(
    broker: BrokerContext, partitions: Iterable[TopicPartition], without: str
) -> dict[TopicPartition, int]:
    """Return the high watermarks of partitions, from this broker or from other leaders.

    Partitions without an available leader are left out. `without`: what the caller does with those whose leader does
    not respond, for the log.
    """
    ends: dict[TopicPartition, int] = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    for tp in partitions:
        led = broker.partitions.get_leader(tp)
        image = broker.image.partition(tp)
        if led is not None:
            ends[tp] = led.high_watermark
        elif image is not None and image.leader not in (-1, broker.broker_id):
            by_leader.setdefault(image.leader, []).append(tp)
    for remote in await asyncio.gather(
        *(_remote_ends(broker, leader, led, without) for leader, led in by_leader.items())
    ):
        ends |= remote
    return ends


async def _remote_ends(
    broker: BrokerContext, leader: int, partitions: list[TopicPartition], without: str
) -> dict[TopicPartition, int]:
    timeout = broker.config.offsets_commit_timeout_ms / 1000
    try:
        return await end_offsets_from(broker.inter_broker, leader, partitions, timeout=timeout, purpose="share-state")
    except KafkaError as error:
        log.warning(
            "Cannot look up end offsets at broker %d; %s (%s): %s",
            leader,
            without,
            listed(partitions),
            error,
        )
        return {}
