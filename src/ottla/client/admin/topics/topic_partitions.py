"""The call DescribeTopicPartitions: topics with eligible leader replicas, page by page (KIP-966)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.admin.driver import AdminDriver, check, distinct
from ottla.client.core.metadata import TopicInfo, partition_info
from ottla.model import TopicPartition
from ottla.protocol.messages import describe_topic_partitions as pages


class Cursor(NamedTuple):
    """The topic and partition at which the next page starts."""

    topic_name: str
    partition_index: int


class TopicPartitionsPage(NamedTuple):
    """A page of topics, with the eligible leader replicas (ELR) of each partition, and the last known ones.
    `next_cursor` is None on the last page.
    """

    topics: list[TopicInfo]
    eligible_leader_replicas: dict[TopicPartition, tuple[int, ...]]
    last_known_elr: dict[TopicPartition, tuple[int, ...]]
    next_cursor: Cursor | None


class TopicPartitionsAdmin(AdminDriver):
    """The call DescribeTopicPartitions."""

    async def describe_topic_partitions(
        self,
        topics: Iterable[str],
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
        timeout_ms: float | None = None,
    ) -> TopicPartitionsPage:
        """Return topics with their eligible leader replicas, at most `response_partition_limit` partitions from the
        cursor on (None: the first page). Raises the error of the first topic that has one, and UnsupportedVersionError
        if the broker does not have this API.
        """
        request = pages.DescribeTopicPartitionsRequest(
            topics=[pages.TopicRequest(name=name) for name in sorted(distinct(topics))],
            response_partition_limit=response_partition_limit,
            cursor=None if cursor is None else pages.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        return await self.call(request, _page, timeout_ms)


def _page(response: pages.DescribeTopicPartitionsResponse) -> TopicPartitionsPage:
    topics: list[TopicInfo] = []
    eligible: dict[TopicPartition, tuple[int, ...]] = {}
    last_known: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in response.topics:
        name = topic.name or ""
        check(topic.error_code, name)
        partitions = tuple(partition_info(name, p) for p in topic.partitions)
        topics.append(TopicInfo(name, topic.topic_id, topic.is_internal, partitions))
        for p in topic.partitions:
            eligible[TopicPartition(name, p.partition_index)] = tuple(p.eligible_leader_replicas or ())
            last_known[TopicPartition(name, p.partition_index)] = tuple(p.last_known_elr or ())
    cursor = response.next_cursor
    return TopicPartitionsPage(
        topics, eligible, last_known, None if cursor is None else Cursor(cursor.topic_name, cursor.partition_index)
    )
