"""Configs of the producer of Kafka 0.8, with Kafka's names and defaults."""

from __future__ import annotations

from typing import Any, Final

from ottla.config.client import addresses
from ottla.config.options import REQUIRED, Option, integer, one_of, text, words
from ottla.errors import ConfigurationError
from ottla.legacy.config import MAX_INT, LegacyConfig, client_id, plug_in
from ottla.legacy.encoder import ENCODERS, DefaultEncoder
from ottla.legacy.producer.partitioner import PARTITIONERS, DefaultPartitioner
from ottla.records.compression import CODEC_IDS, LZ4, NONE


def codec(value: Any) -> int:
    """Return the id of a compression codec: none, gzip, snappy, lz4, or a number from 0 to 3. Raises ValueError for
    other values.
    """
    word = str(value).strip().lower()
    codec_id = int(word) if word.isdigit() else CODEC_IDS.get(word, -1)
    if not NONE <= codec_id <= LZ4 or isinstance(value, bool):
        raise ValueError("expected none, gzip, snappy, lz4 or 0 to 3")
    return codec_id


class ProducerConfig(LegacyConfig, subject="0.8 producer", prefixes=("external",)):
    """Configs of a 0.8 producer, as a mapping with Kafka's names or as keyword arguments.

    ProducerConfig({"metadata.broker.list": "localhost:9092", "serializer.class": "kafka.serializer.StringEncoder"})
    """

    metadata_broker_list: Option[tuple[tuple[str, int], ...]] = Option(
        REQUIRED, addresses, "Brokers to fetch metadata from: host:port, separated by commas."
    )
    request_required_acks: Final = Option(
        0,
        integer(-1, 1),
        "Acknowledgements to wait for. 0: none, 1: that of the leader, -1: those of all in-sync replicas.",
    )
    request_timeout_ms: Final = Option(
        10_000,
        integer(1, MAX_INT),
        "Time in ms that the producer waits for a connection to a broker, and for each response, and, with acks -1, "
        "that the broker waits for the in-sync replicas.",
    )
    producer_type: Final = Option(
        "sync",
        one_of("sync", "async"),
        "sync: send() waits until messages are sent; async: send() adds them to a queue, from which a thread sends "
        "them in batches.",
    )
    serializer_class: Final = Option(
        DefaultEncoder, plug_in("to_bytes", ENCODERS), "Encoder of messages: a class or object with `to_bytes`."
    )
    key_serializer_class: Final = Option(
        None, plug_in("to_bytes", ENCODERS), "Encoder of keys; None: that of serializer.class."
    )
    serializer_encoding: Final = Option("UTF8", text, "Character encoding of StringEncoder.")
    partitioner_class: Final = Option(
        DefaultPartitioner,
        plug_in("partition", PARTITIONERS),
        "Partitioner of messages with a key: a class or object with `partition(key, num_partitions)`.",
    )
    compression_codec: Final = Option(
        NONE, codec, "Codec with which messages are compressed: none, gzip, snappy or lz4, or its number, 0 to 3."
    )
    compressed_topics: Option[tuple[str, ...]] = Option(
        (),
        words(),
        "Topics whose messages are compressed, separated by commas; empty: all topics. No effect if "
        "compression.codec is none.",
    )
    message_send_max_retries: Final = Option(3, integer(0, MAX_INT), "Maximum number of retries of failed messages.")
    retry_backoff_ms: Final = Option(
        100, integer(0, MAX_INT), "Delay in ms before metadata is refreshed and failed messages are sent again."
    )
    topic_metadata_refresh_interval_ms: Final = Option(
        600_000,
        integer(-1, MAX_INT),
        "Age of metadata in ms above which the producer refreshes it, and reopens connections, before sending. 0: "
        "before every send, -1: only after failures.",
    )
    queue_buffering_max_ms: Final = Option(
        5_000,
        integer(0, MAX_INT),
        "async: maximum time in ms for which messages are collected before a batch is sent.",
    )
    queue_buffering_max_messages: Final = Option(
        10_000,
        integer(1, MAX_INT),
        "async: maximum number of messages in the queue; if it is full, send() waits up to queue.enqueue.timeout.ms.",
    )
    queue_enqueue_timeout_ms: Final = Option(
        -1,
        integer(-1, MAX_INT),
        "async: maximum time in ms that send() waits for space in the queue before it raises QueueFullError; 0: no "
        "wait, -1: no limit.",
    )
    batch_num_messages: Final = Option(
        200,
        integer(1, MAX_INT),
        "async: number of messages at which a batch is sent, even before queue.buffering.max.ms; at most "
        "queue.buffering.max.messages.",
    )
    send_buffer_bytes: Final = Option(
        102_400,
        integer(-1, MAX_INT),
        "Size in bytes of the socket's send buffer (SO_SNDBUF); -1 or 0: the system default.",
    )
    client_id: Final = Option("", client_id, "Client id in the brokers' logs, metrics and quotas.")

    def check(self) -> None:
        """Raise ConfigurationError if batch.num.messages is more than queue.buffering.max.messages."""
        if self.batch_num_messages > self.queue_buffering_max_messages:
            raise ConfigurationError(
                f"batch.num.messages: {self.batch_num_messages} is invalid: it must be at most"
                f" queue.buffering.max.messages, which is {self.queue_buffering_max_messages}"
            )
