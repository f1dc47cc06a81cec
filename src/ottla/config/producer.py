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
"""Java's partitioners and their equivalents."""


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
        "Converts keys to bytes: a callable or a Serializer; None: keys are bytes, or str, encoded as UTF-8.",
    )
    value_serializer: Final = Option(
        None,
        anything,
        "Converts values to bytes: a callable or a Serializer; None: values are bytes, or str, encoded as UTF-8.",
    )
    serializer_encoding: Final = Option(
        None, nullable(text), "Encoding of the String and UUID serializers; UTF-8 by default."
    )
    key_serializer_encoding: Final = Option(
        None, nullable(text), "Encoding of the serializer of keys; takes precedence over serializer.encoding."
    )
    value_serializer_encoding: Final = Option(
        None, nullable(text), "Encoding of the serializer of values; takes precedence over serializer.encoding."
    )
    default_list_key_serde_inner: Final = Option(None, anything, "Serde of the items of keys, for the List serializer.")
    default_list_value_serde_inner: Final = Option(
        None, anything, "Serde of the items of values, for the List serializer."
    )
    acks: Final = Option(
        -1, acks, "Acknowledgements to wait for: 0 (none), 1 (the leader), or all or -1 (every in-sync replica)."
    )
    enable_idempotence: Final = Option(
        True,
        boolean,
        "Prevent duplicates and reordering when batches are retried. Requires acks=all, retries above 0, and "
        "max.in.flight.requests.per.connection of at most 5. With other values it is turned off; if it or "
        "transactional.id is set, that is an error.",
    )
    transactional_id: Final = Option(
        None,
        nullable(named),
        "Id of the producer for transactions. Use the same id after a restart; None: no transactions.",
    )
    transaction_timeout_ms: Final = Option(
        60_000,
        integer(),
        "Time in milliseconds after which the coordinator aborts an open transaction. Cannot be set with "
        "transaction.two.phase.commit.enable.",
    )
    transaction_two_phase_commit_enable: Final = Option(
        False, boolean, "Begin transactions without a timeout, whose outcome an external coordinator decides (KIP-939)."
    )
    compression_type: Final = Option(
        "none",
        one_of("none", "gzip", "snappy", "lz4", "zstd", aliases={None: "none"}),
        "Codec of batches: none, gzip, snappy, lz4 or zstd.",
    )
    compression_gzip_level: Final = Option(
        -1, gzip_level, "Compression level of gzip, 1 to 9; -1: the codec's default."
    )
    compression_lz4_level: Final = Option(
        9, integer(1, 17), "Compression level of lz4, 1 to 17; not set: the fast compressor, as in Kafka."
    )
    compression_zstd_level: Final = Option(3, integer(-131_072, 22), "Compression level of zstd, -131072 to 22.")
    compression_level: Final = Option(
        None,
        nullable(integer()),
        "Compression level of whichever codec is used; takes precedence over the codec's own config.",
    )
    batch_size: Final = Option(
        16_384,
        integer(0),
        "Maximum size in bytes of a batch, before compression; a larger record gets a separate batch. 0: no batching.",
    )
    linger_ms: Final = Option(
        5.0,
        number(0),
        "Maximum time in milliseconds that a batch waits for more records. More: larger batches, higher latency.",
    )
    buffer_memory: Final = Option(
        33_554_432, integer(0), "Maximum memory in bytes of records that wait to be sent; beyond it send() blocks."
    )
    max_block_ms: Final = Option(
        60_000,
        integer(0),
        "Maximum time in milliseconds that send() waits for metadata and memory, and methods of transactions for the "
        "brokers. block.on.buffer.full and metadata.fetch.timeout.ms take precedence.",
    )
    block_on_buffer_full: Final = Option(
        False, boolean, "Deprecated since Kafka 0.9: true lets send() block without a limit."
    )
    metadata_fetch_timeout_ms: Final = Option(
        None, nullable(integer(0)), "Older name of max.block.ms, from Kafka before 0.11; it takes precedence."
    )
    timeout_ms: Final = Option(
        None,
        nullable(integer(0)),
        "Option of Kafka before 0.11: maximum time in milliseconds that a leader waits for replicas; by default "
        "request.timeout.ms.",
    )
    max_request_size: Final = Option(1_048_576, integer(0), "Maximum size in bytes of a record and of a request.")
    max_in_flight_requests_per_connection: Final = Option(
        5, integer(1), "Maximum number of unacknowledged requests per broker; at most 5 with idempotence."
    )
    retries: Final = Option(
        MAX_INT, integer(0), "Maximum number of retries of a batch; delivery.timeout.ms usually ends them earlier."
    )
    delivery_timeout_ms: Final = Option(
        120_000,
        integer(0),
        "Maximum time in milliseconds between send() and the acknowledgement or failure of a record; at least "
        "linger.ms + request.timeout.ms.",
    )
    partitioner: Final = Option(
        "default",
        partitioner_of,
        "Chooses the partition: default, sticky, roundrobin or random, the name of Java's class for one of them, a "
        "callable, an object with a method partition(), or the dotted name of either.",
    )
    partitioner_class: Final = Option(
        None,
        nullable(partitioner_of),
        "Kafka's name for partitioner, over which it takes precedence; the names of Java's classes are accepted.",
    )
    partitioner_ignore_keys: Final = Option(False, boolean, "Distribute records with keys as if they had none.")
    partitioner_adaptive_partitioning_enable: Final = Option(
        True, boolean, "Send fewer records without keys to slow partitions."
    )
    partitioner_availability_timeout_ms: Final = Option(
        0,
        integer(0),
        "Time in milliseconds after which a broker that accepts no batches gets no records without keys; 0: disabled. "
        "Requires partitioner.adaptive.partitioning.enable.",
    )
    interceptor_classes: Final = Option(
        (), each(loaded), "Interceptors, as classes or objects, in the order in which they are called."
    )
    enable_metrics_push: Final = Option(
        True, boolean, "Push metrics to the cluster if it has a subscription for them (KIP-714)."
    )
    metadata_max_idle_ms: Final = Option(
        300_000, integer(5000), "Time in milliseconds after which the metadata of an unused topic is dropped."
    )

    receive_buffer_bytes: Option[int] = Option(32_768, integer(-1), "SO_RCVBUF in bytes; -1: the system's default.")

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
                "Idempotence is disabled, because it cannot be used with %s; retries may write records twice", listed
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
