"""`ConsumerFetcherManager`: fetches the partitions of a 0.8 consumer, with separate threads for each broker.

leader finder thread: look up the leaders of partitions, and add the partitions to the leaders' fetcher threads
ConsumerFetcherThread: fetch (version 0), and put the messages into the queues of streams; return partitions that
    cannot be fetched to the leader finder thread
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ottla.errors import BrokerNotAvailableError, KafkaError
from ottla.legacy.consumer.consumer_config import SMALLEST, ConsumerConfig
from ottla.legacy.consumer.partition_topic_info import INVALID_OFFSET, FetchedDataChunk, PartitionTopicInfo
from ottla.legacy.consumer.simple_consumer import SimpleConsumer
from ottla.legacy.producer.client_utils import ClientUtils
from ottla.legacy.producer.partitioner import java_abs, java_hash
from ottla.legacy.producer.producer_config import ProducerConfig
from ottla.legacy.requests import (
    EARLIEST_TIME,
    LATEST_TIME,
    ErrorMapping,
    FetchedPartition,
    FetchRequest,
    PartitionFetchInfo,
)
from ottla.logs import listed
from ottla.model import TopicPartition

log: Final = logging.getLogger("ottla.legacy")

Infos = dict[TopicPartition, PartitionTopicInfo]
Address = tuple[str, int]
Brokers = Callable[[], Sequence[Address]]
"""A function that returns the addresses of the live brokers. It is called for every lookup of leaders."""
JOIN_SECONDS: Final = 5.0
"""Maximum time in seconds to wait for the end of each thread in `stop_connections`."""


class ConsumerFetcherManager:
    """The fetcher threads of a connector from one rebalance to the next. It is started and stopped only once."""

    def __init__(self, config: ConsumerConfig, name: str, brokers: Brokers) -> None:
        self._config = config
        self._name = name
        self._brokers = brokers
        self._changed = threading.Condition()
        # Guarded by the condition, because fetcher threads add partitions and the finder thread removes them.
        self._no_leader: Infos = {}
        self._fetchers: dict[tuple[Address, int], ConsumerFetcherThread] = {}
        self._stopped = threading.Event()
        self._finder = threading.Thread(target=self._find, name=f"{name}-leader-finder-thread", daemon=True)

    def start_connections(self, infos: Iterable[PartitionTopicInfo]) -> None:
        """Start fetching these partitions."""
        self._no_leader = {info.partition: info for info in infos}
        self._finder.start()

    def stop_connections(self) -> None:
        """Stop all threads, and wait at most `JOIN_SECONDS` for each. Call `drop()` of all partitions and
        `clear_dropped()` of their queues first, because a thread that waits for space in a queue would not end
        otherwise.
        """
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
            fetchers, self._fetchers = self._fetchers, {}
        for fetcher in fetchers.values():
            fetcher.stop()
        for thread in (*fetchers.values(), self._finder):
            thread.join(JOIN_SECONDS)

    def add_partitions_with_error(self, infos: Iterable[PartitionTopicInfo]) -> None:
        """Let the leader finder thread look up the leaders of these partitions again, except dropped ones. Called by
        fetcher threads.
        """
        with self._changed:
            self._no_leader |= {info.partition: info for info in infos if not info.dropped}
            self._changed.notify_all()

    # LeaderFinderThread

    def _find(self) -> None:
        while not self._stopped.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._stopped.is_set() or bool(self._no_leader))
                partitions = dict(self._no_leader)
            if self._stopped.is_set():
                return
            try:
                self._assign(partitions, self._leaders(partitions))
            except KafkaError as error:
                log.warning(
                    "Consumer %s: could not look up the leaders of %s; retrying in %g s: %s",
                    self._name,
                    listed(sorted(partitions)),
                    self._config.refresh_leader_backoff_ms / 1000,
                    error,
                )
            self._stopped.wait(self._config.refresh_leader_backoff_ms / 1000)

    def _leaders(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Address]:
        brokers = self._brokers()
        if not brokers:
            raise BrokerNotAvailableError("no broker is registered in ZooKeeper")
        config = ProducerConfig(
            {
                "metadata.broker.list": ",".join(f"{host}:{port}" for host, port in brokers),
                "client.id": self._config.client,
                "request.timeout.ms": self._config.socket_timeout_ms,
            }
        )
        response = ClientUtils.fetch_topic_metadata({tp.topic for tp in partitions}, brokers, config)
        nodes = {b.node_id: (b.host, b.port) for b in response.brokers}
        return {
            TopicPartition(topic.name or "", p.partition_index): nodes[p.leader_id]
            for topic in response.topics
            for p in topic.partitions
            if p.leader_id in nodes
        }

    def _assign(self, infos: Infos, leaders: Mapping[TopicPartition, Address]) -> None:
        with self._changed:
            if self._stopped.is_set():
                return
            for partition, info in infos.items():
                if partition in leaders and self._no_leader.pop(partition, None) is not None:
                    self._fetcher(leaders[partition], partition).add(info)

    def _fetcher(self, leader: Address, partition: TopicPartition) -> ConsumerFetcherThread:
        """Return the fetcher thread for a partition of this leader, after starting it if necessary."""
        number = java_abs(31 * java_hash(partition.topic) + partition.partition) % self._config.num_consumer_fetchers
        fetcher = self._fetchers.get((leader, number))
        if fetcher is None:
            name = f"ConsumerFetcherThread-{self._name}-{number}-{leader[0]}:{leader[1]}"
            fetcher = ConsumerFetcherThread(name, self._config, leader, self.add_partitions_with_error)
            self._fetchers[leader, number] = fetcher
            fetcher.start()
        return fetcher


class ConsumerFetcherThread(threading.Thread):
    """Fetches partitions from one broker until `stop()`."""

    def __init__(
        self,
        name: str,
        config: ConsumerConfig,
        leader: Address,
        give_back: Callable[[Iterable[PartitionTopicInfo]], None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._config = config
        self._leader = leader
        self._give_back = give_back
        host, port = leader
        self._consumer = SimpleConsumer(
            host, port, config.socket_timeout_ms, config.socket_receive_buffer_bytes, config.client
        )
        self._changed = threading.Condition()
        self._infos: Infos = {}
        self._ended = threading.Event()

    def add(self, info: PartitionTopicInfo) -> None:
        """Add a partition to fetch. Thread-safe."""
        with self._changed:
            self._infos[info.partition] = info
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop the thread. A wait for a response ends at once, but a wait for space in a queue does not. Thread-safe;
        may be called repeatedly.
        """
        with self._changed:
            self._ended.set()
            self._changed.notify_all()
        self._consumer.close()

    def run(self) -> None:
        """Fetch until stopped. Partitions that cannot be fetched are passed to `give_back`; if a fetch fails, all of
        its partitions are.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended.is_set() or bool(self._infos))
                infos = dict(self._infos)
            if self._ended.is_set():
                return
            try:
                failed = self._fetch(infos)
            except KafkaError as error:
                if self._ended.is_set():
                    return
                log.warning(
                    "%s: fetch of %s failed; looking up leaders again: %s",
                    self.name,
                    listed(sorted(infos)),
                    error,
                )
                failed = list(infos.values())
            self._return(failed)

    def _return(self, failed: Sequence[PartitionTopicInfo]) -> None:
        with self._changed:
            for info in failed:
                self._infos.pop(info.partition, None)
        if failed:
            self._give_back(failed)

    def _fetch(self, infos: Infos) -> list[PartitionTopicInfo]:
        """Fetch the partitions once, and return those whose leaders must be looked up again."""
        failed = [info for info in infos.values() if info.fetch_offset == INVALID_OFFSET and not self._reset(info)]
        offsets = {
            tp: PartitionFetchInfo(info.fetch_offset, self._config.fetch_message_max_bytes)
            for tp, info in infos.items()
            if info not in failed
        }
        if not offsets:
            return failed
        request = FetchRequest(offsets, self._config.fetch_wait_max_ms, self._config.fetch_min_bytes)
        for partition, fetched in self._consumer.fetch(request).data.items():
            if not self._accept(infos[partition], fetched):
                failed.append(infos[partition])
        return failed

    def _accept(self, info: PartitionTopicInfo, fetched: FetchedPartition) -> bool:
        """Handle the response for a partition. Return False if its leader must be looked up again."""
        if fetched.error_code == ErrorMapping.OFFSET_OUT_OF_RANGE:
            log.warning(
                "%s: offset %d of %s is out of range; resetting it (auto.offset.reset=%s)",
                self.name,
                info.fetch_offset,
                info.partition,
                self._config.auto_offset_reset,
            )
            return self._reset(info)
        if fetched.error_code != ErrorMapping.NO_ERROR:
            error = ErrorMapping.exception_for(fetched.error_code)
            log.warning("%s: cannot fetch %s; looking up its leader again: %s", self.name, info.partition, error)
            return False
        if fetched.size:
            self._enqueue(info, fetched)
        return True

    def _enqueue(self, info: PartitionTopicInfo, fetched: FetchedPartition) -> None:
        messages = tuple(m for m in fetched.messages if m.offset >= info.fetch_offset)
        behind = fetched.messages[-1].next_offset if fetched.messages else info.fetch_offset
        # Without messages, the stream raises MessageSizeTooLargeError, because the first one exceeds the fetch size.
        if (messages or not fetched.messages) and not info.queue.put(
            FetchedDataChunk(info, info.fetch_offset, messages)
        ):
            return
        info.fetch_offset = max(info.fetch_offset, behind)

    def _reset(self, info: PartitionTopicInfo) -> bool:
        """Set the fetch offset as auto.offset.reset says. Return False if the broker does not return the offset."""
        time = EARLIEST_TIME if self._config.auto_offset_reset == SMALLEST else LATEST_TIME
        try:
            info.reset(self._consumer.earliest_or_latest_offset(info.partition, time))
        except KafkaError as error:
            if not self._ended.is_set():  # otherwise the error is due to the closed connection
                log.warning(
                    "%s: could not look up the offset to which %s is reset; looking up its leader again: %s",
                    self.name,
                    info.partition,
                    error,
                )
            return False
        return True
