"""The partitions of this broker, updated with each cluster image. Kafka's `ReplicaManager`, without the purgatory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Final, Protocol

from ottla import errors
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from ottla.cluster.image.image_delta import changed_partitions
from ottla.cluster.store.znodes import uuid_text
from ottla.config.topic import LogConfig
from ottla.model import TopicPartition
from ottla.replication.isr_updates import IsrSubmitter
from ottla.replication.log_dir_move import LogDirMove
from ottla.replication.partition import LAG_SECONDS, Partition
from ottla.replication.rejected_batches import RejectedBatches
from ottla.replication.replication_quota import ReplicationQuota, is_throttled
from ottla.replication.topic_stats import BrokerTopicStats
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir

log = logging.getLogger("ottla.replication")

KINDS = ("leader", "follower")
"""The roles that have `*.replication.throttled.replicas`."""

MAX_PREFERRED_DIRS: Final = 10_000
"""The maximum number of replicas without a log whose log directory was chosen; the oldest are dropped first."""

MAX_LOGGED: Final = 20
"""The maximum number of partitions that a log line names."""

LogConfigOf = Callable[[Mapping[str, str]], LogConfig]
"""Makes a log's config from the configs of its topic."""
MinIsrOf = Callable[[Mapping[str, str]], int]


class LeadershipListener(Protocol):
    """Acts on partitions that this broker leads. Called on the event loop."""

    def on_leader(self, partition: Partition) -> None:
        """Act on a partition that this broker leads, now or in a new epoch."""

    def on_resigned(self, tp: TopicPartition) -> None:
        """Act on a partition that this broker no longer leads: it follows, the partition is closed, or has no
        leader.
        """


class FetcherManager(Protocol):
    """Fetches the partitions that this broker follows."""

    def add(self, partition: Partition) -> None:
        """Fetch a partition from the leader that its image names; also called when that changes."""

    def remove(self, tp: TopicPartition) -> None:
        """Stop fetching a partition."""


class Partitions:
    """Partitions by name, in the log directories. Not thread-safe: event loop only."""

    def __init__(
        self,
        broker_id: int,
        log_dirs: Sequence[LogDir],
        workers: Executor,
        log_config: LogConfigOf,
        min_insync_replicas: MinIsrOf,
        clock: Clock = SYSTEM_CLOCK,
        *,
        isr_updates: IsrSubmitter | None = None,
        followers: FetcherManager | None = None,
        follower_quota: ReplicationQuota | None = None,
        lag_seconds: float = LAG_SECONDS,
        all_dirs: bool = True,
        on_dir_failure: Callable[[list[TopicPartition]], None] | None = None,
        on_fatal: Callable[[], None] | None = None,
    ) -> None:
        """Without `isr_updates` and `followers`, the broker is standalone.

        `followers` fetches the partitions that other brokers lead, and leaders send their ISR changes to `isr_updates`.
        `all_dirs`: whether every log directory could be opened. `on_dir_failure` receives the replicas that a failed
        directory has put out of service; `on_fatal` is called when the first one, with the metadata store, has failed.
        """
        self.broker_id = broker_id
        self._log_dirs = log_dirs
        self._workers = workers
        self._log_config = log_config
        self._min_insync_replicas = min_insync_replicas
        self._partitions: dict[TopicPartition, Partition] = {}
        self._moves: dict[TopicPartition, LogDirMove] = {}
        self._preferred_dirs: dict[TopicPartition, LogDir] = {}
        """The chosen log directories of replicas without a log."""
        self._failed_creations: list[TopicPartition] = []
        """Replicas whose log could not be created in the current change."""
        self._reported_failures: set[TopicPartition] = set()
        """Replicas without a log that were reported to the controller."""
        # If a log directory could not be opened, no log is created for a replica that is in the ISR: it may lie in that
        # directory, and an empty log would look like one that lost everything.
        self._all_dirs = all_dirs
        self.alter_log_dirs_rate = float("inf")
        """Bytes per second of all log directory moves together; may change while they run."""
        self._on_fatal = on_fatal
        self._on_dir_failure = on_dir_failure
        self._listeners: list[LeadershipListener] = []
        self._followers = followers
        self._is_shutting_down = False
        self._isr_updates = isr_updates
        self._lag_seconds = lag_seconds
        self.rejected_batches = RejectedBatches(clock)
        self.topic_stats = BrokerTopicStats()
        self.leader_quota, self.follower_quota = ReplicationQuota(), follower_quota or ReplicationQuota()

    def add_listener(self, listener: LeadershipListener) -> None:
        """Call `listener` when this broker begins or ceases to lead a partition. Before `start`, to miss none."""
        self._listeners.append(listener)

    def begin_shutdown(self) -> None:
        """Stop following partitions that this broker has left the ISR of: the next leader would take it back."""
        self._is_shutting_down = True

    def update_rates(self, *, alter_log_dirs: float, leader: float, follower: float) -> None:
        """Set the limits, in bytes per second, of log directory moves and of throttled replication."""
        self.alter_log_dirs_rate = alter_log_dirs
        self.leader_quota.bytes_per_second = leader
        self.follower_quota.bytes_per_second = follower

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, tp: TopicPartition) -> Partition | None:
        return self._partitions.get(tp)

    def get_leader(self, tp: TopicPartition) -> Partition | None:
        """Return the partition if this broker leads it."""
        partition = self._partitions.get(tp)
        return partition if partition is not None and partition.leads else None

    def leader(self, image: ClusterImage, tp: TopicPartition) -> Partition:
        """Return the partition, or raise the error that a client gets."""
        partition = self._partitions.get(tp)
        if partition is not None:
            if not partition.leads and not partition.failed:
                raise errors.NotLeaderOrFollowerError
            return partition
        raise self._no_replica(image, tp)

    def replica(self, image: ClusterImage, tp: TopicPartition) -> Partition:
        """Return the partition if this broker has a replica of it, or raise the error that a client gets."""
        partition = self._partitions.get(tp)
        if partition is None:
            raise self._no_replica(image, tp)
        if partition.failed:
            raise errors.KafkaStorageError(f"{tp} is in a log directory that is out of service")
        return partition

    def _no_replica(self, image: ClusterImage, tp: TopicPartition) -> errors.KafkaError:
        partition_image = image.partition(tp)
        if partition_image is None:
            return errors.UnknownTopicOrPartitionError()
        if self.broker_id in partition_image.replicas:
            return errors.KafkaStorageError(f"{tp} has no log on this broker")
        return errors.NotLeaderOrFollowerError()

    def readable(self, image: ClusterImage, tp: TopicPartition) -> Partition:
        """Return the partition for reading, as leader or follower, or raise the error that a client gets."""
        partition = self._partitions.get(tp)
        if partition is not None and partition.image.leader != NO_LEADER:
            return partition
        return self.leader(image, tp)

    @property
    def log_dirs(self) -> Sequence[LogDir]:
        """The log directories, including failed ones."""
        return self._log_dirs

    @property
    def offline_directories(self) -> int:
        """The number of log directories that are out of service, or could not be opened."""
        return sum(bool(log_dir.offline) for log_dir in self._log_dirs) + (not self._all_dirs)

    @property
    def log_dir_moves(self) -> Mapping[TopicPartition, LogDirMove]:
        """Replicas that are being moved to another log directory."""
        return self._moves

    def offline_replicas(self) -> list[TopicPartition]:
        """Return the replicas that are out of service: their disk has failed, or they have no log."""
        return [*self._reported_failures, *(tp for tp, partition in self._partitions.items() if partition.failed)]

    async def start(self, image: ClusterImage) -> None:
        """Lead and follow the partitions of the image. Logs of unknown topics are kept, with a warning."""
        for topic in image.topics.values():
            self._apply_topic(topic)
        self._report_failed_creations()
        self._log_roles(None, image)
        owned = set(self._partitions)
        for directory in self._log_dirs:
            for tp in directory.logs.keys() - owned:
                log.warning("Ignoring log of %s in %s: the topic does not exist in this cluster", tp, directory.path)

    async def on_image_changed(self, before: ClusterImage, after: ClusterImage) -> None:
        """Apply a new image. Partitions that were moved away are closed; their logs stay until the controller deletes
        them.
        """
        for name, old in before.topics.items():
            new = after.topics.get(name)
            if new is None or new.id != old.id:
                for index in range(len(old.partitions)):
                    self._close_partition(TopicPartition(name, index))
                self.topic_stats.remove(name)
        for name, topic in after.topics.items():
            if before.topics.get(name) is not topic:
                self._apply_topic(topic)
        self._report_failed_creations()
        self._log_roles(before, after)
        removed = before.brokers.keys() - after.brokers.keys()
        if removed:
            for partition in self:
                partition.leader_replica.on_brokers_removed(removed)

    def reconfigure(self, image: ClusterImage) -> None:
        """Apply changed defaults of the broker to every log."""
        for topic in image.topics.values():
            config = self._log_config(topic.configs)
            min_isr = self._min_insync_replicas(topic.configs)
            for index in range(len(topic.partitions)):
                partition = self._partitions.get(TopicPartition(topic.name, index))
                if partition is not None:
                    partition.log.config = config
                    partition.min_insync_replicas = min_isr

    async def move_replica(self, tp: TopicPartition, path: str) -> None:
        """Move a replica to a log directory; a move in progress is replaced.

        A replica without a log will be created there, as in Kafka, although ReplicaNotAvailableError is raised.

        Raises LogDirNotFoundError, ReplicaNotAvailableError or KafkaStorageError.
        """
        target = next((d for d in self._log_dirs if str(d.path) == path), None)
        if target is None:
            raise errors.LogDirNotFoundError(f"{path} is not one of this broker's log.dirs")
        if target.offline:
            raise errors.KafkaStorageError(f"{path} is out of service: {target.offline}")
        partition = self._partitions.get(tp)
        if partition is None:
            self._set_preferred_dir(tp, target)
            raise errors.ReplicaNotAvailableError(f"{tp} has no replica on this broker")
        running = self._moves.get(tp)
        if running is not None and running.target is target:
            return
        if running is not None:
            await running.cancel()
        source = self._directory_of(partition)
        if source is not target:
            move = self._moves[tp] = LogDirMove(partition, source, target, self._rate_per_move)
            move.start(lambda: self._on_move_done(tp, move))

    def _set_preferred_dir(self, tp: TopicPartition, target: LogDir) -> None:
        self._preferred_dirs[tp] = target
        if len(self._preferred_dirs) > MAX_PREFERRED_DIRS:
            del self._preferred_dirs[next(iter(self._preferred_dirs))]

    def _rate_per_move(self) -> float:
        return self.alter_log_dirs_rate / len(self._moves)

    def _on_move_done(self, tp: TopicPartition, ended: LogDirMove) -> None:
        if self._moves.get(tp) is ended:
            del self._moves[tp]

    def _directory_of(self, partition: Partition) -> LogDir:
        return next(d for d in self._log_dirs if d.logs.get(partition.topic_partition) is partition.log)

    def _on_disk_failure(self, partition: Partition, error: BaseException) -> None:
        self.fail_directory(self._directory_of(partition), error)

    def fail_directory(self, directory: LogDir, error: BaseException) -> None:
        """Take a log directory out of service with all its logs, as one of them met a disk error (KIP-112)."""
        if not directory.offline:
            log.error("Taking log directory %s out of service until a restart: %s", directory.path, error)
            directory.take_offline(str(error))
            for tp in directory.logs:
                other = self._partitions.get(tp)
                if other is not None:
                    other.fail(error)
                    if self._followers is not None:
                        self._followers.remove(tp)
            if self._on_dir_failure is not None:
                self._on_dir_failure(list(directory.logs))
            if self._on_fatal is not None and directory is self._log_dirs[0]:
                self._on_fatal()

    async def close(self) -> None:
        """Flush appends that wait for it, then fail everything that waits for a partition."""
        for running in list(self._moves.values()):
            await running.cancel()
        for partition in self._partitions.values():
            if partition.has_pending:
                await partition.flush()
        await asyncio.sleep(0)
        for partition in self._partitions.values():
            partition.close()

    def _apply_topic(self, topic: TopicImage) -> None:
        mine = []
        for index, image in enumerate(topic.partitions):
            tp = TopicPartition(topic.name, index)
            if self.broker_id in image.replicas:
                mine.append((tp, image))
            else:
                self._close_partition(tp)
        if not mine:
            return
        config = self._log_config(topic.configs)
        min_isr = self._min_insync_replicas(topic.configs)
        for tp, image in mine:
            partition = self._partitions.get(tp)
            if partition is None:
                partition = self._create(tp, image, topic, config)
            if partition is not None:
                partition.log.config = config
                partition.min_insync_replicas = min_isr
                self._throttle(partition, topic.configs)
                self._apply_state(partition, image)

    def _throttle(self, partition: Partition, configs: Mapping[str, str]) -> None:
        number = partition.topic_partition.partition
        leaders, followers = (configs.get(f"{kind}.replication.throttled.replicas", "") for kind in KINDS)
        partition.throttled_leader = is_throttled(leaders, number, self.broker_id)
        partition.throttled_follower = is_throttled(followers, number, self.broker_id)

    def _create(
        self, tp: TopicPartition, image: PartitionImage, topic: TopicImage, config: LogConfig
    ) -> Partition | None:
        try:
            partition_log = self._open(tp, image, config, topic)
        except (errors.KafkaStorageError, OSError) as error:
            log.error("Cannot open the log of %s: %s", tp, error)
            self._failed_creations.append(tp)
            return None
        self._reported_failures.discard(tp)
        partition = self._partitions[tp] = Partition(
            partition_log,
            image,
            1,
            self._workers,
            topic_id=topic.id,
            isr_updates=self._isr_updates,
            lag_seconds=self._lag_seconds,
            on_disk_failure=self._on_disk_failure,
            topic_stats=self.topic_stats.add(topic.name),
        )
        return partition

    def _apply_state(self, partition: Partition, image: PartitionImage) -> None:
        """Make a partition leader or follower. An image that is older than the current one is ignored."""
        if partition.is_older(image):
            return
        tp, led = partition.topic_partition, partition.leads
        if image.leader == self.broker_id:
            if partition.failed:
                return  # clients get the error until the controller has elected another leader
            if self._followers is not None and not led:
                self._followers.remove(tp)
            try:
                new = partition.lead(image)
            except OSError as error:
                partition.fail(error)
                return
            if new:
                for listener in self._listeners:
                    listener.on_leader(partition)
            return
        partition.follow(image)
        if led:
            self._notify_resigned(tp)
        if self._followers is not None and not partition.failed:
            if self._is_shutting_down and self.broker_id not in image.isr:
                self._followers.remove(tp)
            else:
                self._followers.add(partition)

    def _log_roles(self, before: ClusterImage | None, after: ClusterImage) -> None:
        """Log, in a cluster, the partitions with another leader that this broker leads or follows."""
        if self._followers is None or not log.isEnabledFor(logging.INFO):
            return
        leads: list[str] = []
        follows: list[str] = []
        for topic, index, now, old in changed_partitions(before, after):
            if self.broker_id in now.replicas and (old is None or old.leader != now.leader):
                role = leads if now.leader == self.broker_id else follows
                role.append(f"{topic.name}-{index} (epoch {now.leader_epoch})")
        for verb, names in (("leads", leads), ("follows", follows)):
            if names:
                more = f" and {len(names) - MAX_LOGGED} more" if len(names) > MAX_LOGGED else ""
                log.info("Broker %d now %s %s%s", self.broker_id, verb, ", ".join(names[:MAX_LOGGED]), more)

    def _report_failed_creations(self) -> None:
        """Report replicas without a log like those on a failed disk, so that other replicas lead."""
        new = [tp for tp in self._failed_creations if tp not in self._reported_failures]
        self._failed_creations.clear()
        self._reported_failures.update(new)
        if new and self._on_dir_failure is not None:
            self._on_dir_failure(new)

    def _notify_resigned(self, tp: TopicPartition) -> None:
        for listener in self._listeners:
            listener.on_resigned(tp)

    def _close_partition(self, tp: TopicPartition) -> None:
        """Close a partition; its log stays."""
        partition = self._partitions.pop(tp, None)
        if partition is None:
            return
        led = partition.leads
        if self._followers is not None:
            self._followers.remove(tp)
        partition.close()
        if led:
            self._notify_resigned(tp)

    def stop(self, tp: TopicPartition, delete: bool) -> None:
        """Stop a replica: delete it, or stop fetching before a shutdown."""
        if delete:
            self.delete(tp)
        elif self._followers is not None:
            self._followers.remove(tp)

    def delete(self, tp: TopicPartition) -> None:
        """Close a partition and delete its log. Only the controller's StopReplica requests do that."""
        self._close_partition(tp)
        for directory in self._log_dirs:
            try:
                directory.delete(tp)
            except errors.KafkaStorageError as error:
                log.error("%s", error)  # its directory is out of service

    def _open(self, tp: TopicPartition, image: PartitionImage, config: LogConfig, topic: TopicImage) -> Log:
        self._mark_stray_copies(tp)
        for directory in self._log_dirs:
            failure = directory.failed.get(tp)
            if failure is not None:
                raise failure  # an empty log in its place would look like a log that lost everything
            existing = directory.logs.get(tp)
            if existing is None:
                continue
            if existing.topic_id not in (None, uuid_text(topic.id)):
                # a topic of this name was deleted, and the broker died before it had deleted the log
                log.warning("Moving log of an earlier topic %s aside as stray: %s", tp, directory.mark_stray(tp))
                continue
            existing.config = config
            return existing
        online = [directory for directory in self._log_dirs if not directory.offline]
        was_there = self.broker_id in image.isr and (image.leader_epoch, image.state_version) > (0, 0)
        if (was_there and not self._all_dirs) or not online:
            raise errors.KafkaStorageError("the log may be in a log directory that is out of service")
        preferred = self._preferred_dirs.pop(tp, None)
        chosen = preferred if preferred in online else min(online, key=lambda d: len(d.logs))
        return chosen.create(tp, config, uuid_text(topic.id))

    def _mark_stray_copies(self, tp: TopicPartition) -> None:
        """Mark all but the longest log of a replica stray: a crash at the end of a move may leave two."""
        holders = sorted((d for d in self._log_dirs if tp in d.logs), key=lambda d: d.logs[tp].log_end_offset)
        for directory in holders[:-1]:
            log.warning("Found two logs of %s; marking the shorter one in %s as stray", tp, directory.mark_stray(tp))


async def wait_all(futures: Sequence[asyncio.Future[None]], timeout_ms: int) -> None:
    """Wait for all futures, but not longer than the timeout; each keeps its own result."""
    if futures:
        await asyncio.wait(futures, timeout=timeout_ms / 1000)
