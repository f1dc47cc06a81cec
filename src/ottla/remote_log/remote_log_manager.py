"""Tiered storage of this broker's replicas. Kafka's RemoteLogManager.

The leader of a tiered partition has a task that copies closed segments to remote storage and deletes expired ones
there. Every replica reads the metadata of the segments in remote storage, deletes copied segments locally according to
the local retention, and can read records from remote storage. The segments of deleted topics are deleted by the leaders
of the partitions of `__remote_log_metadata`. Not thread-safe: event loop only. Blocking work runs in threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import UUID

from ottla.backoff import JITTER, ExponentialBackoff
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.topic import LogConfig
from ottla.errors import KafkaError, KafkaStorageError, NotLeaderOrFollowerError
from ottla.logs import RateLimitFilter
from ottla.model import OffsetAndTimestamp, TopicPartition
from ottla.protocol.fields import ZERO_UUID
from ottla.remote_log.auxiliary_state import AuxiliaryStateBuilder
from ottla.remote_log.chunk_cache import ChunkReader, TooManyRemoteReadsError
from ottla.remote_log.metadata_manager import RemoteLogMetadataManager
from ottla.remote_log.metadata_store import RemotePartitionMetadataStore
from ottla.remote_log.remote_log_reader import RemoteLogReader, RemoteRead
from ottla.remote_log.remote_retention import deletable, expired_before
from ottla.remote_log.segment_copier import SegmentCopier, copy_candidates
from ottla.remote_log.segment_deletion import SegmentDeleter
from ottla.remote_log.segment_metadata import RemoteLogSegmentMetadata, RemotePartition
from ottla.replication.partition import Partition
from ottla.replication.partitions import Partitions
from ottla.replication.topic_stats import TopicStats
from ottla.storage.files import DiskFailedError
from ottla.storage.log import Log
from ottla.storage.retention import local_retention_offset
from ottla.storage.segment import SNAPSHOT_SUFFIX, file_name

log = logging.getLogger("ottla.remote_log")
reads_log = logging.getLogger("ottla.remote_log.reads")
reads_log.addFilter(RateLimitFilter())  # while remote storage is down, each fetch of each consumer fails

CLOSE_SECONDS: Final = 5.0
"""Maximum time in seconds that a stopping broker waits for uploads in progress."""
WARN_EVERY: Final = 10
"""If a leader's task fails repeatedly, one in this many KafkaErrors is logged as a warning, the others as debug
messages. A NotLeaderOrFollowerError does not count as a failure.
"""
NOTHING: Final = RemoteRead(memoryview(b""), [])
TopicExists = Callable[[str, UUID], Awaitable[bool]]
"""An async function that returns whether the metadata store has a topic with this name, and with this id or none."""


class _LeaderTask(NamedTuple):
    """The task of a partition that this broker leads in a leader epoch."""

    partition: Partition
    leader_epoch: int
    task: asyncio.Task[None]


def is_tiered(partition: Partition) -> bool:
    """Return whether a partition is tiered: remote.storage.enable or remote.log.delete.on.disable is set for its topic.

    A topic without an id, which Kafka before 2.8 has created, is never tiered, because its segments could not be
    distinguished from those of a later topic with the same name.
    """
    config = partition.log.config
    if partition.topic_id == ZERO_UUID:
        return False
    return config.remote_storage_enable or config.remote_log_delete_on_disable


def remote_partition(partition: Partition) -> RemotePartition:
    topic, number = partition.topic_partition
    return RemotePartition(partition.topic_id, topic, number)


class RemoteLogManager:
    """Copies, deletes and reads segments of this broker's tiered partitions in remote storage, and deletes those of
    deleted topics.
    """

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        partitions: Partitions,
        image: Callable[[], ClusterImage],
        metadata: RemoteLogMetadataManager,
        chunks: ChunkReader,
        copier: SegmentCopier,
        deleter: SegmentDeleter,
        topic_exists: TopicExists,
    ) -> None:
        self._config = config
        self._clock = clock
        self._partitions = partitions
        self._image = image
        self._metadata = metadata
        self._chunks = chunks
        self._copier = copier
        self._deleter = deleter
        self._topic_exists = topic_exists
        self._reader = RemoteLogReader(chunks)
        self.auxiliary_state = AuxiliaryStateBuilder(metadata, chunks)
        self._replicas: dict[TopicPartition, tuple[Partition, RemotePartition]] = {}
        """The tiered replicas of this broker."""
        self._tasks: dict[TopicPartition, _LeaderTask] = {}
        self._cleaned: dict[TopicPartition, tuple[RemotePartitionMetadataStore, int, int, LogConfig]] = {}
        """By partition: the metadata and its version, the log start offset and the configs with which nothing had to be
        deleted.
        """
        self._cancelled: set[asyncio.Task[None]] = set()
        self._collector: asyncio.Task[None] | None = None
        self._topics_deleted = asyncio.Event()
        self.busy_tasks = 0
        """The number of leader tasks that are in a pass, in which they copy and delete segments."""

    @property
    def leader_tasks(self) -> int:
        """The number of leader tasks; at most one per partition."""
        return len(self._tasks)

    @property
    def pending_reads(self) -> int:
        """The number of reads from remote storage in progress and waiting."""
        return self._chunks.pending

    # Roles

    def start(self) -> None:
        """Start the tasks of this broker's replicas."""
        for partition in list(self._partitions):
            self._apply_role(partition)
        self._metadata.update_readers()
        self._collector = asyncio.get_running_loop().create_task(self._collect_garbage())

    async def on_image_changed(self, before: ClusterImage, after: ClusterImage) -> None:
        """Start and stop tasks after changes of leaders and topic configs, and wake the deletion of deleted topics'
        segments.
        """
        for name, topic in after.topics.items():
            if before.topics.get(name) is not topic:
                for number in range(len(topic.partitions)):
                    partition = self._partitions.get(TopicPartition(name, number))
                    if partition is not None:
                        self._apply_role(partition)
        for tp, (partition, _) in list(self._replicas.items()):
            if self._partitions.get(tp) is not partition:
                self._remove(tp)
                replacement = self._partitions.get(tp)
                if replacement is not None:
                    self._apply_role(replacement)
        if before.names.keys() - after.names.keys():
            self._topics_deleted.set()
        self._metadata.update_readers()

    def _apply_role(self, partition: Partition) -> None:
        tp = partition.topic_partition
        if not is_tiered(partition) or partition.closed:
            self._remove(tp)
            return
        replica = self._replicas.get(tp)
        if replica is None or replica[0] is not partition:
            self._remove(tp)
            self._replicas[tp] = partition, remote_partition(partition)
            self._metadata.assign(remote_partition(partition))
        running = self._tasks.get(tp)
        epoch = partition.image.leader_epoch
        if running is not None and (not partition.leads or running.leader_epoch != epoch):
            self._cancel(tp)
            running = None
        if partition.leads and running is None:
            task = asyncio.get_running_loop().create_task(self._run(partition, epoch))
            self._tasks[tp] = _LeaderTask(partition, epoch, task)

    def _remove(self, tp: TopicPartition) -> None:
        self._cancel(tp)
        self._cleaned.pop(tp, None)
        replica = self._replicas.pop(tp, None)
        if replica is not None:
            self._metadata.unassign(replica[1])

    def _cancel(self, tp: TopicPartition) -> None:
        running = self._tasks.pop(tp, None)
        if running is not None:
            running.task.cancel()
            self._cancelled.add(running.task)
            running.task.add_done_callback(self._cancelled.discard)

    async def close(self) -> None:
        """Stop all tasks. Wait at most CLOSE_SECONDS for uploads in progress, and delete their objects.

        If that takes longer, the next leader deletes the unfinished copies.
        """
        tasks = [*self._cancelled, *(running.task for running in self._tasks.values())]
        tasks += [] if self._collector is None else [self._collector]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        self._tasks.clear()
        await self._metadata.close()
        await self._chunks.close()

    # The leader's task

    async def _run(self, partition: Partition, epoch: int) -> None:
        """Copy and delete segments of a partition again and again, until it is closed or the task is cancelled."""
        config = self._config()
        backoff = ExponentialBackoff(
            config.remote_log_manager_task_retry_backoff_ms / 1000,
            config.remote_log_manager_task_retry_backoff_max_ms / 1000,
            jitter=JITTER,
        )
        failures = 0
        while not partition.closed:
            delay = self._config().remote_log_manager_task_interval_ms / 1000
            try:
                await self._run_once(partition, epoch)
                failures = 0
            except NotLeaderOrFollowerError as error:
                log.info(
                    "Copying segments of %s to remote storage, or deleting segments there, was interrupted; retrying "
                    "within %g s if this broker still leads the partition: %s",
                    partition.topic_partition,
                    delay,
                    error,
                )
            except KafkaError as error:
                level = logging.DEBUG if failures % WARN_EVERY else logging.WARNING
                delay = min(delay, backoff.backoff(failures))
                log.log(
                    level,
                    "Cannot copy segments of %s to remote storage, or delete segments there; retrying in %.1f s: %s",
                    partition.topic_partition,
                    delay,
                    error,
                )
                failures += 1
            except Exception:
                # a bug must not stop the copying of a partition for ever: its disk would fill up
                log.exception(
                    "Cannot copy segments of %s to remote storage, or delete segments there; retrying in %g s",
                    partition.topic_partition,
                    delay,
                )
                failures += 1
            await asyncio.sleep(delay)

    async def _run_once(self, partition: Partition, epoch: int) -> None:
        await self._metadata.ensure_topic()
        replica = self._replicas.get(partition.topic_partition)
        store = None if replica is None else self._metadata.store(replica[1])
        if store is None:
            return
        await store.wait_ready()
        self.busy_tasks += 1
        try:
            await self._copy_and_clean(partition, store, epoch)
        finally:
            self.busy_tasks -= 1

    async def _copy_and_clean(self, partition: Partition, store: RemotePartitionMetadataStore, epoch: int) -> None:
        correct_log_start(partition.log, store)
        update_remote_end(partition.log, store)

        def is_leader() -> bool:
            return partition.leads and partition.image.leader_epoch == epoch and not partition.closed

        config = partition.log.config
        if config.remote_storage_enable and not config.remote_log_copy_disable:
            if partition.log.recovery_point < partition.log.active.base_offset:
                # Segments are flushed when they are rolled; after a crash, the recovered ones would wait for the next
                # roll, which an idle topic does not have. The next pass copies them.
                partition.flush_in_background(partition.log.active.base_offset)
            for candidate in copy_candidates(partition.log):
                if not is_leader():
                    return
                await self._copier.copy(partition, store, candidate, is_leader, partition.topic_stats)
                update_remote_end(partition.log, store)
        if is_leader():
            await self._clean(partition, store)

    async def _clean(self, partition: Partition, store: RemotePartitionMetadataStore) -> None:
        """Advance the log start offset by retention, or to the local log if remote storage was disabled. Delete
        segments in remote storage.
        """
        partition_log = partition.log
        if partition_log.config.remote_storage_enable:
            start = expired_before(partition_log, store, self._clock.now_ms())
            if start > partition_log.log_start_offset:
                log.info("Deleting the expired records of %s before offset %d", partition.topic_partition, start)
                partition_log.delete_records_before(start)
        elif partition_log.log_start_offset < partition_log.local_log_start_offset:
            partition_log.delete_records_before(partition_log.local_log_start_offset)  # remote storage was disabled
        # most passes find nothing new, and there may be very many segments
        state = store, store.version, partition_log.log_start_offset, partition_log.config
        if self._cleaned.get(partition.topic_partition) == state:
            return
        store.to_delete = deque(deletable(partition_log, store))
        if not store.to_delete:
            self._cleaned[partition.topic_partition] = state
        while store.to_delete:
            await self._delete(store, store.to_delete[0], partition.topic_stats)
            store.to_delete.popleft()

    async def _delete(
        self, store: RemotePartitionMetadataStore, segment: RemoteLogSegmentMetadata, stats: TopicStats
    ) -> None:
        stats.remote_delete_requests += 1
        try:
            await self._deleter.delete(store, segment)
        except KafkaError:
            stats.remote_delete_errors += 1
            raise

    # Local retention

    async def apply_local_retention(self) -> None:
        """Delete the local segments of tiered replicas that are in remote storage and exceed the local retention."""
        for partition, remote in list(self._replicas.values()):
            store = self._metadata.store(remote)
            if (
                partition.closed
                or store is None
                or not store.is_ready
                or not partition.log.config.remote_storage_enable
            ):
                continue
            try:
                await self._apply_local_retention(partition, store)
            except DiskFailedError as error:
                partition.fail(error)
            except (KafkaError, OSError) as error:
                log.error(
                    "Cannot delete local segments of %s that are in remote storage; retrying later: %s",
                    partition.topic_partition,
                    error,
                )

    async def _apply_local_retention(self, partition: Partition, store: RemotePartitionMetadataStore) -> None:
        partition_log = partition.log
        update_remote_end(partition_log, store)
        offset = local_retention_offset(partition_log, self._clock.now_ms())
        if offset <= partition_log.segments[0].base_offset:
            return
        cuts = partition_log.cuts
        snapshot = partition_log.dir / file_name(offset, SNAPSHOT_SUFFIX)

        epochs = partition_log.leader_epochs.entries
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, partition_log.sync_tiered_state, offset, epochs)
        # meanwhile, a follower may have truncated its log, the partition may have moved to another directory, or the
        # segments may have been deleted in remote storage
        update_remote_end(partition_log, store)
        if (
            partition.log is partition_log
            and partition_log.cuts == cuts
            and offset <= partition_log.remote_end_offset
            and partition_log.config.remote_storage_enable
            and snapshot.exists()
            and not partition.closed
        ):
            partition_log.drop_local_before(offset)

    # Reading

    def store(self, partition: Partition) -> RemotePartitionMetadataStore | None:
        """Return the metadata of a tiered replica; None if it is not tiered, or not all metadata was read yet."""
        store = self._store_of(partition)
        return store if store is not None and store.is_ready else None

    def _store_of(self, partition: Partition) -> RemotePartitionMetadataStore | None:
        replica = self._replicas.get(partition.topic_partition)
        return None if replica is None or replica[0] is not partition else self._metadata.store(replica[1])

    async def read(
        self,
        partition: Partition,
        offset: int,
        max_bytes: int,
        *,
        seconds: float,
        at_least_one: bool,
        with_aborted: bool,
    ) -> RemoteRead | None:
        """Return batches from remote storage, from the one that contains `offset` on.

        The data is empty if remote storage does not answer within `seconds`, or too many reads are waiting. A later
        answer is cached for the client's next fetch. Return None if the first batch from `offset` on is in the local
        log. Raises OffsetOutOfRangeError, the errors of RemoteSegment except TooManyRemoteReadsError, or
        KafkaStorageError if the partition is not tiered.
        """
        stats = partition.topic_stats
        stats.remote_fetch_requests += 1
        try:
            async with asyncio.timeout(seconds):
                store = await self._ready_store(partition)
                result = await self._reader.read(
                    partition.log, store, offset, max_bytes, at_least_one=at_least_one, with_aborted=with_aborted
                )
        except (TimeoutError, TooManyRemoteReadsError):
            return NOTHING
        except KafkaError as error:
            stats.remote_fetch_errors += 1
            reads_log.warning(
                "Cannot read offset %d of %s from remote storage; the client gets no records and has to retry: %s",
                offset,
                partition.topic_partition,
                error,
            )
            raise
        if result is not None:
            stats.remote_fetch_bytes += len(result.data)
        return result

    async def _ready_store(self, partition: Partition) -> RemotePartitionMetadataStore:
        store = self._store_of(partition)
        if store is None:
            raise KafkaStorageError(f"{partition.topic_partition} is not tiered")
        await store.wait_ready()
        return store

    async def offset_for_time(
        self, partition: Partition, timestamp_ms: int, seconds: float
    ) -> OffsetAndTimestamp | None:
        """Return offset and timestamp of the first record at `timestamp_ms` or later in the remote segments that begin
        below the local log, or None.

        Raises KafkaError, also if remote storage does not answer within `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                store = await self._ready_store(partition)
                return await self._reader.offset_for_time(partition.log, store, timestamp_ms)
        except TimeoutError:
            raise KafkaStorageError(f"remote storage has not answered within {seconds:g} s") from None

    def max_timestamp(self, partition: Partition) -> int:
        """Return the highest timestamp in remote storage in ms; -1 if there is none, or if it is unknown."""
        store = self.store(partition)
        return -1 if store is None else self._reader.max_timestamp(partition.log, store)

    def copied_until(self, partition: Partition) -> int:
        """Return the offset up to which a partition's records are in remote storage; -1 if it is unknown."""
        store = self.store(partition)
        if store is None:
            return -1
        update_remote_end(partition.log, store)
        return partition.log.remote_end_offset

    def replicas(self) -> Iterator[tuple[Partition, RemotePartitionMetadataStore]]:
        """Yield the tiered replicas with their metadata."""
        for partition, remote in self._replicas.values():
            store = self._metadata.store(remote)
            if store is not None:
                yield partition, store

    def all_led_stores(self) -> Iterator[RemotePartitionMetadataStore]:
        """Yield the metadata in the partitions of `__remote_log_metadata` that this broker leads and that are ready."""
        for metadata in self._metadata.led():
            yield from metadata.stores.values()

    # Deleted topics

    async def _collect_garbage(self) -> None:
        """Delete abandoned copies, and the segments of deleted topics, again and again.

        The segments of a deleted topic are deleted by the broker that leads the partition of `__remote_log_metadata`
        with their metadata. If that broker fails, the partition's next leader continues.
        """
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config().remote_log_manager_task_interval_ms / 1000):
                    await self._topics_deleted.wait()
            self._topics_deleted.clear()
            for delete, what in (
                (self._deleter.delete_abandoned, "unfinished copies"),
                (self._delete_orphans, "segments of deleted topics"),
            ):
                try:
                    await delete()
                except KafkaError as error:
                    log.warning("Cannot delete %s in remote storage; retrying later: %s", what, error)
                except Exception:
                    # a bug must not stop the deletion for ever
                    log.exception("Cannot delete %s in remote storage; retrying later", what)

    async def _delete_orphans(self) -> None:
        image = self._image()
        for metadata in self._metadata.led():
            for remote, store in list(metadata.stores.items()):
                if not len(store) or remote.topic_id in image.names or remote.topic_id in self._image().names:
                    continue
                if await self._topic_exists(remote.topic, remote.topic_id):
                    continue  # this broker has not received the topic yet
                log.info(
                    "Deleting all %d segments of %s in remote storage, because the topic was deleted",
                    len(store),
                    remote,
                )
                for segment in list(store.segments):
                    await self._delete(store, segment, self._partitions.topic_stats.get(None))


def correct_log_start(partition_log: Log, store: RemotePartitionMetadataStore) -> None:
    """Advance the log start offset of a leader to the first record that exists in remote storage or locally, because
    the checkpointed offset may be outdated or missing. Leave it if the leader epochs of the records in remote storage
    are missing.
    """
    if partition_log.log_start_offset >= partition_log.segments[0].base_offset:
        return
    local = partition_log.segments[0].base_offset
    first = store.first_offset(partition_log.leader_epochs)
    if first is None and any(segment.is_readable and segment.end_offset < local for segment in store.segments):
        # the leader epochs of the records in remote storage are lost: do not take them for records of another lineage
        log.error(
            "%s: consumers cannot read the records before offset %d from remote storage, because their leader epochs "
            "are missing in %s",
            partition_log.topic_partition,
            local,
            partition_log.dir,
        )
        return
    start = local if first is None else min(first, local)
    if start > partition_log.log_start_offset:
        partition_log.log_start_offset = start
        partition_log.leader_epochs.truncate_from_start(start)


def update_remote_end(partition_log: Log, store: RemotePartitionMetadataStore) -> None:
    """Set the log's `remote_end_offset`, up to which its local records are in remote storage without a gap."""
    end = store.contiguous_end(partition_log.leader_epochs, partition_log.local_log_start_offset)
    partition_log.remote_end_offset = min(end, partition_log.log_end_offset)
