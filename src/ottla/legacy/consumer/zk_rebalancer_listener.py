"""`ZKRebalancerListener`: assigns partitions to this member of a group, and again when the group changes.

    read znodes → release (stop fetching, commit, delete owner znodes) → assign → claim partitions → read committed
        offsets → fetch

All members compute the assignment with the same algorithm, so that they agree when all have read the same znodes. Until
then, another member may still own a partition. If so, this member cannot claim the partition, and retries after
rebalance.backoff.ms. A claim is an ephemeral znode, so that it is deleted when the session of a crashed member expires.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import Create, NodeExistsError
from ottla.cluster.store.zk_client import ZkClient
from ottla.errors import KafkaError
from ottla.legacy.consumer.consumer_config import ConsumerConfig
from ottla.legacy.consumer.consumer_fetcher import ConsumerFetcherManager
from ottla.legacy.consumer.consumer_offsets import GroupOffsets
from ottla.legacy.consumer.group_view import GroupView, GroupWatcher
from ottla.legacy.consumer.partition_assignor import ASSIGNORS, Decision
from ottla.legacy.consumer.partition_topic_info import INVALID_OFFSET, ChunkQueue, PartitionTopicInfo
from ottla.legacy.consumer.topic_count import ConsumerThreadId, TopicCount
from ottla.legacy.errors import ConsumerRebalanceFailedError
from ottla.logs import listed
from ottla.model import TopicPartition

log: Final = logging.getLogger("ottla.legacy")

CLAIMS_AT_ONCE: Final = 500
"""The maximum number of claims in a transaction (multi), because ZooKeeper rejects messages over 1 MB."""
REGISTER_PAUSE: Final = 0.2
QueueOf = Callable[[str, ConsumerThreadId], ChunkQueue]
"""A function that returns the queue for a thread that reads a topic."""


class ZKRebalancerListener:
    """A member of a group from `start` to `stop`. A thread handles changes of the group."""

    def __init__(
        self,
        config: ConsumerConfig,
        zk: ZkClient,
        consumer_id: str,
        count: TopicCount,
        queue_of: QueueOf,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._config = config
        self._zk = zk
        self._id = consumer_id
        self._count = count
        self._queue_of = queue_of
        self._clock = clock
        self._offsets = GroupOffsets(config, zk)
        self._changed = threading.Event()
        self._expired = threading.Event()
        self._stopped = threading.Event()
        self._watcher = GroupWatcher(zk, config.group_id, consumer_id, self._changed.set)
        self._thread = threading.Thread(target=self._watch_group, name=f"{consumer_id}_watcher_executor", daemon=True)
        self._rebalance_lock = threading.Lock()
        # Guarded by the rebalance lock:
        self._seen: GroupView | None = None
        self._fetchers: ConsumerFetcherManager | None = None
        # Guarded by the commit lock, so that no offsets are committed after the partitions were released:
        self._commit_lock = threading.Lock()
        self._registry: dict[TopicPartition, tuple[PartitionTopicInfo, ConsumerThreadId]] = {}

    def start(self) -> None:
        """Join the group. Raises KafkaError if the member cannot be registered in ZooKeeper, and
        ConsumerRebalanceFailedError if all attempts to rebalance fail. In the second case, the listener's thread tries
        again when the group changes.
        """
        self._zk.on_new_session(self._session_expired)
        self._register()
        self._thread.start()
        self.synced_rebalance()

    def stop(self) -> None:
        """Stop fetching, commit offsets if auto.commit.enable is true, and release the partitions. The member leaves
        the group when its ZooKeeper session ends.
        """
        self._stopped.set()
        self._changed.set()
        with self._rebalance_lock:
            self._give_up()
        self._offsets.close()

    @property
    def owned(self) -> Mapping[TopicPartition, ConsumerThreadId]:
        """The partitions that this member owns, with the threads that read them."""
        return {tp: thread for tp, (_, thread) in self._registry.items()}

    def commit_offsets(self, retries: int) -> None:
        """Commit the offsets of consumed messages, with at most this number of retries. Raises KafkaError if that
        fails.
        """
        with self._commit_lock:
            offsets = {tp: info.consume_offset for tp, (info, _) in self._registry.items()}
            valid = {tp: offset for tp, offset in offsets.items() if offset != INVALID_OFFSET}
            self._offsets.commit(valid, retries=retries)

    # Changes of the group

    def _session_expired(self) -> None:
        self._expired.set()
        self._changed.set()

    def _watch_group(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._stopped.is_set():
                return
            try:
                self.synced_rebalance()
            except KafkaError as error:
                if self._stopped.is_set():
                    return
                log.error(
                    "Rebalance of consumer %s failed; rebalancing again in %g s, and reading %s until then: %s",
                    self._id,
                    self._config.rebalance_pause,
                    listed(sorted(self.owned)) or "no partitions",
                    error,
                )
                # Kafka 0.8 waits for the next change here, which may never come for a consumer without partitions.
                self._stopped.wait(self._config.rebalance_pause)
                self._changed.set()

    def _join_again(self) -> None:
        """Register again after the session has expired. Nothing is committed or released, because other members may own
        the partitions by now.
        """
        self._expired.clear()
        self._stop_reading()
        with self._commit_lock:
            self._registry = {}
        self._seen = None
        try:
            self._register()
        except BaseException:
            self._expired.set()
            raise

    def _register(self) -> None:
        for path in (znodes.consumer_ids(self._config.group_id), znodes.BROKER_IDS, znodes.TOPICS):
            self._zk.make_path(path)
        path = znodes.consumer_id(self._config.group_id, self._id)
        value = self._count.to_json(self._clock.now_ms())
        deadline = time.monotonic() + 2 * self._config.zookeeper_session_timeout_ms / 1000
        while not self._stopped.is_set():
            try:
                self._zk.multi(Create(path, value, ephemeral=True))
                break
            except NodeExistsError:
                # With consumer.id, the session of an earlier process may not have expired yet.
                if time.monotonic() > deadline:
                    raise
                self._stopped.wait(REGISTER_PAUSE)

    # Rebalancing

    def synced_rebalance(self) -> None:
        """Claim the partitions of this member and start fetching, if the group has changed. Raises
        ConsumerRebalanceFailedError if rebalance.max.retries attempts fail. Does nothing after `stop`.
        """
        with self._rebalance_lock:
            for left in reversed(range(self._config.rebalance_max_retries)):
                if self._stopped.is_set():
                    return
                try:
                    if (
                        self._expired.is_set()
                    ):  # checked in each attempt, because the session may expire during an attempt
                        self._join_again()
                    if self._rebalance():
                        return
                except KafkaError as error:
                    if left:
                        log.info(
                            "Consumer %s: an attempt to rebalance failed; retrying in %g s (attempts left: %d): %s",
                            self._id,
                            self._config.rebalance_pause,
                            left,
                            error,
                        )
                    else:
                        log.warning(
                            "Consumer %s: the last of rebalance.max.retries attempts to rebalance failed: %s",
                            self._id,
                            error,
                        )
                self._stopped.wait(self._config.rebalance_pause)
        raise ConsumerRebalanceFailedError(
            f"{self._id} can't rebalance after {self._config.rebalance_max_retries} retries"
        )

    def _rebalance(self) -> bool:
        """Try to rebalance once. Return False if another member still owns a partition."""
        view = self._watcher.read(self._count, self._config.exclude_internal_topics)
        if view == self._seen:
            return True
        self._seen = None
        self._give_up()
        if self._stopped.is_set():
            return True
        if not view.brokers:
            log.warning("Consumer %s is assigned no partitions until a broker is registered in ZooKeeper", self._id)
            self._seen = view
            return True
        decision = ASSIGNORS[self._config.partition_assignment_strategy](view.context)
        self._log_idle_threads(view, decision)
        if not self._claim(decision):
            return False
        self._read(decision)
        self._seen = view
        return True

    def _log_idle_threads(self, view: GroupView, decision: Decision) -> None:
        for topic, threads in view.mine.items():
            busy = {thread for tp, thread in decision.items() if tp.topic == topic}
            for thread in threads:
                if thread not in busy:
                    log.warning(
                        "Consumer thread %s gets no partitions of topic %s until the next rebalance; the group may "
                        "have more threads than the topic has partitions",
                        thread,
                        topic,
                    )

    def _read(self, decision: Decision) -> None:
        """Start fetching the claimed partitions at their committed offsets. These are read only now, because the
        previous owner commits before it releases a partition.
        """
        try:
            offsets = self._offsets.fetch(decision)
        except BaseException:
            self._release(decision)
            raise
        with self._commit_lock:
            self._registry = {
                tp: (PartitionTopicInfo(tp, self._queue_of(tp.topic, thread), offsets[tp]), thread)
                for tp, thread in decision.items()
            }
        log.info("Consumer %s reads partitions: %s", self._id, ", ".join(map(str, sorted(decision))) or "none")
        self._fetchers = ConsumerFetcherManager(self._config, self._id, lambda: list(self._zk.brokers().values()))
        self._fetchers.start_connections([info for info, _ in self._registry.values()])

    def _give_up(self) -> None:
        """Stop fetching, commit offsets if auto.commit.enable is true, and release all partitions."""
        self._stop_reading()
        if self._config.auto_commit_enable:
            try:
                self.commit_offsets(self._config.offsets_commit_max_retries)
            except KafkaError as error:
                log.error(
                    "Consumer %s cannot commit offsets before it releases its partitions; messages may be consumed"
                    " again: %s",
                    self._id,
                    error,
                )
        with self._commit_lock:
            owned, self._registry = self.owned, {}
        self._release(owned)

    def _stop_reading(self) -> None:
        for info, _ in self._registry.values():
            info.drop()
            info.queue.clear_dropped()
        if self._fetchers is not None:
            self._fetchers.stop_connections()
            self._fetchers = None

    # Ownership

    def _claim(self, decision: Decision) -> bool:
        """Claim all partitions and return True. If another member owns one of them, release all and return False."""
        group = self._config.group_id
        for topic in {tp.topic for tp in decision}:
            self._zk.make_path(znodes.consumer_owners(group, topic))
        claims = [
            Create(znodes.consumer_owner(group, *tp), str(thread).encode(), ephemeral=True)
            for tp, thread in decision.items()
        ]
        try:
            for start in range(0, len(claims), CLAIMS_AT_ONCE):
                self._zk.multi(*claims[start : start + CLAIMS_AT_ONCE])
        except NodeExistsError:
            log.info(
                "Consumer %s cannot claim its partitions yet: not all of them have been released in its group",
                self._id,
            )
            self._release(decision)
            return False
        return True

    def _release(self, owned: Mapping[TopicPartition, ConsumerThreadId]) -> None:
        for tp, thread in owned.items():
            self._zk.delete_if(znodes.consumer_owner(self._config.group_id, *tp), str(thread).encode())
