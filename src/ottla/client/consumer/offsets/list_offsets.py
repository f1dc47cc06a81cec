"""Lookup of offsets by time, including the earliest and the latest offset. Kafka's `OffsetFetcher`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final

from ottla import errors
from ottla.client.consumer.fetch.topic_errors import topic_error
from ottla.client.core.connections import NOT_AUTHENTICATED, Connections
from ottla.client.core.metadata import Metadata
from ottla.errors import KafkaError, KafkaTimeoutError
from ottla.model import OffsetAndTimestamp, TopicPartition
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

log = logging.getLogger("ottla.client")

NEWEST_LIST_OFFSETS: Final = 9


class OffsetLookup:
    """Looks up offsets at the leaders of partitions."""

    def __init__(self, connections: Connections, metadata: Metadata, *, isolation_level: int, retry_backoff: float):
        self.connections = connections
        self.metadata = metadata
        self._isolation_level = isolation_level
        self._retry_backoff = retry_backoff

    async def lookup(
        self, timestamps: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the offset and timestamp of the first record at or after each timestamp (ms since 1970; -2: the
        earliest offset, -1: the latest offset). The offset is -1 if there is no such record.

        Retriable errors are retried for `timeout` seconds; then KafkaTimeoutError is raised, with the last error if
        there was one. Other errors are not retried.
        """
        deadline = time.monotonic() + timeout
        offsets: dict[TopicPartition, OffsetAndTimestamp] = {}
        last: KafkaError | None = None
        version = self.metadata.version
        self.metadata.add_topics({tp.topic for tp in timestamps})
        while True:
            missing = {tp: timestamp for tp, timestamp in timestamps.items() if tp not in offsets}
            if not missing:
                return offsets
            described = self._have_metadata(missing, version)
            left = deadline - time.monotonic()
            if left <= 0:
                names = ", ".join(map(str, sorted(missing)[:5]))
                raise KafkaTimeoutError(f"no offsets of {names} after {timeout:g} s" + (f" ({last})" if last else ""))
            update = self.metadata.next_update()
            try:
                async with asyncio.timeout(left):  # opening connections takes time, too
                    last = await self._try(missing, offsets, left) or last
            except TimeoutError:
                continue
            if len(offsets) < len(timestamps):
                failure = self.metadata.error
                if isinstance(failure, NOT_AUTHENTICATED) and isinstance(last, errors.LeaderNotAvailableError):
                    raise failure
                self.metadata.request_update()
                pause = min(self._retry_backoff, max(0.0, deadline - time.monotonic()))
                if isinstance(last, errors.LeaderNotAvailableError) and not described:
                    await asyncio.wait({update}, timeout=pause)  # usually the first request of a new client
                else:
                    await asyncio.sleep(pause)

    def _have_metadata(self, partitions: Iterable[TopicPartition], version: int) -> bool:
        """Return whether the metadata is newer than `version` and contains all topics. If it is newer, raise a fatal
        error of a topic, if any.
        """
        topics = {tp.topic for tp in partitions}
        if self.metadata.version == version:
            return False
        error = topic_error(self.metadata.cluster, topics)
        if error is not None:
            raise error
        return topics <= self.metadata.cluster.topics.keys()

    async def _try(
        self,
        missing: Mapping[TopicPartition, int],
        offsets: dict[TopicPartition, OffsetAndTimestamp],
        timeout: float,
    ) -> KafkaError | None:
        """Send one request to each leader, and put the results into `offsets`. Return a retriable error because
        of which results are missing, if any. An error of any leader that is not retriable is raised.
        """
        by_node: dict[int, list[TopicPartition]] = {}
        for tp in missing:
            leader = self.metadata.cluster.leader(tp)
            if leader >= 0:
                by_node.setdefault(leader, []).append(tp)
        requests = [
            self._fetch(node, {tp: missing[tp] for tp in tps}, offsets, timeout) for node, tps in by_node.items()
        ]
        problems = await asyncio.gather(*requests, return_exceptions=True)
        retriable = [problem for problem in problems if isinstance(problem, KafkaError) and problem.retriable]
        for problem in problems:
            if isinstance(problem, BaseException) and problem not in retriable:
                raise problem
        if retriable:
            return retriable[0]
        placed = sum(map(len, by_node.values()))
        return errors.LeaderNotAvailableError() if placed < len(missing) else None

    async def _fetch(
        self,
        node: int,
        timestamps: Mapping[TopicPartition, int],
        offsets: dict[TopicPartition, OffsetAndTimestamp],
        timeout: float,
    ) -> KafkaError | None:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for tp, timestamp in timestamps.items():
            info = self.metadata.cluster.partition(tp)
            one = ListOffsetsPartition(
                partition_index=tp.partition,
                current_leader_epoch=-1 if info is None else info.leader_epoch,
                timestamp=timestamp,
            )
            topics.setdefault(tp.topic, []).append(one)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self._isolation_level,
            topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        limit = min(timeout, self.connections.request_timeout)
        response = await self.connections.send(node, request, at_most=NEWEST_LIST_OFFSETS, timeout=limit)
        problem: KafkaError | None = None
        for topic in response.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                if partition.error_code:
                    error = errors.for_code(partition.error_code)(
                        f"{tp}: {errors.for_code(partition.error_code).__doc__}"
                    )
                    if not error.retriable:
                        raise error
                    problem = error
                else:
                    offsets[tp] = _result(partition)
        return problem

    async def positions(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout: float
    ) -> dict[TopicPartition, int]:
        """Return the offset for the same timestamp in each partition."""
        offsets = await self.lookup(dict.fromkeys(partitions, timestamp), timeout)
        return {tp: result.offset for tp, result in offsets.items()}


def _result(partition: ListOffsetsPartitionResponse) -> OffsetAndTimestamp:
    if partition.old_style_offsets:
        return OffsetAndTimestamp(partition.old_style_offsets[0], -1)
    return OffsetAndTimestamp(partition.offset, partition.timestamp, partition.leader_epoch)
