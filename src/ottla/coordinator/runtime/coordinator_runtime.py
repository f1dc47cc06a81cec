"""The common part of the coordinators' runtimes: log, shards, start, close and replay. Kafka's `CoordinatorRuntime`.

The state in memory is the result of replaying the log. The records that a request handler returns are appended first,
then applied, and the responses are sent when the append is committed. Classic groups are an exception: they change
before their records are appended.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.runtime.coordinator_log import CoordinatorLog
from ottla.model import TopicPartition
from ottla.records.batch import BatchHeader


class CoordinatorRuntime(ABC):
    """Base of this broker's coordinators. `shards` is a LeadershipListener. Not thread-safe: event loop only."""

    def __init__(self, topic: str, config: BrokerConfig, clock: Clock, image: Callable[[], ClusterImage]) -> None:
        self._topic = topic
        self._config = config
        self._clock = clock
        self._image = image
        self._log = CoordinatorLog(topic, clock, image, self)
        self.shards = self._log.shards
        self._sees_all_topics = not config.in_cluster
        """Whether a topic that is not in the cluster image does not exist.

        In a cluster, this broker may not have received the topic yet, so the state of the topic must not be deleted.
        """

    async def start(self) -> None:
        """Wait until all partitions of the topic that this broker leads are loaded, or have failed to load."""
        await self.shards.all_loaded()

    def close(self) -> None:
        """Stop coordinating. Requests then fail with NotCoordinatorError."""
        self.shards.close()

    def check(self, key: str) -> None:
        """Raise NotCoordinatorError if this broker does not coordinate the key, or CoordinatorLoadInProgressError if
        its partition is being loaded.
        """
        self._log.partition(key)

    def confirm(self, key: str, seconds: float) -> asyncio.Future[None] | None:
        """Request proof that this broker still coordinates the key, before a client gets state that another coordinator
        may have replaced.

        Return a future that completes with the proof; None if no proof is needed (see `LeaderReplica.confirm`). Raises
        the errors of `check`.
        """
        return self._log.partition(key).leader_replica.confirm(seconds)

    def is_followed(self, key: str) -> bool:
        """Return whether this broker probably still coordinates the key (see `LeaderReplica.is_followed`).

        Raises the errors of `check`.
        """
        return self._log.partition(key).leader_replica.is_followed

    def partition_of(self, key: str) -> TopicPartition:
        """Return the partition of the internal topic that a key belongs to.

        Raises NotCoordinatorError if the topic does not exist yet.
        """
        return TopicPartition(self._topic, self._log.index(key))

    def replay_batch(self, index: int, header: BatchHeader, data: memoryview) -> int:
        """Replay a batch of a partition that is being loaded. Return the number of replayed records; 1 for a marker."""
        return 1 if header.is_control else self._log.replay_batch(index, data, self.replay)

    @abstractmethod
    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of the log to the state in memory."""

    @abstractmethod
    def on_loaded(self, index: int) -> None:
        """Called when a partition has been loaded completely."""

    @abstractmethod
    def on_unloaded(self, index: int) -> None:
        """Drop the state of a partition.

        Fail requests that wait in that state, if there are any, so that clients look up the new coordinator.
        """
