"""`ConsumerFetcherManager`: reads the partitions of a 0.8 consumer, with threads of its own for each broker.

LeaderFinderThread: partitions without a leader → metadata → the fetchers of their leaders
ConsumerFetcherThread: fetch (version 0) → chunks in the queues of streams; what failed goes back to be found again
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ottla.errors import BrokerNotAvailableError, KafkaError
from ottla.legacy.client_utils import ClientUtils
from ottla.legacy.consumer_config import SMALLEST, ConsumerConfig
from ottla.legacy.partition_topic_info import INVALID_OFFSET, FetchedDataChunk, PartitionTopicInfo
from ottla.legacy.partitioner import java_abs, java_hash
from ottla.legacy.producer_config import ProducerConfig
from ottla.legacy.requests import (
    EARLIEST_TIME,
    LATEST_TIME,
    ErrorMapping,
    FetchedPartition,
    FetchRequest,
    PartitionFetchInfo,
)
from ottla.legacy.simple_consumer import SimpleConsumer
from ottla.model import TopicPartition

log = logging.getLogger("ottla.legacy")

Infos = dict[TopicPartition, PartitionTopicInfo]
Address = tuple[str, int]
Brokers = Callable[[], Sequence[Address]]
"""The live brokers; asked each time that leaders are looked for."""
JOIN_SECONDS: Final = 5.0
"""How long a thread whose connection was closed may take to end."""


class ConsumerFetcherManager:
    """The fetchers of one connector between two rebalances: started once, stopped once."""

    def __init__(self, config: ConsumerConfig, name: str, brokers: Brokers) -> None:
        self._config = config
        self._name = name
        self._brokers = brokers
        self._changed = threading.Condition()
        # Guarded by the condition; the finder takes from the first, fetchers give back to it.
        self._no_leader: Infos = {}
        self._fetchers: dict[tuple[Address, int], ConsumerFetcherThread] = {}
        self._stopped = threading.Event()
        self._finder = threading.Thread(target=self._find, name=f"{name}-leader-finder-thread", daemon=True)

    def start_connections(self, infos: Iterable[PartitionTopicInfo]) -> None:
        """Begin to read."""
        self._no_leader = {info.partition: info for info in infos}
        self._finder.start()

    def stop_connections(self) -> None:
        """End all threads. The infos must be dropped before, or who waits for room in a queue would go on waiting."""
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
            fetchers, self._fetchers = self._fetchers, {}
        for fetcher in fetchers.values():
            fetcher.stop()
        for thread in (*fetchers.values(), self._finder):
            thread.join(JOIN_SECONDS)

    def add_partitions_with_error(self, infos: Iterable[PartitionTopicInfo]) -> None:
        """Look for the leaders of partitions again. Called on fetcher threads."""
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
                log.warning("failed to find leaders of %s: %s", sorted(partitions), error)
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
        """A leader's thread for a partition; made and started with its first one."""
        number = java_abs(31 * java_hash(partition.topic) + partition.partition) % self._config.num_consumer_fetchers
        fetcher = self._fetchers.get((leader, number))
        if fetcher is None:
            name = f"ConsumerFetcherThread-{self._name}-{number}-{leader[0]}:{leader[1]}"
            fetcher = ConsumerFetcherThread(name, self._config, leader, self.add_partitions_with_error)
            self._fetchers[leader, number] = fetcher
            fetcher.start()
        return fetcher


class ConsumerFetcherThread(threading.Thread):
    """Reads partitions of one broker until `stop()`."""

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
        """Read a partition, too. Any thread."""
        with self._changed:
            self._infos[info.partition] = info
            self._changed.notify_all()

    def stop(self) -> None:
        """End, also while the broker is waited for. Any thread, twice does no harm."""
        with self._changed:
            self._ended.set()
            self._changed.notify_all()
        self._consumer.close()

    def run(self) -> None:
        """Fetch until stopped; an error of the broker sends every partition back to have its leader found."""
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
                log.warning("%s: %s", self.name, error)
                failed = list(infos.values())
            self._return(failed)

    def _return(self, failed: Sequence[PartitionTopicInfo]) -> None:
        with self._changed:
            for info in failed:
                self._infos.pop(info.partition, None)
        if failed:
            self._give_back(failed)

    def _fetch(self, infos: Infos) -> list[PartitionTopicInfo]:
        """One fetch of all partitions; those that this broker could not give."""
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
        """Whether what came of a partition is dealt with; False sends it back."""
        if fetched.error_code == ErrorMapping.OFFSET_OUT_OF_RANGE:
            log.warning("%s: offset %d of %s is out of range", self.name, info.fetch_offset, info.partition)
            return self._reset(info)
        if fetched.error_code != ErrorMapping.NO_ERROR:
            log.warning("%s: %s: %s", self.name, info.partition, ErrorMapping.exception_for(fetched.error_code))
            return False
        if fetched.size:
            self._enqueue(info, fetched)
        return True

    def _enqueue(self, info: PartitionTopicInfo, fetched: FetchedPartition) -> None:
        messages = tuple(m for m in fetched.messages if m.offset >= info.fetch_offset)
        behind = fetched.messages[-1].next_offset if fetched.messages else info.fetch_offset
        # without any message, the stream is to say that the first is too large
        if (messages or not fetched.messages) and not info.queue.put(
            FetchedDataChunk(info, info.fetch_offset, messages)
        ):
            return
        info.fetch_offset = max(info.fetch_offset, behind)

    def _reset(self, info: PartitionTopicInfo) -> bool:
        """Seek to the offset of auto.offset.reset. Returns False if the broker does not return it."""
        time = EARLIEST_TIME if self._config.auto_offset_reset == SMALLEST else LATEST_TIME
        try:
            info.reset(self._consumer.earliest_or_latest_offset(info.partition, time))
        except KafkaError as error:
            if not self._ended.is_set():  # else the connection was closed under it
                log.warning("%s: where %s begins is not known: %s", self.name, info.partition, error)
            return False
        return True
