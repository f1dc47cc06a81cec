"""The lag of consumer groups: the number of records in a partition after a group's committed offset.

The group coordinator has the committed offsets. The leader of a partition and its followers have its high watermark. If
the coordinator has no replica, it requests the offset from the leader, with one request per broker for all partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from ottla.broker.broker_context import BrokerContext
from ottla.cluster.interbroker.end_offsets import end_offsets_from
from ottla.errors import KafkaError
from ottla.logs import listed
from ottla.model import TopicPartition

log = logging.getLogger("ottla.metrics")

MAX_OFFSETS: Final = 20_000
"""Maximum number of committed offsets that are read at a time. Groups that would exceed it are left out."""
TIMEOUT_SECONDS: Final = 2.0
PURPOSE: Final = "metrics"


class CommittedPosition(NamedTuple):
    """An offset that a group has committed."""

    group_id: str
    topic_partition: TopicPartition
    offset: int


class GroupLags(NamedTuple):
    """The committed offsets of the groups that this broker coordinates, at most MAX_OFFSETS of them, and the lags of
    those partitions whose end is known.
    """

    committed: list[CommittedPosition]
    lags: list[tuple[CommittedPosition, int]]
    sums: dict[tuple[str, str], int]
    """The sum of lags by group and topic."""
    omitted: int
    """The number of offsets that were left out."""


NO_LAGS: Final = GroupLags([], [], {}, 0)


async def read_lags(context: BrokerContext, rest: Callable[[], Awaitable[None]]) -> GroupLags:
    """Read the committed offsets, and compute their lags from the end offsets of their partitions.

    `rest`: awaited after each offset, so that other tasks can run.
    """
    runtime = context.coordinators.existing_groups
    if runtime is None:
        return NO_LAGS
    result = GroupLags([], [], {}, 0)
    for group_id, offsets in list(runtime.offsets.by_group.items()):
        if len(result.committed) + len(offsets) > MAX_OFFSETS:
            result = result._replace(omitted=result.omitted + len(offsets))
            continue
        for tp, offset in list(offsets.items()):
            result.committed.append(CommittedPosition(group_id, tp, offset.offset))
            await rest()
    remote: dict[int, set[TopicPartition]] = {}
    for position in result.committed:
        tp = position.topic_partition
        image = context.image.partition(tp)
        if context.partitions.get(tp) is None and image is not None and image.leader >= 0:
            remote.setdefault(image.leader, set()).add(tp)
        await rest()
    answers = await asyncio.gather(*(_ends(context, leader, tps) for leader, tps in remote.items()))
    ends = {tp: end for answer in answers for tp, end in answer.items()}
    for position in result.committed:
        partition = context.partitions.get(position.topic_partition)
        end = ends.get(position.topic_partition) if partition is None else partition.high_watermark
        if end is not None:
            lag = max(0, end - position.offset)
            key = position.group_id, position.topic_partition.topic
            result.lags.append((position, lag))
            result.sums[key] = result.sums.get(key, 0) + lag
        await rest()
    return result


async def _ends(context: BrokerContext, leader: int, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    """Request the end offsets of partitions from their leader. Return an empty dictionary after a failure."""
    try:
        return await end_offsets_from(
            context.inter_broker, leader, partitions, timeout=TIMEOUT_SECONDS, purpose=PURPOSE
        )
    except KafkaError as error:
        log.debug(
            "Cannot look up end offsets at broker %d; the metrics lack the lag of groups on partitions it leads (%s): "
            "%s",
            leader,
            listed(sorted(partitions)),
            error,
        )
        return {}
