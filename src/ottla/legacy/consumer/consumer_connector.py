"""`ConsumerConnector`: the high-level consumer of Kafka 0.8, whose group is stored in ZooKeeper.

    config = ConsumerConfig({"zookeeper.connect": "localhost:2181", "group.id": "visits"})
    with Consumer.create_java_consumer_connector(config) as connector:
        (stream,) = connector.create_message_streams({"page_visits": 1})["page_visits"]
        for message in stream:
            print(message.message)

A stream must be read by one thread. If there are more streams than partitions, some are idle until members leave or
partitions are added.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.cluster.store.zk_client import ZkClient
from ottla.errors import IllegalStateError, KafkaError
from ottla.legacy.consumer.consumer_config import ConsumerConfig
from ottla.legacy.consumer.kafka_stream import KafkaStream
from ottla.legacy.consumer.partition_topic_info import ChunkQueue
from ottla.legacy.consumer.topic_count import ConsumerThreadId, TopicCount, consumer_id_string
from ottla.legacy.consumer.topic_filter import TopicFilter
from ottla.legacy.consumer.zk_rebalancer_listener import ZKRebalancerListener
from ottla.legacy.decoder import Decoder, DefaultDecoder
from ottla.legacy.errors import MessageStreamsExistError
from ottla.model import TopicPartition

log: Final = logging.getLogger("ottla.legacy")

_BYTES = DefaultDecoder()


class ConsumerConnector:
    """A member of a group. Creates streams of messages. Thread-safe."""

    def __init__(self, config: ConsumerConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        self.config = config
        self.consumer_id: str = consumer_id_string(config.group_id, config.consumer_id, clock.now_ms())
        self._clock = clock
        self._zk = ZkClient(config.zookeeper_connect, config.zookeeper_session_timeout_ms, config.connection_timeout_ms)
        self._queues: dict[tuple[str | None, int], ChunkQueue] = {}
        """Queues by topic and thread number. The topic is None if the streams belong to a topic filter."""
        self._listener: ZKRebalancerListener | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def start(self) -> Self:
        """Connect to ZooKeeper, and return this object. Raises StartupError if kazoo is not installed, ZooKeeper does
        not respond in time, or the chroot does not exist.
        """
        self._zk.start()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def create_message_streams(
        self,
        topic_count_map: Mapping[str, int],
        key_decoder: Decoder = _BYTES,
        value_decoder: Decoder = _BYTES,
    ) -> dict[str, list[KafkaStream]]:
        """Join the group, and return the requested number of streams for each topic.

        Streams can be created only once: later calls of this method and of create_message_streams_by_filter raise
        MessageStreamsExistError. Raises ValueError if there is no topic or a number is less than 1, IllegalStateError
        after `shutdown`, ConsumerRebalanceFailedError if all attempts to rebalance fail, and other KafkaErrors if the
        member cannot be registered in ZooKeeper.
        """
        if not topic_count_map or any(count < 1 for count in topic_count_map.values()):
            raise ValueError(f"expected topics with at least one stream each, got {dict(topic_count_map)}")
        keys = [(topic, n) for topic, count in topic_count_map.items() for n in range(count)]
        streams = self._join(TopicCount(dict(topic_count_map)), keys, key_decoder, value_decoder)
        return {topic: [streams[topic, n] for n in range(count)] for topic, count in topic_count_map.items()}

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        num_streams: int = 1,
        key_decoder: Decoder = _BYTES,
        value_decoder: Decoder = _BYTES,
    ) -> list[KafkaStream]:
        """Join the group, and return streams with the messages of all topics that a Whitelist or Blacklist selects,
        including topics that are created later, but not internal topics if exclude.internal.topics is true.

        Streams can be created only once: later calls of this method and of create_message_streams raise
        MessageStreamsExistError. Raises ValueError if `num_streams` is less than 1, IllegalStateError after `shutdown`,
        ConsumerRebalanceFailedError if all attempts to rebalance fail, and other KafkaErrors if the member cannot be
        registered in ZooKeeper.
        """
        if num_streams < 1:
            raise ValueError(f"expected at least one stream, got {num_streams}")
        count = TopicCount.of_filter(topic_filter, num_streams)
        streams = self._join(count, [(None, n) for n in range(num_streams)], key_decoder, value_decoder)
        return list(streams.values())

    def commit_offsets(self) -> None:
        """Commit the offsets of consumed messages. Raises KafkaError if that fails, and IllegalStateError before the
        connector has tried to join the group.
        """
        if self._listener is None:
            raise IllegalStateError("there are no streams yet")
        self._listener.commit_offsets(self.config.offsets_commit_max_retries)

    @property
    def owned(self) -> Mapping[TopicPartition, ConsumerThreadId]:
        """The partitions that this member owns, with the threads that read them."""
        return {} if self._listener is None else self._listener.owned

    def shutdown(self) -> None:
        """Leave the group and end the streams. Offsets are committed first if auto.commit.enable is true. May be called
        repeatedly.
        """
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        log.info("Shutting down consumer connector %s", self.consumer_id)
        try:
            if self._listener is not None:
                self._listener.stop()
        finally:
            for queue in self._queues.values():
                queue.close()
            self._zk.close()

    def _join(
        self, count: TopicCount, keys: list[tuple[str, int]] | list[tuple[None, int]], *decoders: Decoder
    ) -> dict[tuple[str | None, int], KafkaStream]:
        with self._lock:
            if self._closed.is_set():
                raise IllegalStateError("the connector is shut down")
            if self._listener is not None:
                raise MessageStreamsExistError("the streams of this connector exist already")
            self._queues = {key: ChunkQueue(self.config.queued_max_message_chunks) for key in keys}
            self._listener = ZKRebalancerListener(
                self.config, self._zk, self.consumer_id, count, self._queue_of, self._clock
            )
        self._listener.start()
        if self.config.auto_commit_enable:
            name = f"{self.consumer_id}-auto-commit"
            threading.Thread(target=self._auto_commit, name=name, daemon=True).start()
        key_decoder, value_decoder = decoders
        timeout = self.config.consumer_timeout_ms
        return {key: KafkaStream(q, timeout, key_decoder, value_decoder) for key, q in self._queues.items()}

    def _queue_of(self, topic: str, thread: ConsumerThreadId) -> ChunkQueue:
        queue = self._queues.get((topic, thread.thread_id))
        return self._queues[None, thread.thread_id] if queue is None else queue

    def _auto_commit(self) -> None:
        assert self._listener is not None
        while not self._closed.wait(self.config.auto_commit_interval_ms / 1000):
            try:
                self._listener.commit_offsets(retries=0)  # the next commit replaces a failed one
            except KafkaError as error:
                log.warning(
                    "Consumer %s: auto commit failed; committing again within %g s: %s",
                    self.consumer_id,
                    self.config.auto_commit_interval_ms / 1000,
                    error,
                )


class Consumer:
    """Creates connectors. It has Kafka's name for this factory, and is not instantiated."""

    @staticmethod
    def create(config: ConsumerConfig) -> ConsumerConnector:
        """Return a connector that is connected to ZooKeeper. Raises StartupError if kazoo is not installed, ZooKeeper
        does not respond in time, or the chroot does not exist.
        """
        return ConsumerConnector(config).start()

    create_java_consumer_connector = create
