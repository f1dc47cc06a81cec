"""Keyword options of producers. Written by `python -m scripts.option_types`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ottla.client.options.client import ClientOptions


class ProducerOptions(ClientOptions, total=False):
    """Keyword options of producers."""

    key_serializer: Any
    """Converts keys to bytes: a callable or a Serializer; None: keys are bytes, or str, encoded as UTF-8."""
    value_serializer: Any
    """Converts values to bytes: a callable or a Serializer; None: values are bytes, or str, encoded as UTF-8."""
    serializer_encoding: str | None
    """Encoding of the String and UUID serializers; UTF-8 by default."""
    key_serializer_encoding: str | None
    """Encoding of the serializer of keys; takes precedence over serializer.encoding."""
    value_serializer_encoding: str | None
    """Encoding of the serializer of values; takes precedence over serializer.encoding."""
    default_list_key_serde_inner: Any
    """Serde of the items of keys, for the List serializer."""
    default_list_value_serde_inner: Any
    """Serde of the items of values, for the List serializer."""
    acks: int | Literal["all"]
    """Acknowledgements to wait for: 0 (none), 1 (the leader), or all or -1 (every in-sync replica)."""
    enable_idempotence: bool
    """Prevent duplicates and reordering when batches are retried. Requires acks=all, retries above 0, and
    max.in.flight.requests.per.connection of at most 5. With other values it is turned off; if it or transactional.id is
    set, that is an error.
    """
    transactional_id: str | None
    """Id of the producer for transactions. Use the same id after a restart; None: no transactions."""
    transaction_timeout_ms: int
    """Time in milliseconds after which the coordinator aborts an open transaction. Cannot be set with
    transaction.two.phase.commit.enable.
    """
    transaction_two_phase_commit_enable: bool
    """Begin transactions without a timeout, whose outcome an external coordinator decides (KIP-939)."""
    compression_type: str | None
    """Codec of batches: none, gzip, snappy, lz4 or zstd."""
    compression_gzip_level: int
    """Compression level of gzip, 1 to 9; -1: the codec's default."""
    compression_lz4_level: int
    """Compression level of lz4, 1 to 17; not set: the fast compressor, as in Kafka."""
    compression_zstd_level: int
    """Compression level of zstd, -131072 to 22."""
    compression_level: int | None
    """Compression level of whichever codec is used; takes precedence over the codec's own config."""
    batch_size: int
    """Maximum size in bytes of a batch, before compression; a larger record gets a separate batch. 0: no batching."""
    linger_ms: float
    """Maximum time in milliseconds that a batch waits for more records. More: larger batches, higher latency."""
    buffer_memory: int
    """Maximum memory in bytes of records that wait to be sent; beyond it send() blocks."""
    max_block_ms: int
    """Maximum time in milliseconds that send() waits for metadata and memory, and methods of transactions for the
    brokers. block.on.buffer.full and metadata.fetch.timeout.ms take precedence.
    """
    block_on_buffer_full: bool
    """Deprecated since Kafka 0.9: true lets send() block without a limit."""
    metadata_fetch_timeout_ms: int | None
    """Older name of max.block.ms, from Kafka before 0.11; it takes precedence."""
    timeout_ms: int | None
    """Option of Kafka before 0.11: maximum time in milliseconds that a leader waits for replicas; by default
    request.timeout.ms.
    """
    max_request_size: int
    """Maximum size in bytes of a record and of a request."""
    max_in_flight_requests_per_connection: int
    """Maximum number of unacknowledged requests per broker; at most 5 with idempotence."""
    retries: int
    """Maximum number of retries of a batch; delivery.timeout.ms usually ends them earlier."""
    delivery_timeout_ms: int
    """Maximum time in milliseconds between send() and the acknowledgement or failure of a record; at least linger.ms +
    request.timeout.ms.
    """
    partitioner: Any
    """Chooses the partition: default, sticky, roundrobin or random, the name of Java's class for one of them, a
    callable, an object with a method partition(), or the dotted name of either.
    """
    partitioner_class: Any
    """Kafka's name for partitioner, over which it takes precedence; the names of Java's classes are accepted."""
    partitioner_ignore_keys: bool
    """Distribute records with keys as if they had none."""
    partitioner_adaptive_partitioning_enable: bool
    """Send fewer records without keys to slow partitions."""
    partitioner_availability_timeout_ms: int
    """Time in milliseconds after which a broker that accepts no batches gets no records without keys; 0: disabled.
    Requires partitioner.adaptive.partitioning.enable.
    """
    interceptor_classes: str | Sequence[Any]
    """Interceptors, as classes or objects, in the order in which they are called."""
    enable_metrics_push: bool
    """Push metrics to the cluster if it has a subscription for them (KIP-714)."""
    metadata_max_idle_ms: int
    """Time in milliseconds after which the metadata of an unused topic is dropped."""
