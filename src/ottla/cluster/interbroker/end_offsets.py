"""Requests for the end offsets of partitions that another broker leads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.cluster.interbroker.client import InterBrokerClient
from ottla.model import LATEST_TIMESTAMP, TopicPartition
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LIST_OFFSETS_VERSION: Final = 7
CONSUMER: Final = -1


async def end_offsets_from(
    client: InterBrokerClient, leader: int, partitions: Iterable[TopicPartition], *, timeout: float, purpose: str
) -> dict[TopicPartition, int]:
    """Request the high watermarks of partitions from their leader, and return those without an error.

    Raises KafkaError if the request as a whole fails, for example if there is no response within `timeout` seconds.
    """
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for tp in partitions:
        item = ListOffsetsPartition(partition_index=tp.partition, timestamp=LATEST_TIMESTAMP)
        by_topic.setdefault(tp.topic, []).append(item)
    topics = [ListOffsetsTopic(name=name, partitions=items) for name, items in by_topic.items()]
    request = ListOffsetsRequest(replica_id=CONSUMER, topics=topics)
    response = await client.send(leader, request, LIST_OFFSETS_VERSION, timeout=timeout, purpose=purpose)
    return {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in response.topics
        for partition in topic.partitions
        if not partition.error_code
    }
