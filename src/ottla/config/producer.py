"""The producer's options: Kafka's names, defaults and bounds."""

from __future__ import annotations

import logging
from typing import Any

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
from ottla.config.options import Option
from ottla.errors import ConfigurationError

log = logging.getLogger("ottla.config")

ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}

FOR_EVER_MS = 10 * 365 * 24 * 3600 * 1000

PARTITIONERS = {
    "random": "random",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "sticky",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "roundrobin",
}
"""Java's partitioners and what stands for them."""


def acks(value: Any) -> int:
    """0, 1 or all."""
    number = ACKS.get(str(value).strip().lower())
    if number is None or isinstance(value, bool):
        raise ValueError("0, 1 or all is wanted")
    return number


def partitioner_of(value: Any) -> Any:
    """A name of ours, a Java class, something callable or the dotted name of it; None: the default one."""
    if value is None:
        return "default"
    if isinstance(value, str):
        name = PARTITIONERS.get(value.strip(), value.strip())
        return name if name in PARTITIONERS.values() else loaded(name)
    return value


def named(value: Any) -> str:
    """A text that is not empty."""
    name = text(value)
    if not name:
        raise ValueError("it must not be empty")
    return name


def gzip_level(value: Any) -> int:
    """-1 or 1 to 9: level 0 is no compression, which another option is for."""
    level = integer(-1, 9)(value)
    if level == 0:
        raise ValueError("-1 or 1 to 9 is wanted")
    return level


class ProducerConfig(ClientConfig, subject="producer"):
    """Options of a producer."""

    key_serializer = Option(None, anything, "Makes bytes of keys: a callable or a Serializer; None: bytes and text.")
    value_serializer = Option(
        None, anything, "Makes bytes of values: a callable or a Serializer; None: bytes and text."
    )
    serializer_encoding = Option(None, nullable(text), "Encoding of text for the String and UUID serializers; UTF-8.")
    key_serializer_encoding = Option(None, nullable(text), "The same for keys only.")
    value_serializer_encoding = Option(None, nullable(text), "The same for values only.")
    default_list_key_serde_inner = Option(None, anything, "What is in lists that are keys, for the List serializer.")
    default_list_value_serde_inner = Option(
        None, anything, "What is in lists that are values, for the List serializer."
    )
    acks = Option(-1, acks, "Acknowledgements to wait for: 0, 1 (the leader's) or all (every in-sync replica's).")
    enable_idempotence = Option(True, boolean, "No duplicates and no reordering when batches are sent again.")
    transactional_id = Option(None, nullable(named), "Names the producer across restarts, for transactions.")
    transaction_timeout_ms = Option(60_000, integer(), "A transaction open for longer is aborted by the broker.")
    transaction_two_phase_commit_enable = Option(
        False, boolean, "Transactions never time out: somebody else decides on their end (KIP-939)."
    )
    compression_type = Option(
        "none",
        one_of("none", "gzip", "snappy", "lz4", "zstd", aliases={None: "none"}),
        "How batches are compressed.",
    )
    compression_gzip_level = Option(-1, gzip_level, "Level of gzip, 1 to 9; -1: the codec's.")
    compression_lz4_level = Option(9, integer(1, 17), "Level of lz4; the default is the fast compressor, as in Kafka.")
    compression_zstd_level = Option(3, integer(-131_072, 22), "Level of zstd.")
    compression_level = Option(None, nullable(integer()), "The level of whichever codec is used, over its own option.")
    batch_size = Option(16_384, integer(0), "Bytes of records that one batch holds, before compression.")
    linger_ms = Option(5.0, number(0), "How long a batch waits for company, in milliseconds.")
    buffer_memory = Option(33_554_432, integer(0), "Bytes of records that may wait; send() blocks beyond.")
    max_block_ms = Option(60_000, integer(0), "How long send() may wait for metadata and memory.")
    block_on_buffer_full = Option(False, boolean, "Until 0.11: send() waits for memory and metadata for ever.")
    metadata_fetch_timeout_ms = Option(
        None, nullable(integer(0)), "Until 0.11: how long send() may wait; today max.block.ms."
    )
    timeout_ms = Option(
        None, nullable(integer(0)), "Until 0.11: how long the leader waits for replicas; today request.timeout.ms."
    )
    max_request_size = Option(1_048_576, integer(0), "The largest record, and the largest request.")
    max_in_flight_requests_per_connection = Option(5, integer(1), "Requests on the way to one broker.")
    retries = Option(MAX_INT, integer(0), "How often a batch is sent again; delivery.timeout.ms ends it before.")
    delivery_timeout_ms = Option(120_000, integer(0), "A record is delivered or failed within this, from send() on.")
    partitioner = Option(
        "default",
        partitioner_of,
        "Chooses the partition: default, sticky, roundrobin, random, or a callable or object.",
    )
    partitioner_class = Option(
        None, nullable(partitioner_of), "Kafka's name for partitioner; Java's classes are known."
    )
    partitioner_ignore_keys = Option(False, boolean, "Spread records with keys as if they had none.")
    partitioner_adaptive_partitioning_enable = Option(True, boolean, "Give slow partitions fewer keyless records.")
    partitioner_availability_timeout_ms = Option(
        0, integer(0), "A broker that takes nothing for so long gets no keyless records; 0: it does."
    )
    interceptor_classes = Option((), each(loaded), "Interceptors, as classes or objects, in order.")
    enable_metrics_push = Option(True, boolean, "Push metrics to the cluster, where it asks for some (KIP-714).")
    metadata_max_idle_ms = Option(300_000, integer(5000), "A topic not sent to for longer is forgotten.")

    receive_buffer_bytes = Option(32_768, integer(-1), "SO_RCVBUF; -1: the system's.")

    @property
    def codec_level(self) -> int | None:
        """The level of the codec that is used; None for its default."""
        if self.compression_level is not None:
            return self.compression_level
        option = f"compression.{self.compression_type}.level"
        level: int | None = self.values[option] if option in self.originals else None
        return None if self.compression_type == "gzip" and level == -1 else level

    @property
    def chosen_partitioner(self) -> Any:
        """The partitioner, whichever of its two options was used."""
        return self.partitioner if self.partitioner_class is None else self.partitioner_class

    @property
    def longest_block_ms(self) -> int:
        """How long send() may wait, whichever of its three options was used."""
        if self.block_on_buffer_full:
            return FOR_EVER_MS
        old = self.metadata_fetch_timeout_ms
        return self.max_block_ms if old is None else old

    @property
    def replication_timeout_ms(self) -> int:
        """How long the leader may wait for the in-sync replicas."""
        return self.request_timeout_ms if self.timeout_ms is None else self.timeout_ms

    def idempotence_conflicts(self) -> list[tuple[str, Any, str]]:
        """Return the options that idempotence cannot work with, nor transactions: (option, value, what is allowed)."""
        unfit = {
            "acks": (self.acks != -1, "all"),
            "retries": (self.retries <= 0, "more than 0"),
            "max.in.flight.requests.per.connection": (self.max_in_flight_requests_per_connection > 5, "at most 5"),
        }
        return [(name, self.values[name], allowed) for name, (is_unfit, allowed) in unfit.items() if is_unfit]

    def check(self) -> None:
        """Idempotence wants acks=all and at most 5 requests in flight; who set otherwise turns it off, as in Java."""
        conflicts = self.idempotence_conflicts()
        feature = "transactional.id" if self.transactional_id is not None else "enable.idempotence"
        if self.enable_idempotence and conflicts:
            listed = ", ".join(f"{option}={value}" for option, value, _ in conflicts)
            if feature in self.originals:
                remedies = ", ".join(f"set {option} to {allowed}" for option, _, allowed in conflicts)
                raise ConfigurationError(f"{listed} cannot be used with {feature}: {remedies}, or leave it out")
            log.info("enable.idempotence is off because of %s", listed)
            self.values["enable.idempotence"] = False
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigurationError("transactional.id needs enable.idempotence")
        if self.transaction_two_phase_commit_enable and "transaction.timeout.ms" in self.originals:
            raise ConfigurationError(
                "transaction.timeout.ms cannot be set with transaction.two.phase.commit.enable: such transactions last"
            )
        least = self.request_timeout_ms + int(self.linger_ms)
        if self.delivery_timeout_ms < least:
            if "delivery.timeout.ms" in self.originals:
                raise ConfigurationError(
                    f"delivery.timeout.ms: {self.delivery_timeout_ms} is not allowed: it must be at least"
                    f" linger.ms + request.timeout.ms, which is {least}"
                )
            log.warning("delivery.timeout.ms is %d: at least linger.ms + request.timeout.ms", least)
            self.values["delivery.timeout.ms"] = least
