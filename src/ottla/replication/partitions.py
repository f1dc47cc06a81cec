"""The partitions of this broker: a registry, kept in step with the cluster's image, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor

from ottla.cluster.metadata import ClusterImage, TopicImage
from ottla.cluster.znodes import uuid_text
from ottla.config.topic import LogConfig
from ottla.errors import (
    KafkaStorageError,
    LogDirNotFoundError,
    NotLeaderOrFollowerError,
    ReplicaNotAvailableError,
    UnknownTopicOrPartitionError,
)
from ottla.model import TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.relocation import Relocation
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
        self._relocations: dict[TopicPartition, Relocation] = {}
        self._may_create = True
        self.relocation_limit = float("inf")
        """Bytes per second that all moves between data directories may copy; it may change while they are under way."""
        self.on_fatal: Callable[[], None] | None = None
        """Told when the first data directory has failed, which holds the registry."""

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

    @property
    def log_dirs(self) -> Sequence[LogDir]:
        """The data directories, failed ones included."""
        return self._log_dirs

    @property
    def relocations(self) -> Mapping[TopicPartition, Relocation]:
        """Replicas that are on their way to another directory."""
        return self._relocations

    async def start(self, image: ClusterImage, *, all_dirs: bool = True) -> None:
        """Lead what the image gives to this broker. Logs that no topic owns are left alone, and named.

        Where a data directory could not be opened (`all_dirs` is false), no log is made for a topic that was there
        before: it may lie in that directory, and an empty one would look like one that lost everything.
        """
        self._may_create = all_dirs
        for topic in image.topics.values():
            self._take(topic)
        self._may_create = True
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

    async def relocate(self, tp: TopicPartition, path: str) -> None:
        """Move a replica to the data directory of that path; one that is on its way elsewhere changes its way.

        Raises LogDirNotFoundError, ReplicaNotAvailableError or KafkaStorageError.
        """
        target = next((d for d in self._log_dirs if str(d.path) == path), None)
        if target is None:
            raise LogDirNotFoundError(f"{path} is not one of this broker's log.dirs")
        partition = self._partitions.get(tp)
        if partition is None:
            raise ReplicaNotAvailableError(f"{tp} has no replica on this broker")
        if target.offline:
            raise KafkaStorageError(f"{path} is out of service: {target.offline}")
        running = self._relocations.get(tp)
        if running is not None and running.target is target:
            return
        if running is not None:
            await running.cancel()
        source = self._directory_of(partition)
        if source is not target:
            moving = self._relocations[tp] = Relocation(partition, source, target, self._relocation_share)
            moving.start(lambda: self._relocated(tp, moving))

    def _relocation_share(self) -> float:
        return self.relocation_limit / len(self._relocations)

    def _relocated(self, tp: TopicPartition, ended: Relocation) -> None:
        if self._relocations.get(tp) is ended:
            del self._relocations[tp]

    def _directory_of(self, partition: Partition) -> LogDir:
        return next(d for d in self._log_dirs if d.logs.get(partition.topic_partition) is partition.log)

    def _on_disk_failure(self, partition: Partition, error: BaseException) -> None:
        """One log's disk is all logs' disk: their directory is out of service (KIP-112)."""
        directory = self._directory_of(partition)
        if not directory.offline:
            log.error("log.dirs: %s has failed and is out of service until a restart: %s", directory.path, error)
            directory.take_offline(str(error))
            for tp in directory.logs:
                other = self._partitions.get(tp)
                if other is not None:
                    other.fail(error)
            if self.on_fatal is not None and directory is self._log_dirs[0]:
                self.on_fatal()

    async def close(self) -> None:
        """Appends that wait for their fsync get it; then who waits for a partition is told to look elsewhere."""
        for running in list(self._relocations.values()):
            await running.cancel()
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
            partition.on_disk_failure = self._on_disk_failure
            partition.lead(image)
            self._partitions[tp] = partition

    def _open(self, tp: TopicPartition, config: LogConfig, topic: TopicImage) -> Log:
        self._set_aside_copies(tp)
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
        online = [directory for directory in self._log_dirs if not directory.offline]
        if not self._may_create or not online:
            raise KafkaStorageError("it may lie in a data directory that is out of service")
        emptiest = min(online, key=lambda d: len(d.logs))
        return emptiest.create(tp, config, uuid_text(topic.id))

    def _set_aside_copies(self, tp: TopicPartition) -> None:
        """After a crash at the end of a move a log may be there twice: the one that goes farther was in use last."""
        holders = sorted((d for d in self._log_dirs if tp in d.logs), key=lambda d: d.logs[tp].log_end_offset)
        for directory in holders[:-1]:
            log.warning("%s is there twice: %s holds less and is set aside", tp, directory.set_aside(tp))

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
