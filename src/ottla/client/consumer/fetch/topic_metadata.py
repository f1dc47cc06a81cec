"""Lookups of topics, partitions and offsets. They do not affect the subscription."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

from ottla import errors
from ottla.client.consumer.offsets.list_offsets import OffsetLookup
from ottla.client.core.connections import Connections
from ottla.client.core.metadata import PartitionInfo, TopicInfo, topic_info
from ottla.model import OffsetAndTimestamp, TopicPartition
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

Partitions = tuple[PartitionInfo, ...]


class TopicMetadataFetcher:
    """The lookups of one consumer. `done` is called when all lookups of offsets have ended."""

    def __init__(
        self,
        connections: Connections,
        offsets: OffsetLookup,
        *,
        allow_auto_create: bool,
        retry_backoff: float,
        done: Callable[[], None],
    ) -> None:
        self.connections = connections
        self.offsets = offsets
        self._allow_auto_create = allow_auto_create
        self._retry_backoff = retry_backoff
        self._done = done
        self._pending = 0

    async def topics(self, timeout: float) -> dict[str, Partitions]:
        """Return the partitions of all topics that this client is authorized to describe, by topic name."""
        infos = await self._fetch(None, timeout)
        return {topic.name: topic.partitions for topic in infos if topic.error is None}

    async def topic_ids(self, timeout: float) -> dict[str, UUID]:
        """Return the ids of all topics that this client is authorized to describe, by topic name. Brokers before Kafka
        2.8 report an id of zero.
        """
        infos = await self._fetch(None, timeout)
        return {topic.name: topic.topic_id for topic in infos if topic.error is None}

    async def partitions_for(self, topic: str, timeout: float) -> Partitions:
        """Return the partitions of a topic; an empty tuple if it does not exist, and the broker has not created it."""
        for info in await self._fetch([topic], timeout):
            if info.error is None:
                return info.partitions
            if info.error is not errors.UnknownTopicOrPartitionError:
                raise info.error(f"topic {topic!r}: {info.error.__doc__}")
        return ()

    async def _fetch(self, names: list[str] | None, timeout: float) -> list[TopicInfo]:
        """Request metadata, again after retriable errors and while topics have no leader yet. Raises KafkaTimeoutError
        after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=topics, allow_auto_topic_creation=names is not None and self._allow_auto_create
        )
        last: errors.KafkaError | None = None
        while (left := deadline - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    response = await self.connections.send_any(request)
                infos = [topic_info(topic) for topic in response.topics if topic.name is not None]
                waiting = [t for t in infos if t.error is errors.LeaderNotAvailableError]
                if not waiting:
                    return infos
                last = errors.LeaderNotAvailableError()
            except errors.KafkaError as error:
                if not error.retriable:
                    raise
                last = error
            except TimeoutError:
                break
            await asyncio.sleep(min(self._retry_backoff, max(0.0, deadline - time.monotonic())))
        reason = str(last) if last else self.connections.slow_reason
        raise errors.KafkaTimeoutError(f"no metadata after {timeout:g} s" + (f" ({reason})" if reason else ""))

    async def positions(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout: float
    ) -> dict[TopicPartition, int]:
        """Return the earliest (-2) or latest (-1) offset of partitions."""
        with self._lookup():
            return await self.offsets.positions([TopicPartition(*tp) for tp in partitions], timestamp, timeout)

    async def for_times(
        self, times: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset and timestamp of the first record at or after each time (ms since 1970); None if there is
        no such record. Raises ValueError for a negative time.
        """
        by_partition = {TopicPartition(*tp): timestamp for tp, timestamp in times.items()}
        for tp, timestamp in by_partition.items():
            if timestamp < 0:
                raise ValueError(f"{tp}: {timestamp} is not a time in milliseconds since 1970")
        with self._lookup():
            offsets = await self.offsets.lookup(by_partition, timeout)
        return {tp: offsets[tp] if offsets[tp].offset >= 0 else None for tp in by_partition}

    @contextmanager
    def _lookup(self) -> Iterator[None]:
        """Context manager: after the last pending lookup, call `done`."""
        self._pending += 1
        try:
            yield
        finally:
            self._pending -= 1
            if not self._pending:
                self._done()
