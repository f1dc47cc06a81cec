"""`DefaultEventHandler`: sends the messages of a 0.8 producer to the brokers.

    handle: serialize; then, until everything is sent or no retries remain: refresh old metadata, and
        dispatch_serialized_data: partition_and_collate, send one request to each broker; after an error wait and
        update the metadata

Only failed messages are sent again. Messages with neither a key nor a `part_key` are sent to the sticky partition of
their topic, which is chosen at random after each metadata refresh. Only one thread at a time calls `handle`: in a sync
producer the thread that calls `send`, in an async producer its send thread.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from ottla import errors
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.legacy.encoder import Encoder
from ottla.legacy.errors import FailedToSendMessageError
from ottla.legacy.keyed_message import KeyedMessage, Message
from ottla.legacy.producer.broker_partition_info import BrokerPartitionInfo, PartitionAndLeader
from ottla.legacy.producer.partitioner import Partitioner
from ottla.legacy.producer.producer_config import ProducerConfig
from ottla.legacy.producer.producer_pool import ProducerPool
from ottla.logs import listed, reason_of
from ottla.model import NO_TIMESTAMP, TopicPartition
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records.compression import NONE
from ottla.records.decoder import Record
from ottla.records.legacy_message_set import encode_set

log: Final = logging.getLogger("ottla.legacy")

Serialized = KeyedMessage[Any, Message]
PartitionedData = dict[TopicPartition, list[Serialized]]

MESSAGE_FORMAT = 0
NO_LEADER = -1


class DefaultEventHandler:
    """Serializes and sends the messages of a producer."""

    def __init__(
        self,
        config: ProducerConfig,
        partitioner: Partitioner,
        encoder: Encoder,
        key_encoder: Encoder,
        producer_pool: ProducerPool,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.config = config
        self.broker_partition_info: BrokerPartitionInfo = BrokerPartitionInfo(config, producer_pool)
        self._partitioner = partitioner
        self._encoder = encoder
        self._key_encoder = key_encoder
        self._pool = producer_pool
        self._clock = clock
        self._refreshed: float | None = None
        self._topics_to_refresh: set[str] = set()
        self._sticky: dict[str, int] = {}
        self._closed = threading.Event()

    @classmethod
    def create(cls, config: ProducerConfig) -> DefaultEventHandler:
        """Return a handler with the partitioner and encoders of the configs."""
        key_encoder = "serializer.class" if config.key_serializer_class is None else "key.serializer.class"
        return cls(
            config,
            config.create("partitioner.class"),
            config.create("serializer.class"),
            config.create(key_encoder),
            ProducerPool(config),
        )

    def handle(self, events: Sequence[KeyedMessage[Any, Any]]) -> None:
        """Send messages. Raises FailedToSendMessageError if some could not be sent after all retries, or before the
        handler was closed.

        If a message cannot be serialized, a sync producer sends nothing and raises SerializationError. An async
        producer logs the error and sends the other messages.
        """
        outstanding = self.serialize(events)
        tries = self.config.message_send_max_retries + 1
        while outstanding and tries > 0:
            self._refresh_by_age(outstanding)
            outstanding = self.dispatch_serialized_data(outstanding)
            if outstanding:
                tries -= 1
                if self._closed.is_set():
                    break
                topics = listed(sorted({m.topic for m in outstanding}))
                if tries:
                    log.info(
                        "Could not send all messages to %s (unsent: %d); retrying in %d ms (retries left: %d)",
                        topics,
                        len(outstanding),
                        self.config.retry_backoff_ms,
                        tries,
                    )
                else:
                    log.info(
                        "Could not send all messages to %s (unsent: %d); giving up, because no retries are left "
                        "(message.send.max.retries=%d)",
                        topics,
                        len(outstanding),
                        self.config.message_send_max_retries,
                    )
                if self._closed.wait(self.config.retry_backoff_ms / 1000):
                    break
                self._update_info({m.topic for m in outstanding})
        if outstanding:
            topics = ",".join(sorted({m.topic for m in outstanding}))
            raise FailedToSendMessageError(
                f"Failed to send messages after {self.config.message_send_max_retries} attempts:"
                f" {len(outstanding)} of {len(events)}, of topics {topics}"
            )

    def close(self) -> None:
        """Close the connections. A concurrent `handle` does not retry. Thread-safe."""
        self._closed.set()
        self._pool.close()

    # Serializing

    def serialize(self, events: Iterable[KeyedMessage[Any, Any]]) -> list[Serialized]:
        """Return the messages with keys and values as bytes. If one cannot be serialized, raise SerializationError in a
        sync producer; in an async one, log the error and leave the message out.
        """
        serialized = []
        for event in events:
            try:
                key = self._to_bytes(self._key_encoder, event.key, event.topic) if event.has_key else None
                message = Message(key, self._to_bytes(self._encoder, event.message, event.topic))
                serialized.append(event.with_message(message))
            except errors.SerializationError as error:
                if self.config.producer_type == "sync":
                    raise
                log.error("Dropping a message that cannot be serialized: %s", error)
        return serialized

    def _to_bytes(self, encoder: Encoder, value: Any, topic: str) -> bytes | None:
        try:
            return encoder.to_bytes(value)
        except Exception as error:  # an encoder may raise any exception
            name = type(encoder).__name__
            raise errors.SerializationError(
                f"{name} cannot encode a {type(value).__name__} of topic {topic}: {reason_of(error)}"
            ) from error

    # Metadata

    def _refresh_by_age(self, messages: Sequence[Serialized]) -> None:
        """Fetch the metadata of the topics of all messages since the last refresh of this kind, if there was none or it
        is longer ago than topic.metadata.refresh.interval.ms (-1: never).
        """
        interval = self.config.topic_metadata_refresh_interval_ms
        if interval < 0:
            return
        self._topics_to_refresh |= {m.topic for m in messages}
        now = self._clock.monotonic()
        if self._refreshed is None or (now - self._refreshed) * 1000 > interval:
            self._update_info(self._topics_to_refresh)
            self._topics_to_refresh.clear()
            self._refreshed = now

    def _update_info(self, topics: Collection[str]) -> None:
        """Fetch the metadata of topics, and forget the sticky partitions. An error is only logged, because sending may
        succeed with the old metadata.
        """
        try:
            self.broker_partition_info.update_info(topics)
        except errors.KafkaError as error:
            log.error(
                "Cannot refresh metadata (topics: %s); cached metadata, if any, stays in use: %s",
                listed(sorted(topics)),
                error,
            )
        self._sticky.clear()

    # Partitioning

    def dispatch_serialized_data(self, messages: list[Serialized]) -> list[Serialized]:
        """Send each message to the leader of its partition, and return the messages that could not be sent. If the
        partition of any message cannot be determined, none is sent.
        """
        partitioned = self.partition_and_collate(messages)
        if partitioned is None:
            return messages
        failed = []
        for broker_id, data in partitioned.items():
            for partition in self.send(broker_id, data):
                failed += data[partition]
        return failed

    def partition_and_collate(self, messages: Iterable[Serialized]) -> dict[int, PartitionedData] | None:
        """Return the messages by broker id and partition. The broker id is -1 if a partition has no leader. Return None
        if the partition of a message cannot be determined.
        """
        by_broker: dict[int, PartitionedData] = {}
        try:
            for message in messages:
                partitions = self.broker_partition_info.get_broker_partition_info(message.topic)
                chosen = partitions[self._partition(message, partitions)]
                # Not an error here, so that requests to other brokers are sent before `send` reports the missing
                # leader.
                leader = NO_LEADER if chosen.leader_broker_id is None else chosen.leader_broker_id
                place = TopicPartition(message.topic, chosen.partition_id)
                by_broker.setdefault(leader, {}).setdefault(place, []).append(message)
        except (
            Exception
        ) as error:  # a user's partitioner may raise anything; as in Kafka it costs an attempt, not the thread
            log.warning(
                "Could not choose the partition of a message to %s; retrying if message.send.max.retries allows it: %s",
                message.topic,
                reason_of(error),
            )
            return None
        return by_broker

    def _partition(self, message: Serialized, partitions: Sequence[PartitionAndLeader]) -> int:
        key = message.partition_key
        if key is None:
            return self._sticky_partition(message.topic, partitions)
        number: int = self._partitioner.partition(key, len(partitions))
        if not 0 <= number < len(partitions):
            raise errors.UnknownTopicOrPartitionError(
                f"Invalid partition id: {number} for topic {message.topic}; 0 to {len(partitions) - 1} are valid"
            )
        return number

    def _sticky_partition(self, topic: str, partitions: Sequence[PartitionAndLeader]) -> int:
        """Return the index of the topic's sticky partition, after choosing it if necessary. Raises
        LeaderNotAvailableError if there is no partition with a leader to choose.
        """
        if topic not in self._sticky:
            available = [i for i, p in enumerate(partitions) if p.leader_broker_id is not None]
            if not available:
                raise errors.LeaderNotAvailableError(f"No leader for any partition in topic {topic}")
            self._sticky[topic] = random.choice(available)
        return self._sticky[topic]

    # Sending

    def send(self, broker_id: int, data: Mapping[TopicPartition, list[Serialized]]) -> list[TopicPartition]:
        """Send messages to one broker, and return the partitions whose messages failed."""
        if broker_id == NO_LEADER:
            log.warning(
                "Could not send messages, because there is no leader for %s; retrying if message.send.max.retries "
                "allows it",
                ", ".join(map(str, data)),
            )
            return list(data)
        try:
            response = self._pool.get_producer(broker_id).send(self._request(data))
        except errors.KafkaError as error:
            log.warning(
                "Could not send messages for %s to broker %d; retrying if message.send.max.retries allows it: %s",
                ", ".join(map(str, data)),
                broker_id,
                error,
            )
            return list(data)
        return [] if response is None else _failed(response, data)

    def _request(self, data: Mapping[TopicPartition, list[Serialized]]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for place, messages in data.items():
            one = PartitionProduceData(index=place.partition, records=self._message_set(place.topic, messages))
            topics.setdefault(place.topic, []).append(one)
        return ProduceRequest(
            acks=self.config.request_required_acks,
            timeout_ms=self.config.request_timeout_ms,
            topic_data=[TopicProduceData(name=name, partition_data=parts) for name, parts in topics.items()],
        )

    def _message_set(self, topic: str, messages: Sequence[Serialized]) -> bytes:
        only = self.config.compressed_topics
        codec = self.config.compression_codec if not only or topic in only else NONE
        records = [
            Record(offset, NO_TIMESTAMP, 0, m.message.key, m.message.value, []) for offset, m in enumerate(messages)
        ]
        return encode_set(records, codec, MESSAGE_FORMAT)


def _failed(response: ProduceResponse, data: Mapping[TopicPartition, Any]) -> list[TopicPartition]:
    """Return the partitions that the response rejects or does not contain."""
    accepted = set()
    for topic in response.responses:
        for p in topic.partition_responses:
            place = TopicPartition(topic.name, p.index)
            if p.error_code:
                log.warning(
                    "Could not send messages to %s; retrying if message.send.max.retries allows it: %s",
                    place,
                    errors.for_code(p.error_code).name,
                )
            else:
                accepted.add(place)
    return [place for place in data if place not in accepted]
