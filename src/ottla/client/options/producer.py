"""Keyword options of producers. Written by `python -m scripts.option_types`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ottla.client.options.client import ClientOptions


class ProducerOptions(ClientOptions, total=False):
    """Keyword options of producers."""

    key_serializer: Any
    """Converts keys to bytes: a callable, a Serializer, or the name of one, such as string or LongSerializer; None:
    keys are bytes, or str that is encoded as UTF-8.
    """
    value_serializer: Any
    """Converts values to bytes: a callable, a Serializer, or the name of one, such as string or LongSerializer; None:
    values are bytes, or str that is encoded as UTF-8.
    """
    serializer_encoding: str | None
    """Encoding of the String and UUID serializers, such as utf-16; None: UTF-8. key.serializer.encoding and
    value.serializer.encoding take precedence.
    """
    key_serializer_encoding: str | None
    """Encoding of keys, if key.serializer is the String or UUID serializer; None: serializer.encoding."""
    value_serializer_encoding: str | None
    """Encoding of values, if value.serializer is the String or UUID serializer; None: serializer.encoding."""
    default_list_key_serde_inner: Any
    """Serde of the elements of keys that are lists: an object, a class, or a name such as integer. Required if
    key.serializer is the List serializer and was created without a serde; otherwise it has no effect.
    """
    default_list_value_serde_inner: Any
    """Serde of the elements of values that are lists: an object, a class, or a name such as integer. Required if
    value.serializer is the List serializer and was created without a serde; otherwise it has no effect.
    """
    acks: int | Literal["all"]
    """Acknowledgements that the producer waits for: 0 (none, and no retries), 1 (that of the leader), or all or -1
    (those of all in-sync replicas).
    """
    enable_idempotence: bool
    """Whether the producer prevents duplicates and reordering when it retries batches. This requires acks=all, retries
    above 0, and max.in.flight.requests.per.connection of at most 5; otherwise idempotence is turned off, or an error is
    raised if enable.idempotence=true or transactional.id is set explicitly.
    """
    transactional_id: str | None
    """Id that identifies the producer's transactions across restarts: a new producer with the same id aborts the open
    transaction of the previous one, and fences it. None: no transactions.
    """
    transaction_timeout_ms: int
    """Time in milliseconds after which the coordinator aborts an open transaction; at most the broker's
    transaction.max.timeout.ms. It cannot be set together with transaction.two.phase.commit.enable=true.
    """
    transaction_two_phase_commit_enable: bool
    """Whether transactions have no timeout, because an external coordinator decides their outcome (two-phase commit,
    KIP-939).
    """
    compression_type: str | None
    """Codec with which the producer compresses batches: none, gzip, snappy, lz4 or zstd."""
    compression_gzip_level: int
    """Compression level of gzip, 1 (fastest) to 9 (smallest); -1: the codec's default. compression.level takes
    precedence.
    """
    compression_lz4_level: int
    """Compression level of lz4, 1 to 17, of which 1 and 2 count as 3; not set: the fast compressor, as in Kafka.
    compression.level takes precedence.
    """
    compression_zstd_level: int
    """Compression level of zstd, -131072 (fastest) to 22 (smallest). compression.level takes precedence."""
    compression_level: int | None
    """Compression level of gzip, lz4 or zstd, whichever is in compression.type; it takes precedence over the codec's
    own config. None: the codec's own config applies.
    """
    batch_size: int
    """Maximum size in bytes of a batch, before compression; a larger record gets a separate batch. 0: every record gets
    a separate batch. send_batch() makes batches of up to 256 KiB if this is less.
    """
    linger_ms: float
    """Maximum time in milliseconds that a batch waits for more records; a full batch does not wait. A higher value
    leads to larger batches and higher latency.
    """
    buffer_memory: int
    """Maximum memory in bytes for records that have not been acknowledged; when it is used up, send() waits for up to
    max.block.ms.
    """
    max_block_ms: int
    """Maximum time in milliseconds that send() and partitions_for() wait for metadata and memory, and that methods of
    transactions wait for each response of a coordinator. For the former, block.on.buffer.full and
    metadata.fetch.timeout.ms take precedence.
    """
    block_on_buffer_full: bool
    """Deprecated since Kafka 0.9: with true, send() waits for metadata and memory without a limit, whatever
    max.block.ms and metadata.fetch.timeout.ms are.
    """
    metadata_fetch_timeout_ms: int | None
    """Older name of max.block.ms, from Kafka before 0.11. If it is set, send() ignores max.block.ms, but
    block.on.buffer.full=true takes precedence.
    """
    timeout_ms: int | None
    """Option of Kafka before 0.11: with acks=all, the maximum time in milliseconds that a leader waits for the in-sync
    replicas; None: request.timeout.ms.
    """
    max_request_size: int
    """Maximum size in bytes of a record, before compression, and of a request with several batches; a larger record
    fails with MessageTooLargeError.
    """
    max_in_flight_requests_per_connection: int
    """Maximum number of unacknowledged produce requests per broker; at most 5 with idempotence. Without idempotence,
    more than 1 may reorder batches when one is retried.
    """
    retries: int
    """Maximum number of retries of a batch; usually delivery.timeout.ms ends them earlier. With acks=0 a batch is never
    retried.
    """
    delivery_timeout_ms: int
    """Time in milliseconds after the creation of a batch within which it must be acknowledged, retries included;
    otherwise its records fail. A value below linger.ms + request.timeout.ms is an error; if only the default is below,
    it is raised to that.
    """
    partitioner: Any
    """Chooses the partition of records that name none: default (by the key, if there is one), sticky, roundrobin or
    random (regardless of the key), the name of Java's class for one of them, a callable, an object with a method
    partition(), or the dotted name of either.
    """
    partitioner_class: Any
    """Kafka's name for the option partitioner, with the same values, and with precedence over it; None: partitioner
    applies.
    """
    partitioner_ignore_keys: bool
    """Whether the default partitioner distributes records with keys as if they had none; no effect with other
    partitioners.
    """
    partitioner_adaptive_partitioning_enable: bool
    """Whether the default and sticky partitioners choose partitions with many queued batches less often, so that slow
    brokers get fewer records. It does not affect records whose partition follows from the key.
    """
    partitioner_availability_timeout_ms: int
    """Time in milliseconds for which batches must have been ready without being sent to a broker before the default and
    sticky partitioners avoid its partitions; 0: disabled. Requires partitioner.adaptive.partitioning.enable, and does
    not affect records whose partition follows from the key.
    """
    interceptor_classes: str | Sequence[Any]
    """Interceptors of records and of their acknowledgements, as classes, objects or dotted names, in the order in which
    they are called.
    """
    enable_metrics_push: bool
    """Whether the producer pushes its metrics to the cluster, if the cluster has a subscription for them (KIP-714)."""
    metadata_max_idle_ms: int
    """Time in milliseconds without records for a topic after which the producer no longer requests the metadata of this
    topic.
    """
