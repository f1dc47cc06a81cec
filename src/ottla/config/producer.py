"""The producer's options: Kafka's, mostly with its defaults and bounds, and some of kafka-python."""

from __future__ import annotations

import logging
from typing import Any, Final

from ottla.config.client import (
    MAX_INT,
    ClientConfig,
    anything,
    boolean,
    each,
    integer,
    loaded,
    nullable,
    number,
    one_of,
    text,
)
from ottla.config.options import Option, gzip_level
from ottla.errors import ConfigurationError

log: Final = logging.getLogger("ottla.config")

ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}

FOR_EVER_MS = 10 * 365 * 24 * 3600 * 1000

PARTITIONERS = {
    "random": "random",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "sticky",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "roundrobin",
}
"""Java's partitioners and their equivalents; `random` has none in Java."""


def acks(value: Any) -> int:
    """Parse 0, 1, or all, which is the same as -1."""
    number = ACKS.get(str(value).strip().lower())
    if number is None or isinstance(value, bool):
        raise ValueError("expected 0, 1 or all")
    return number


def partitioner_of(value: Any) -> Any:
    """Parse a partitioner: its name, its Java class, a callable or the dotted name of one; None is the default one."""
    if value is None:
        return "default"
    if isinstance(value, str):
        name = PARTITIONERS.get(value.strip(), value.strip())
        return name if name in PARTITIONERS.values() else loaded(name)
    return value


def named(value: Any) -> str:
    """Parse a text that must not be empty."""
    name = text(value)
    if not name:
        raise ValueError("it must not be empty")
    return name


class ProducerConfig(ClientConfig, subject="producer"):
    """Options of a producer."""

    key_serializer: Final = Option(
        None,
        anything,
        "Converts keys to bytes: a callable, a Serializer, or the name of one, such as string or LongSerializer; "
        "None: keys are bytes, or str that is encoded as UTF-8.",
    )
    value_serializer: Final = Option(
        None,
        anything,
        "Converts values to bytes: a callable, a Serializer, or the name of one, such as string or LongSerializer; "
        "None: values are bytes, or str that is encoded as UTF-8.",
    )
    serializer_encoding: Final = Option(
        None,
        nullable(text),
        "Encoding of the String and UUID serializers, such as utf-16; None: UTF-8. key.serializer.encoding and "
        "value.serializer.encoding take precedence.",
    )
    key_serializer_encoding: Final = Option(
        None,
        nullable(text),
        "Encoding of keys, if key.serializer is the String or UUID serializer; None: serializer.encoding.",
    )
    value_serializer_encoding: Final = Option(
        None,
        nullable(text),
        "Encoding of values, if value.serializer is the String or UUID serializer; None: serializer.encoding.",
    )
    default_list_key_serde_inner: Final = Option(
        None,
        anything,
        "Serde of the elements of keys that are lists: an object, a class, or a name such as integer. Required if "
        "key.serializer is the List serializer and was created without a serde; otherwise it has no effect.",
    )
    default_list_value_serde_inner: Final = Option(
        None,
        anything,
        "Serde of the elements of values that are lists: an object, a class, or a name such as integer. Required if "
        "value.serializer is the List serializer and was created without a serde; otherwise it has no effect.",
    )
    acks: Final = Option(
        -1,
        acks,
        "Acknowledgements that the producer waits for: 0 (none, and no retries), 1 (that of the leader), or all or "
        "-1 (those of all in-sync replicas).",
    )
    enable_idempotence: Final = Option(
        True,
        boolean,
        "Whether the producer prevents duplicates and reordering when it retries batches. This requires acks=all, "
        "retries above 0, and max.in.flight.requests.per.connection of at most 5; otherwise idempotence is turned "
        "off, or an error is raised if enable.idempotence=true or transactional.id is set explicitly.",
    )
    transactional_id: Final = Option(
        None,
        nullable(named),
        "Id that identifies the producer's transactions across restarts: a new producer with the same id aborts the "
        "open transaction of the previous one, and fences it. None: no transactions.",
    )
    transaction_timeout_ms: Final = Option(
        60_000,
        integer(),
        "Time in milliseconds after which the coordinator aborts an open transaction; at most the broker's "
        "transaction.max.timeout.ms. It cannot be set together with transaction.two.phase.commit.enable=true.",
    )
    transaction_two_phase_commit_enable: Final = Option(
        False,
        boolean,
        "Whether transactions have no timeout, because an external coordinator decides their outcome (two-phase "
        "commit, KIP-939).",
    )
    compression_type: Final = Option(
        "none",
        one_of("none", "gzip", "snappy", "lz4", "zstd", aliases={None: "none"}),
        "Codec with which the producer compresses batches: none, gzip, snappy, lz4 or zstd.",
    )
    compression_gzip_level: Final = Option(
        -1,
        gzip_level,
        "Compression level of gzip, 1 (fastest) to 9 (smallest); -1: the codec's default. compression.level takes "
        "precedence.",
    )
    compression_lz4_level: Final = Option(
        9,
        integer(1, 17),
        "Compression level of lz4, 1 to 17, of which 1 and 2 count as 3; not set: the fast compressor, as in Kafka. "
        "compression.level takes precedence.",
    )
    compression_zstd_level: Final = Option(
        3,
        integer(-131_072, 22),
        "Compression level of zstd, -131072 (fastest) to 22 (smallest). compression.level takes precedence.",
    )
    compression_level: Final = Option(
        None,
        nullable(integer()),
        "Compression level of gzip, lz4 or zstd, whichever is in compression.type; it takes precedence over the "
        "codec's own config. None: the codec's own config applies.",
    )
    batch_size: Final = Option(
        16_384,
        integer(0),
        "Maximum size in bytes of a batch, before compression; a larger record gets a separate batch. 0: every "
        "record gets a separate batch. send_batch() makes batches of up to 256 KiB if this is less.",
    )
    linger_ms: Final = Option(
        5.0,
        number(0),
        "Maximum time in milliseconds that a batch waits for more records; a full batch does not wait. A higher "
        "value leads to larger batches and higher latency.",
    )
    buffer_memory: Final = Option(
        33_554_432,
        integer(0),
        "Maximum memory in bytes for records that have not been acknowledged; when it is used up, send() waits for "
        "up to max.block.ms.",
    )
    max_block_ms: Final = Option(
        60_000,
        integer(0),
        "Maximum time in milliseconds that send() and partitions_for() wait for metadata and memory, and that "
        "methods of transactions wait for each response of a coordinator. For the former, block.on.buffer.full and "
        "metadata.fetch.timeout.ms take precedence.",
    )
    block_on_buffer_full: Final = Option(
        False,
        boolean,
        "Deprecated since Kafka 0.9: with true, send() waits for metadata and memory without a limit, whatever "
        "max.block.ms and metadata.fetch.timeout.ms are.",
    )
    metadata_fetch_timeout_ms: Final = Option(
        None,
        nullable(integer(0)),
        "Older name of max.block.ms, from Kafka before 0.11. If it is set, send() ignores max.block.ms, but "
        "block.on.buffer.full=true takes precedence.",
    )
    timeout_ms: Final = Option(
        None,
        nullable(integer(0)),
        "Option of Kafka before 0.11: with acks=all, the maximum time in milliseconds that a leader waits for the "
        "in-sync replicas; None: request.timeout.ms.",
    )
    max_request_size: Final = Option(
        1_048_576,
        integer(0),
        "Maximum size in bytes of a record, before compression, and of a request with several batches; a larger "
        "record fails with MessageTooLargeError.",
    )
    max_in_flight_requests_per_connection: Final = Option(
        5,
        integer(1),
        "Maximum number of unacknowledged produce requests per broker; at most 5 with idempotence. Without "
        "idempotence, more than 1 may reorder batches when one is retried.",
    )
    retries: Final = Option(
        MAX_INT,
        integer(0),
        "Maximum number of retries of a batch; usually delivery.timeout.ms ends them earlier. With acks=0 a batch is"
        " never retried.",
    )
    delivery_timeout_ms: Final = Option(
        120_000,
        integer(0),
        "Time in milliseconds after the creation of a batch within which it must be acknowledged, retries included; "
        "otherwise its records fail. A value below linger.ms + request.timeout.ms is an error; if only the default "
        "is below, it is raised to that.",
    )
    partitioner: Final = Option(
        "default",
        partitioner_of,
        "Chooses the partition of records that name none: default (by the key, if there is one), sticky, roundrobin "
        "or random (regardless of the key), the name of Java's class for one of them, a callable, an object with a "
        "method partition(), or the dotted name of either.",
    )
    partitioner_class: Final = Option(
        None,
        nullable(partitioner_of),
        "Kafka's name for the option partitioner, with the same values, and with precedence over it; None: "
        "partitioner applies.",
    )
    partitioner_ignore_keys: Final = Option(
        False,
        boolean,
        "Whether the default partitioner distributes records with keys as if they had none; no effect with other "
        "partitioners.",
    )
    partitioner_adaptive_partitioning_enable: Final = Option(
        True,
        boolean,
        "Whether the default and sticky partitioners choose partitions with many queued batches less often, so that "
        "slow brokers get fewer records. It does not affect records whose partition follows from the key.",
    )
    partitioner_availability_timeout_ms: Final = Option(
        0,
        integer(0),
        "Time in milliseconds for which batches must have been ready without being sent to a broker before the "
        "default and sticky partitioners avoid its partitions; 0: disabled. Requires "
        "partitioner.adaptive.partitioning.enable, and does not affect records whose partition follows from the key.",
    )
    interceptor_classes: Final = Option(
        (),
        each(loaded),
        "Interceptors of records and of their acknowledgements, as classes, objects or dotted names, in the order in"
        " which they are called.",
    )
    enable_metrics_push: Final = Option(
        True,
        boolean,
        "Whether the producer pushes its metrics to the cluster, if the cluster has a subscription for them (KIP-714).",
    )
    metadata_max_idle_ms: Final = Option(
        300_000,
        integer(5000),
        "Time in milliseconds without records for a topic after which the producer no longer requests the metadata "
        "of this topic.",
    )

    receive_buffer_bytes: Option[int] = Option(
        32_768, integer(-1), "Size in bytes of the socket's receive buffer (SO_RCVBUF); -1: the system's default."
    )

    @property
    def codec_level(self) -> int | None:
        """The compression level of the configured codec; None for its default."""
        if self.compression_level is not None:
            return self.compression_level
        option = f"compression.{self.compression_type}.level"
        level: int | None = self.values[option] if option in self.originals else None
        return None if self.compression_type == "gzip" and level == -1 else level

    @property
    def chosen_partitioner(self) -> Any:
        """The partitioner, from either of its two options."""
        return self.partitioner if self.partitioner_class is None else self.partitioner_class

    @property
    def longest_block_ms(self) -> int:
        """The maximum time in milliseconds that send() may block: ten years with block.on.buffer.full, otherwise
        metadata.fetch.timeout.ms or, if that is not set, max.block.ms.
        """
        if self.block_on_buffer_full:
            return FOR_EVER_MS
        old = self.metadata_fetch_timeout_ms
        return self.max_block_ms if old is None else old

    @property
    def replication_timeout_ms(self) -> int:
        """The time in milliseconds for which the leader may wait for the in-sync replicas."""
        return self.request_timeout_ms if self.timeout_ms is None else self.timeout_ms

    def idempotence_conflicts(self) -> list[tuple[str, Any, str]]:
        """Return the options that conflict with idempotence and transactions: (option, value, allowed values)."""
        unfit = {
            "acks": (self.acks != -1, "all"),
            "retries": (self.retries <= 0, "more than 0"),
            "max.in.flight.requests.per.connection": (self.max_in_flight_requests_per_connection > 5, "at most 5"),
        }
        return [(name, self.values[name], allowed) for name, (is_unfit, allowed) in unfit.items() if is_unfit]

    def check(self) -> None:
        """Raise ConfigurationError if options contradict each other.

        If acks, retries or max.in.flight.requests.per.connection conflict with idempotence, and neither idempotence nor
        transactions are requested explicitly, turn it off, as in Java. If only the default of delivery.timeout.ms is
        too low, increase it.
        """
        conflicts = self.idempotence_conflicts()
        feature = "transactional.id" if self.transactional_id is not None else "enable.idempotence"
        if self.enable_idempotence and conflicts:
            listed = ", ".join(f"{option}={value}" for option, value, _ in conflicts)
            if feature in self.originals:
                remedies = ", ".join(f"set {option} to {allowed}" for option, _, allowed in conflicts)
                raise ConfigurationError(f"{listed} cannot be used with {feature}: {remedies}, or leave it out")
            log.info(
                "Idempotence is disabled, because it cannot be used with %s; a retry may write records twice", listed
            )
            self.values["enable.idempotence"] = False
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigurationError("transactional.id needs enable.idempotence")
        if self.transaction_two_phase_commit_enable and "transaction.timeout.ms" in self.originals:
            raise ConfigurationError(
                "transaction.timeout.ms cannot be set with transaction.two.phase.commit.enable: such transactions have "
                "no timeout"
            )
        least = self.request_timeout_ms + int(self.linger_ms)
        if self.delivery_timeout_ms < least:
            if "delivery.timeout.ms" in self.originals:
                raise ConfigurationError(
                    f"delivery.timeout.ms: {self.delivery_timeout_ms} is not allowed: it must be at least"
                    f" linger.ms + request.timeout.ms, which is {least}"
                )
            log.warning(
                "Raising delivery.timeout.ms from %d to %d, because it must be at least linger.ms + request.timeout.ms",
                self.delivery_timeout_ms,
                least,
            )
            self.values["delivery.timeout.ms"] = least
