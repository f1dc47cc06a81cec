"""The 0.8 producer's options: Kafka's names, defaults and bounds."""

from __future__ import annotations

from typing import Any

from ottla.config.client import addresses
from ottla.config.options import REQUIRED, Option, integer, one_of, text, words
from ottla.errors import ConfigurationError
from ottla.legacy.config import MAX_INT, LegacyConfig, client_id, plug_in
from ottla.legacy.encoder import ENCODERS, DefaultEncoder
from ottla.legacy.partitioner import PARTITIONERS, DefaultPartitioner
from ottla.records.compression import CODEC_IDS, LZ4, NONE


def codec(value: Any) -> int:
    """none, gzip, snappy, lz4, or their numbers 0 to 3."""
    word = str(value).strip().lower()
    codec_id = int(word) if word.isdigit() else CODEC_IDS.get(word, -1)
    if not NONE <= codec_id <= LZ4 or isinstance(value, bool):
        raise ValueError("expected none, gzip, snappy, lz4 or 0 to 3")
    return codec_id


class ProducerConfig(LegacyConfig, subject="0.8 producer", prefixes=("external",)):
    """Options of a producer of 0.8, as a mapping with Kafka's names or as keywords.

    ProducerConfig({"metadata.broker.list": "localhost:9092", "serializer.class": "kafka.serializer.StringEncoder"})
    """

    metadata_broker_list: Option[tuple[tuple[str, int], ...]] = Option(
        REQUIRED, addresses, "Brokers to ask for metadata: host:port, several with commas."
    )
    request_required_acks = Option(
        0, integer(-1, 1), "Acknowledgements to wait for: 0 none, 1 the leader's, -1 every in-sync replica's."
    )
    request_timeout_ms = Option(10_000, integer(1, MAX_INT), "How long a broker may take to be reached, and to answer.")
    producer_type = Option(
        "sync", one_of("sync", "async"), "sync: send() sends; async: a thread sends what send() has queued."
    )
    serializer_class = Option(
        DefaultEncoder, plug_in("to_bytes", ENCODERS), "Makes bytes of messages: a class or object with `to_bytes`."
    )
    key_serializer_class = Option(
        None, plug_in("to_bytes", ENCODERS), "Makes bytes of keys; None: as serializer.class."
    )
    serializer_encoding = Option("UTF8", text, "The encoding of StringEncoder.")
    partitioner_class = Option(
        DefaultPartitioner,
        plug_in("partition", PARTITIONERS),
        "Chooses the partition of messages with a key: a class or object with `partition(key, num_partitions)`.",
    )
    compression_codec = Option(NONE, codec, "How messages are compressed: none, gzip, snappy, lz4, or 0 to 3.")
    compressed_topics: Option[tuple[str, ...]] = Option(
        (), words(), "The topics to compress, where there is a codec; none: all of them."
    )
    message_send_max_retries = Option(3, integer(0, MAX_INT), "How often messages that failed are sent again.")
    retry_backoff_ms = Option(
        100, integer(0, MAX_INT), "Pause before metadata is asked for and failed messages are sent again."
    )
    topic_metadata_refresh_interval_ms = Option(
        600_000,
        integer(-1, MAX_INT),
        "Maximum age of metadata in ms: older metadata is refreshed, and connections are reopened, before sending; 0:"
        " before every send, -1: only after failures.",
    )
    queue_buffering_max_ms = Option(5_000, integer(0, MAX_INT), "async: how long a batch waits for company.")
    queue_buffering_max_messages = Option(10_000, integer(1, MAX_INT), "async: how many messages may wait.")
    queue_enqueue_timeout_ms = Option(
        -1, integer(-1, MAX_INT), "async: how long send() waits for a place in the queue; 0: not at all, -1: for ever."
    )
    batch_num_messages = Option(200, integer(1, MAX_INT), "async: a batch of this many messages is sent at once.")
    send_buffer_bytes = Option(102_400, integer(-1, MAX_INT), "SO_SNDBUF; -1: the system's.")
    client_id = Option("", client_id, "Name in the broker's logs and quotas.")

    def check(self) -> None:
        """A batch has to fit into the queue."""
        if self.batch_num_messages > self.queue_buffering_max_messages:
            raise ConfigurationError(
                f"batch.num.messages: {self.batch_num_messages} is not allowed: it must be at most"
                f" queue.buffering.max.messages, which is {self.queue_buffering_max_messages}"
            )
