"""The partitions of this broker: a registry, kept in step with the cluster's image, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor

from ottla.cluster.metadata import ClusterImage, TopicImage
from ottla.cluster.znodes import uuid_text
from ottla.config.topic import LogConfig
from ottla.errors import KafkaStorageError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir

log = logging.getLogger("ottla.replication")

LogConfigOf = Callable[[Mapping[str, str]], LogConfig]
"""Makes a log's configuration from the options set on its topic."""
MinIsrOf = Callable[[Mapping[str, str]], int]


class Partitions:
    """Partitions by name, in the log directories. Loop thread."""

    def __init__(
        self,
        broker_id: int,
        log_dirs: Sequence[LogDir],
        workers: Executor,
        log_config: LogConfigOf,
        min_insync_replicas: MinIsrOf,
    ) -> None:
        self.broker_id = broker_id
        self._log_dirs = log_dirs
        self._workers = workers
        self._log_config = log_config
        self._min_insync_replicas = min_insync_replicas
        self._partitions: dict[TopicPartition, Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, tp: TopicPartition) -> Partition | None:
        """The partition if this broker has it."""
        return self._partitions.get(tp)

    def leader(self, image: ClusterImage, tp: TopicPartition) -> Partition:
        """The partition, or the error that tells a client what is wrong."""
        found = self._partitions.get(tp)
        if found is not None:
            return found
        known = image.partition(tp)
        if known is None:
            raise UnknownTopicOrPartitionError
        if self.broker_id in known.replicas:
            raise KafkaStorageError(f"{tp} has no log on this broker")
        raise NotLeaderOrFollowerError

    async def start(self, image: ClusterImage) -> None:
        """Lead what the image gives to this broker. Logs that no topic owns are left alone, and named."""
        for topic in image.topics.values():
            self._take(topic)
        owned = set(self._partitions)
        for directory in self._log_dirs:
            for tp in directory.logs.keys() - owned:
                log.warning("%s in %s belongs to no topic of this cluster and is left as it is", tp, directory.path)

    async def change(self, before: ClusterImage, after: ClusterImage) -> None:
        """Follow a change of the cluster: new, changed and deleted topics."""
        for name, old in before.topics.items():
            new = after.topics.get(name)
            if new is None or new.id != old.id:
                self._drop(old)
        for name, topic in after.topics.items():
            if before.topics.get(name) is not topic:
                self._take(topic)

    def reconfigure(self, image: ClusterImage) -> None:
        """The broker's own defaults have changed: every log works by the new ones."""
        for topic in image.topics.values():
            config = self._log_config(topic.options)
            min_isr = self._min_insync_replicas(topic.options)
            for index in range(len(topic.partitions)):
                partition = self._partitions.get(TopicPartition(topic.name, index))
                if partition is not None:
                    partition.log.config = config
                    partition.min_insync_replicas = min_isr

    async def close(self) -> None:
        """Appends that wait for their fsync get it; then who waits for a partition is told to look elsewhere."""
        for partition in self._partitions.values():
            if partition.has_pending:
                await partition.flush()
        await asyncio.sleep(0)
        for partition in self._partitions.values():
            partition.close()

    def _take(self, topic: TopicImage) -> None:
        config = self._log_config(topic.options)
        min_isr = self._min_insync_replicas(topic.options)
        for index, image in enumerate(topic.partitions):
            if self.broker_id not in image.replicas:
                continue
            tp = TopicPartition(topic.name, index)
            existing = self._partitions.get(tp)
            if existing is not None:
                existing.log.config = config
                existing.min_insync_replicas = min_isr
                continue
            try:
                found = self._open(tp, config, topic)
            except KafkaStorageError as error:
                log.error("%s: no log: %s", tp, error)
                continue
            partition = Partition(found, image, min_isr, self._workers)
            partition.lead(image)
            self._partitions[tp] = partition

    def _open(self, tp: TopicPartition, config: LogConfig, topic: TopicImage) -> Log:
        for directory in self._log_dirs:
            failure = directory.failed.get(tp)
            if failure is not None:
                raise failure  # an empty log in its place would look like a log that lost everything
            existing = directory.logs.get(tp)
            if existing is None:
                continue
            if existing.topic_id not in (None, uuid_text(topic.id)):
                # a topic of this name was deleted and the broker died before its log was
                log.warning("%s: the log of an earlier topic is set aside as %s", tp, directory.set_aside(tp))
                continue
            existing.config = config
            return existing
        emptiest = min(self._log_dirs, key=lambda d: len(d.logs))
        return emptiest.create(tp, config, uuid_text(topic.id))

    def _drop(self, topic: TopicImage) -> None:
        for index in range(len(topic.partitions)):
            tp = TopicPartition(topic.name, index)
            partition = self._partitions.pop(tp, None)
            if partition is None:
                continue
            partition.close()
            for directory in self._log_dirs:
                try:
                    directory.delete(tp)
                except KafkaStorageError as error:
                    log.error("%s", error)  # it is out of service all the same


async def wait_all(futures: Sequence[asyncio.Future[None]], timeout_ms: int) -> None:
    """Wait for all futures, but no longer than the time limit; each keeps its own result."""
    if futures:
        await asyncio.wait(futures, timeout=timeout_ms / 1000)
