"""This broker's replicas, which follow the changes of the cluster image.

Kafka's `ReplicaManager`, without the purgatory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from os.path import normpath
from types import MappingProxyType
from typing import Final, Protocol

from ottla import errors
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from ottla.cluster.image.image_delta import changed_partitions
from ottla.cluster.store.znodes import uuid_text
from ottla.config.topic import LogConfig
from ottla.logs import listed, reason_of
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
"""The prefixes of `*.replication.throttled.replicas`."""

MAX_PREFERRED_DIRS: Final = 10_000
"""Maximum number of replicas without a log whose chosen log directory is remembered; the oldest are dropped first."""

NO_DIRS: Final[Mapping[str, str]] = MappingProxyType({})
CREATIONS_AT_ONCE: Final = 20
"""Number of logs that are created before other tasks get a turn. Each takes about half a millisecond."""

LogConfigOf = Callable[[str, Mapping[str, str]], LogConfig]
"""Returns the config of a log for the name and the configs of its topic."""
MinIsrOf = Callable[[str, Mapping[str, str]], int]


class LeadershipListener(Protocol):
    """Is notified of the partitions that this broker leads. Called on the event loop."""

    def on_leader(self, partition: Partition) -> None:
        """Called when this broker has become the leader of a partition, or leads it in a new epoch."""

    def on_resigned(self, tp: TopicPartition) -> None:
        """Called when this broker no longer leads a partition: it has become a follower, the partition has no leader,
        or the replica was removed. Not called when the broker stops.
        """


class FetcherManager(Protocol):
    """Fetches partitions as a follower."""

    def add(self, partition: Partition) -> None:
        """Start to fetch a partition from the leader that its image names.

        May be called again for a new state of the partition, so the image may name the same leader and epoch as before,
        or no leader.
        """

    def remove(self, tp: TopicPartition) -> None:
        """Stop fetching a partition."""


class Partitions:
    """This broker's replicas of partitions, in its log directories. Not thread-safe: event loop only."""

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
        unopened_dirs: Mapping[str, str] = NO_DIRS,
        on_dir_failure: Callable[[list[TopicPartition]], None] | None = None,
        on_fatal: Callable[[str], None] | None = None,
        store_dir: LogDir | None = None,
    ) -> None:
        """Without `isr_updates` and `followers`, the broker is standalone.

        `followers`: fetches the partitions that other brokers lead. `isr_updates`: sends ISR updates of leaders.
        `unopened_dirs`: the log directories that could not be opened, with the reasons. `on_dir_failure`: called with
        the partitions in a log directory that has failed, or those whose log could not be opened or created.
        `on_fatal`: called with the reason when `store_dir`, on whose disk the metadata store is, or every log directory
        has failed.
        """
        self.broker_id = broker_id
        self._log_dirs = log_dirs
        self._workers = workers
        self._log_config = log_config
        self._min_insync_replicas = min_insync_replicas
        self._partitions: dict[TopicPartition, Partition] = {}
        self._moves: dict[TopicPartition, LogDirMove] = {}
        self._preferred_dirs: dict[TopicPartition, LogDir] = {}
        """The log directories that were chosen for replicas without a log."""
        self._failed_creations: list[TopicPartition] = []
        """Replicas whose log could not be opened or created since the last report."""
        self._reported_failures: set[TopicPartition] = set()
        """Replicas without a log that have been reported to the controller."""
        # If a log directory could not be opened, no log is created for a replica that is in the ISR: its log may be in
        # that directory, and a new, empty log would look as if all records were lost.
        self._unopened_dirs = unopened_dirs
        self._cordoned: Collection[str] = frozenset()
        self.alter_log_dirs_rate = float("inf")
        """Limit of all log directory moves together, in bytes per second; infinite by default. May change while they
        run.
        """
        self._on_fatal = on_fatal
        self._store_dir = store_dir
        self._on_dir_failure = on_dir_failure
        self._listeners: list[LeadershipListener] = []
        self._followers = followers
        self._is_shutting_down = self._is_closed = False
        self._is_applying = False
        """Whether replicas of the current image may still lack their logs."""
        self._isr_updates = isr_updates
        self._lag_seconds = lag_seconds
        self.rejected_batches = RejectedBatches(clock)
        self.topic_stats = BrokerTopicStats()
        self.leader_quota, self.follower_quota = ReplicationQuota(), follower_quota or ReplicationQuota()

    def add_listener(self, listener: LeadershipListener) -> None:
        """Call `listener` when this broker becomes or stops being the leader of a partition.

        The caller adds it before `start`, so that it misses no partition.
        """
        self._listeners.append(listener)

    def begin_shutdown(self) -> None:
        """From now on, stop fetching a partition when this broker is removed from its ISR.

        Otherwise the leader would add it to the ISR again.
        """
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
        """Return the partition if this broker leads it, else None."""
        partition = self._partitions.get(tp)
        return partition if partition is not None and partition.leads else None

    def leader(self, image: ClusterImage, tp: TopicPartition) -> Partition:
        """Return the partition if this broker leads it, or if its disk has failed.

        Otherwise raise the error for the client, such as NotLeaderOrFollowerError or UnknownTopicOrPartitionError.
        """
        partition = self._partitions.get(tp)
        if partition is not None:
            if not partition.leads and not partition.failed:
                raise errors.NotLeaderOrFollowerError
            return partition
        raise self._no_replica(image, tp)

    def replica(self, image: ClusterImage, tp: TopicPartition) -> Partition:
        """Return the partition if this broker has a replica of it that is in service. Otherwise raise the error that a
        client gets.
        """
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
        if self.broker_id in partition_image.replicas and not self._is_applying:
            return errors.KafkaStorageError(f"{tp} has no log on this broker")
        return errors.NotLeaderOrFollowerError()

    def readable(self, image: ClusterImage, tp: TopicPartition) -> Partition:
        """Return the partition if this broker leads it or follows a leader, or if its disk has failed.

        Otherwise raise the error for the client, like `leader`.
        """
        partition = self._partitions.get(tp)
        if partition is not None and partition.image.leader != NO_LEADER:
            return partition
        return self.leader(image, tp)

    @property
    def log_dirs(self) -> Sequence[LogDir]:
        """The log directories that were opened, including those that have failed since."""
        return self._log_dirs

    def cordon(self, paths: Collection[str]) -> None:
        """Create no new replicas in these log directories, unless all that are in service are cordoned (KIP-1066).
        Existing replicas stay.
        """
        if paths != self._cordoned:
            log.info("Cordoned log directories: %s", ", ".join(sorted(paths)) or "none")
        self._cordoned = paths

    def is_cordoned(self, directory: LogDir) -> bool:
        """Return whether a log directory is one of `cordoned.log.dirs`."""
        return normpath(directory.path) in self._cordoned

    @property
    def unopened_dirs(self) -> Mapping[str, str]:
        """The log directories that could not be opened at the start, each with the reason."""
        return self._unopened_dirs

    @property
    def offline_dirs(self) -> Mapping[str, str]:
        """The log directories that are out of service, each with the reason, also those that could not be opened."""
        failed = {str(log_dir.path): log_dir.offline for log_dir in self._log_dirs if log_dir.offline}
        return {**failed, **self._unopened_dirs}

    @property
    def log_dir_moves(self) -> Mapping[TopicPartition, LogDirMove]:
        """The moves to another log directory in progress, by replica."""
        return self._moves

    def offline_replicas(self) -> list[TopicPartition]:
        """Return the replicas that are out of service, because they have failed, or their log could not be opened or
        created.
        """
        return [*self._reported_failures, *(tp for tp, partition in self._partitions.items() if partition.failed)]

    async def start(self, image: ClusterImage) -> None:
        """Start the replicas that the image assigns to this broker, as leaders and followers.

        Logs without such a replica are kept, with a warning.
        """
        await self._apply_topics(image.topics.values())
        self._report_failed_creations()
        self._log_roles(None, image)
        for directory in self._log_dirs:
            for tp in directory.logs.keys() - self._partitions.keys():
                partition_image = image.partition(tp)
                if partition_image is not None and self.broker_id in partition_image.replicas:
                    continue  # the replica could not be created, or the broker is stopping
                log.warning(
                    "Ignoring the log of %s in %s, because this broker has no replica of the partition; its files are "
                    "kept",
                    tp,
                    directory.path,
                )

    async def on_image_changed(self, before: ClusterImage, after: ClusterImage) -> None:
        """Apply a new image.

        Partitions of which this broker no longer has a replica are closed. Their logs stay until the controller has
        them deleted.
        """
        for name, old in before.topics.items():
            new = after.topics.get(name)
            if new is None or new.id != old.id:
                for index in range(len(old.partitions)):
                    self._close_partition(TopicPartition(name, index))
                self.topic_stats.remove(name)
        await self._apply_topics(topic for name, topic in after.topics.items() if before.topics.get(name) is not topic)
        self._report_failed_creations()
        self._log_roles(before, after)
        removed = before.brokers.keys() - after.brokers.keys()
        if removed:
            for partition in self:
                partition.leader_replica.on_brokers_removed(removed)

    def reconfigure(self, image: ClusterImage) -> None:
        """Compute the config and min.insync.replicas of every replica again, because broker configs have changed."""
        for topic in image.topics.values():
            config = self._log_config(topic.name, topic.configs)
            min_isr = self._min_insync_replicas(topic.name, topic.configs)
            for index in range(len(topic.partitions)):
                partition = self._partitions.get(TopicPartition(topic.name, index))
                if partition is not None:
                    partition.log.config = config
                    partition.min_insync_replicas = min_isr

    async def move_replica(self, tp: TopicPartition, path: str) -> None:
        """Start to move a replica to a log directory. A move in progress to another directory is cancelled.

        Raises LogDirNotFoundError for an unknown directory, KafkaStorageError for one out of service,
        InvalidReplicaAssignmentError for a cordoned one, and ReplicaNotAvailableError if this broker has no such
        replica. In the last case, the directory is remembered, as in Kafka: the replica's log is created there later.
        """
        target = next((d for d in self._log_dirs if str(d.path) == path), None)
        if path in self._unopened_dirs:
            raise errors.KafkaStorageError(f"{path} is out of service: {self._unopened_dirs[path]}")
        if target is None:
            raise errors.LogDirNotFoundError(f"{path} is not one of this broker's log.dirs")
        if target.offline:
            raise errors.KafkaStorageError(f"{path} is out of service: {target.offline}")
        if self.is_cordoned(target):
            raise errors.InvalidReplicaAssignmentError(f"{path} is cordoned (cordoned.log.dirs)")
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
        """Take a log directory and all its logs out of service after a disk error (KIP-112).

        Do nothing if the directory is out of service already.
        """
        if not directory.offline:
            reason = reason_of(error)
            log.error("Taking log directory %s out of service until a restart: %s", directory.path, reason)
            directory.take_offline(reason)
            for tp in directory.logs:
                other = self._partitions.get(tp)
                if other is not None:
                    other.fail(error)
                    if self._followers is not None:
                        self._followers.remove(tp)
            if self._on_dir_failure is not None:
                self._on_dir_failure(list(directory.logs))
            if self._on_fatal is None:
                return
            if directory is self._store_dir:
                self._on_fatal(f"log.dirs: {directory.path}, on the disk of the metadata store, has failed")
            elif all(other_dir.offline for other_dir in self._log_dirs):
                self._on_fatal("log.dirs: all log directories have failed")

    async def close(self) -> None:
        """Flush partitions with pending appends, then close all partitions, which fails the requests that wait for
        them.
        """
        self._is_closed = True
        for running in list(self._moves.values()):
            await running.cancel()
        for partition in self._partitions.values():
            if partition.has_pending:
                await partition.flush()
        await asyncio.sleep(0)
        for partition in self._partitions.values():
            partition.close()

    async def _apply_topics(self, topics: Iterable[TopicImage]) -> None:
        """Apply topics: create their logs, and give the partitions their roles.

        Each new log consists of several files, and an image may require thousands of logs. So other requests are
        processed after every CREATIONS_AT_ONCE logs. Metadata changes do not overlap (`MetadataCache.update`).
        """
        self._is_applying = True
        created = 0
        try:
            for topic in topics:
                for tp in self._apply_topic(topic):
                    created += 1
                    if created % CREATIONS_AT_ONCE == 0:
                        await asyncio.sleep(0)
                    if self._is_closed:
                        log.debug("Not creating the log of %s, nor any further one: the broker is stopping", tp)
                        return
        finally:
            self._is_applying = False

    def _apply_topic(self, topic: TopicImage) -> Iterator[TopicPartition]:
        """Apply a topic. Yield each partition whose log is opened or created next."""
        mine = []
        for index, image in enumerate(topic.partitions):
            tp = TopicPartition(topic.name, index)
            if self.broker_id in image.replicas:
                mine.append((tp, image))
            else:
                self._close_partition(tp)
        if not mine:
            return
        config = self._log_config(topic.name, topic.configs)
        min_isr = self._min_insync_replicas(topic.name, topic.configs)
        for tp, image in mine:
            partition = self._partitions.get(tp)
            if partition is None:
                yield tp
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
            log.error("Cannot open or create the log of %s, so the replica is offline: %s", tp, error)
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
        """Make a partition leader or follower. Ignore an image that is older than the current one."""
        if partition.is_older(image):
            return
        tp, led = partition.topic_partition, partition.leads
        if image.leader == self.broker_id:
            if partition.failed:
                return  # clients get KAFKA_STORAGE_ERROR until the controller has elected another leader
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
        partition.become_follower(image)
        if led:
            self._notify_resigned(tp)
        if self._followers is not None and not partition.failed:
            if self._is_shutting_down and self.broker_id not in image.isr:
                self._followers.remove(tp)
            else:
                self._followers.add(partition)

    def _log_roles(self, before: ClusterImage | None, after: ClusterImage) -> None:
        """Log the partitions whose leader has changed and which this broker leads, follows, or has without a leader.

        Replicas that are out of service are left out. Do nothing if the broker is standalone.
        """
        if self._followers is None or not log.isEnabledFor(logging.INFO):
            return
        leads: list[str] = []
        follows: list[str] = []
        waits: list[str] = []
        for topic, index, now, old in changed_partitions(before, after):
            if self.broker_id in now.replicas and (old is None or old.leader != now.leader):
                partition = self._partitions.get(TopicPartition(topic.name, index))
                if partition is None or partition.failed:
                    continue  # an error was logged, or the broker is stopping
                follower_role = waits if now.leader == NO_LEADER else follows
                role = leads if now.leader == self.broker_id else follower_role
                role.append(f"{topic.name}-{index} (epoch {now.leader_epoch})")
        for verb, names in (("leads", leads), ("follows", follows), ("waits for a leader of", waits)):
            if names:
                log.info("Broker %d now %s %s", self.broker_id, verb, listed(names))

    def _report_failed_creations(self) -> None:
        """Report to the controller the replicas whose log could not be opened or created since the last report, like
        those on a failed disk, so that it elects other leaders.
        """
        new = [tp for tp in self._failed_creations if tp not in self._reported_failures]
        self._failed_creations.clear()
        self._reported_failures.update(new)
        if new and self._on_dir_failure is not None:
            self._on_dir_failure(new)

    def _notify_resigned(self, tp: TopicPartition) -> None:
        for listener in self._listeners:
            listener.on_resigned(tp)

    def _close_partition(self, tp: TopicPartition) -> None:
        """Close a partition. Its log stays."""
        self._reported_failures.discard(tp)
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
        """Handle StopReplica: delete a replica, or only stop fetching it for a controlled shutdown."""
        if delete:
            self.delete(tp)
        elif self._followers is not None:
            self._followers.remove(tp)

    def delete(self, tp: TopicPartition) -> None:
        """Close a partition, and delete its log. Called only when the controller requests to delete the replica."""
        self._close_partition(tp)
        for directory in self._log_dirs:
            try:
                directory.delete(tp)
            except errors.KafkaStorageError as error:
                # the log directory is out of service
                log.error("Cannot delete the log of %s; its files stay: %s", tp, error)

    def _open(self, tp: TopicPartition, image: PartitionImage, config: LogConfig, topic: TopicImage) -> Log:
        self._mark_stray_copies(tp)
        for directory in self._log_dirs:
            failure = directory.failed.get(tp)
            if failure is not None:
                raise failure  # a new, empty log would look as if all records were lost
            existing = directory.logs.get(tp)
            if existing is None:
                continue
            if existing.topic_id not in (None, uuid_text(topic.id)):
                # the log is of an earlier topic of this name, which was deleted while this broker was down
                stray = directory.mark_stray(tp)
                log.warning(
                    "%s: renamed the log of an earlier, deleted topic with the same name to %s; delete that directory "
                    "to free space",
                    tp,
                    stray,
                )
                continue
            if existing.topic_id is None:
                directory.assign_topic_id(existing, uuid_text(topic.id))
            existing.config = config
            return existing
        online = [directory for directory in self._log_dirs if not directory.offline]
        was_there = self.broker_id in image.isr and (image.leader_epoch, image.state_version) > (0, 0)
        if (was_there and self._unopened_dirs) or not online:
            raise errors.KafkaStorageError("the log may be in a log directory that is out of service")
        # If all are cordoned, the controller has placed the replica before it knew.
        usable = [directory for directory in online if not self.is_cordoned(directory)] or online
        preferred = self._preferred_dirs.pop(tp, None)
        chosen = preferred if preferred in usable else min(usable, key=lambda d: len(d.logs))
        return chosen.create(tp, config, uuid_text(topic.id))

    def _mark_stray_copies(self, tp: TopicPartition) -> None:
        """If a replica has several logs, mark all as stray but one that has the highest end offset.

        A crash at the end of a move may leave two.
        """
        holders = sorted((d for d in self._log_dirs if tp in d.logs), key=lambda d: d.logs[tp].log_end_offset)
        for directory in holders[:-1]:
            stray = directory.mark_stray(tp)
            log.warning(
                "Found several logs of %s: that in %s is used, and another was renamed to %s",
                tp,
                holders[-1].path,
                stray,
            )


async def wait_all(futures: Sequence[asyncio.Future[None]], timeout_ms: int) -> None:
    """Wait until all futures are done, at most `timeout_ms`; then cancel those that are not done.

    Errors stay in the futures, which must not have other waiters. They are awaited one after the other, because
    `asyncio.wait` takes more time on the event loop, and every produce request with acks=all would pay for that.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            for future in futures:
                with contextlib.suppress(errors.KafkaError):
                    await future
    except TimeoutError:
        for future in futures:
            future.cancel()
