"""The committed offsets of a 0.8 group: in ZooKeeper (`/consumers/G/offsets/T/P`), in Kafka (OffsetCommit 1), or in
both.

Dual commit is used to migrate a group from ZooKeeper to Kafka: offsets are committed to both, and the larger one of the
two is used.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from ottla.cluster.broker.zookeeper_offsets import ZooKeeperOffsets
from ottla.cluster.store.zk_client import ZkClient
from ottla.errors import KafkaError
from ottla.legacy.consumer.consumer_config import ConsumerConfig
from ottla.legacy.consumer.partition_topic_info import INVALID_OFFSET
from ottla.legacy.consumer.simple_consumer import SimpleConsumer
from ottla.legacy.requests import (
    ConsumerMetadataRequest,
    ErrorMapping,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from ottla.model import OffsetAndMetadata, TopicPartition

log: Final = logging.getLogger("ottla.legacy")

Offsets = Mapping[TopicPartition, int]


class GroupOffsets:
    """Reads and writes the committed offsets of a group. Thread-safe."""

    def __init__(self, config: ConsumerConfig, zk: ZkClient) -> None:
        self._config = config
        self._zk = zk
        self._in_zookeeper = ZooKeeperOffsets(zk.store)
        self._channel = OffsetsChannel(config, lambda: list(zk.brokers().values()))
        self._written: dict[TopicPartition, int] = {}
        self._lock = threading.Lock()

    def fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offset of each partition, with dual commit the larger one; INVALID_OFFSET if there is
        none. Raises KafkaError if the offsets cannot be read.
        """
        with self._lock:
            # Another member may have committed other offsets since, so that none can be skipped as unchanged.
            self._written.clear()
            offsets = dict.fromkeys(partitions, INVALID_OFFSET)
            if self._config.in_zookeeper:
                offsets = {tp: self._from_zookeeper(tp) for tp in partitions}
            if self._config.in_kafka and partitions:
                for tp, offset in self._channel.fetch(partitions, self._config.offsets_commit_max_retries).items():
                    offsets[tp] = max(offsets[tp], offset)
            return offsets

    def commit(self, offsets: Offsets, *, retries: int) -> None:
        """Commit offsets. Requests to Kafka are retried at most `retries` times. Raises KafkaError if the offsets are
        not stored.
        """
        with self._lock:
            if self._config.in_kafka and offsets:
                self._channel.commit(offsets, retries)
            if self._config.in_zookeeper:
                for tp, offset in offsets.items():
                    self._to_zookeeper(tp, offset)

    def close(self) -> None:
        """Close the connection to the coordinator."""
        self._channel.close()

    def _from_zookeeper(self, tp: TopicPartition) -> int:
        stored = self._zk.run(self._in_zookeeper.get(self._config.group_id, tp))
        return INVALID_OFFSET if stored is None else stored

    def _to_zookeeper(self, tp: TopicPartition, offset: int) -> None:
        if self._written.get(tp) != offset:
            self._zk.run(self._in_zookeeper.set(self._config.group_id, tp, offset))
            self._written[tp] = offset


class OffsetsChannel:
    """A connection to the coordinator of a group. The coordinator is looked up again after a failed request."""

    def __init__(self, config: ConsumerConfig, brokers: Callable[[], Sequence[tuple[str, int]]]) -> None:
        self._config = config
        self._brokers = brokers
        self._coordinator: SimpleConsumer | None = None
        self._closed = threading.Event()

    def close(self) -> None:
        """Close the connection. Thread-safe."""
        self._closed.set()
        self._disconnect()

    def commit(self, offsets: Offsets, retries: int) -> None:
        """Commit offsets with OffsetCommit version 1. Raises KafkaError if all attempts fail."""
        request = OffsetCommitRequest(
            self._config.group_id, {tp: OffsetAndMetadata(offset, "") for tp, offset in offsets.items()}
        )
        self._retrying(retries, lambda to: _check(to.commit_offsets(request).errors.values()))

    def fetch(self, partitions: Iterable[TopicPartition], retries: int) -> dict[TopicPartition, int]:
        """Return committed offsets (-1: none), fetched with OffsetFetch version 1. Raises KafkaError if all attempts
        fail.
        """
        request = OffsetFetchRequest(self._config.group_id, list(partitions))
        offsets: dict[TopicPartition, int] = {}

        def fetch_from(coordinator: SimpleConsumer) -> None:
            answer = coordinator.fetch_offsets(request).offsets
            # Old brokers respond with UNKNOWN_TOPIC_OR_PARTITION if no offset is committed for a partition.
            _check(o.error for o in answer.values() if o.error != ErrorMapping.UNKNOWN_TOPIC_OR_PARTITION)
            offsets.update({tp: o.offset for tp, o in answer.items()})

        self._retrying(retries, fetch_from)
        return offsets

    def _retrying(self, retries: int, request: Callable[[SimpleConsumer], None]) -> None:
        while True:
            try:
                return request(self._connected())
            except KafkaError as error:
                self._disconnect()
                if retries <= 0 or self._closed.is_set():
                    raise
                log.info(
                    "Cannot commit or fetch offsets of group %s; retrying in %g s (retries left: %d): %s",
                    self._config.group_id,
                    self._config.offsets_channel_backoff_ms / 1000,
                    retries,
                    error,
                )
            retries -= 1
            self._closed.wait(self._config.offsets_channel_backoff_ms / 1000)

    def _connected(self) -> SimpleConsumer:
        if self._coordinator is None:
            self._coordinator = self._consumer(*self._find())
        return self._coordinator

    def _find(self) -> tuple[str, int]:
        last: KafkaError = ErrorMapping.exception_for(ErrorMapping.CONSUMER_COORDINATOR_NOT_AVAILABLE)
        for address in self._brokers():
            try:
                with self._consumer(*address) as broker:
                    answer = broker.find_coordinator(ConsumerMetadataRequest(self._config.group_id))
                ErrorMapping.maybe_throw(answer.error_code)
            except KafkaError as error:
                last = error
            else:
                assert answer.coordinator is not None
                return answer.coordinator.host, answer.coordinator.port
        raise last

    def _consumer(self, host: str, port: int) -> SimpleConsumer:
        return SimpleConsumer(host, port, self._config.offsets_channel_socket_timeout_ms, client_id=self._config.client)

    def _disconnect(self) -> None:
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            coordinator.close()


def _check(codes: Iterable[int]) -> None:
    for code in codes:
        ErrorMapping.maybe_throw(code)
