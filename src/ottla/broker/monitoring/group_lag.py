"""The lag of consumer groups: the records of a partition that its group has not committed yet.

A group's coordinator knows its committed offsets; the end of a partition is known to its leader and, a moment later, to
its followers. A coordinator without a replica asks the leader: one request per broker, for all partitions together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from ottla.broker.broker_context import BrokerContext
from ottla.errors import KafkaError
from ottla.model import LATEST_TIMESTAMP, TopicPartition
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

log = logging.getLogger("ottla.metrics")

MAX_OFFSETS: Final = 20_000
"""Committed offsets that are read at a time; those of the remaining groups are left out, and counted."""
LIST_OFFSETS_VERSION: Final = 7
CONSUMER: Final = -1
TIMEOUT_SECONDS: Final = 2.0
PURPOSE: Final = "metrics"


class CommittedPosition(NamedTuple):
    """An offset that a group has committed."""

    group_id: str
    topic_partition: TopicPartition
    offset: int


class GroupLags(NamedTuple):
    """The committed offsets of all groups of this broker, and the ends of their partitions, as far as known."""

    committed: list[CommittedPosition]
    ends: dict[TopicPartition, int]
    omitted: int
    """The number of offsets above `MAX_OFFSETS`."""

    def lags(self) -> Iterator[tuple[CommittedPosition, int]]:
        """Yield the offsets whose partition's end is known, with their lags."""
        for position in self.committed:
            end = self.ends.get(position.topic_partition)
            if end is not None:
                yield position, max(0, end - position.offset)


NO_LAGS: Final = GroupLags([], {}, 0)


async def read_lags(context: BrokerContext, rest: Callable[[], Awaitable[None]]) -> GroupLags:
    """Read the committed offsets and the ends of their partitions. Awaits `rest` between groups."""
    runtime = context.coordinators.existing_groups
    if runtime is None:
        return NO_LAGS
    committed: list[CommittedPosition] = []
    omitted = 0
    for group_id, offsets in list(runtime.offsets.by_group.items()):
        if len(committed) + len(offsets) > MAX_OFFSETS:
            omitted += len(offsets)
            continue
        committed += [CommittedPosition(group_id, tp, offset.offset) for tp, offset in offsets.items()]
        await rest()
    ends: dict[TopicPartition, int] = {}
    remote: dict[int, set[TopicPartition]] = {}
    for position in committed:
        tp = position.topic_partition
        partition = context.partitions.get(tp)
        image = context.image.partition(tp)
        if partition is not None:
            ends[tp] = partition.high_watermark
        elif image is not None and image.leader >= 0:
            remote.setdefault(image.leader, set()).add(tp)
    for answer in await asyncio.gather(*(_ends(context, leader, tps) for leader, tps in remote.items())):
        ends |= answer
    return GroupLags(committed, ends, omitted)


async def _ends(context: BrokerContext, leader: int, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the ends of partitions that another broker leads; none if it does not answer in time."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for tp in partitions:
        item = ListOffsetsPartition(partition_index=tp.partition, timestamp=LATEST_TIMESTAMP)
        topics.setdefault(tp.topic, []).append(item)
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        topics=[ListOffsetsTopic(name=topic, partitions=items) for topic, items in topics.items()],
    )
    try:
        response = await context.inter_broker.send(
            leader, request, LIST_OFFSETS_VERSION, timeout=TIMEOUT_SECONDS, purpose=PURPOSE
        )
    except KafkaError as error:
        log.debug("Cannot read the lag of groups for partitions of broker %d: %s", leader, error)
        return {}
    return {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in response.topics
        for partition in topic.partitions
        if not partition.error_code
    }
