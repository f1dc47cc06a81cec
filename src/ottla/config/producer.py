"""The producer's options: Kafka's names, defaults and bounds."""

from __future__ import annotations

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
)
from ottla.config.options import Option
from ottla.errors import ConfigurationError

ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}

FOR_EVER_MS = 10 * 365 * 24 * 3600 * 1000

PARTITIONERS = {
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "sticky",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "roundrobin",
}
"""Java's partitioners and what stands for them."""


def acks(value: Any) -> int:
    """0, 1 or all."""
    found = ACKS.get(str(value).strip().lower())
    if found is None or isinstance(value, bool):
        raise ValueError("0, 1 or all is wanted")
    return found


def partitioner(value: Any) -> Any:
    """A name of ours, a Java class, something callable or the dotted name of it; None: the default one."""
    if value is None:
        return "default"
    if isinstance(value, str):
        name = PARTITIONERS.get(value.strip(), value.strip())
        return name if name in PARTITIONERS.values() else loaded(name)
    return value


class ProducerConfig(ClientConfig, subject="producer"):
    """Options of a producer."""

    key_serializer = Option(None, anything, "Makes bytes of keys: a callable or a Serializer; None: bytes and text.")
    value_serializer = Option(
        None, anything, "Makes bytes of values: a callable or a Serializer; None: bytes and text."
    )
    acks = Option(-1, acks, "Acknowledgements to wait for: 0, 1 (the leader's) or all (every in-sync replica's).")
    enable_idempotence = Option(True, boolean, "No duplicates and no reordering when batches are sent again.")
    transactional_id = Option(None, anything, "Names the producer across restarts, for transactions.")
    transaction_timeout_ms = Option(60_000, integer(1), "A transaction open for longer is aborted by the broker.")
    compression_type = Option(
        "none",
        one_of("none", "gzip", "snappy", "lz4", "zstd", aliases={None: "none"}),
        "How batches are compressed.",
    )
    compression_level = Option(None, nullable(integer()), "The codec's level; None: its default.")
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
    partitioner = Option("default", partitioner, "Chooses the partition: default, sticky, roundrobin or a callable.")
    partitioner_ignore_keys = Option(False, boolean, "Spread records with keys as if they had none.")
    partitioner_adaptive_partitioning_enable = Option(True, boolean, "Give slow partitions fewer keyless records.")
    interceptor_classes = Option((), each(loaded), "Interceptors, as classes or objects, in order.")
    metadata_max_idle_ms = Option(300_000, integer(5000), "A topic not sent to for longer is forgotten.")

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

    def check(self) -> None:
        """Idempotence wants acks=all and at most 5 requests in flight; who set otherwise turns it off, as in Java."""
        fits = self.acks == -1 and self.max_in_flight_requests_per_connection <= 5 and self.retries > 0
        asked = "enable.idempotence" in self.given or self.transactional_id is not None
        if self.enable_idempotence and not fits:
            if asked:
                raise ConfigurationError(
                    "enable.idempotence needs acks=all, retries above 0 and"
                    " max.in.flight.requests.per.connection of at most 5"
                )
            self.values["enable.idempotence"] = False
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigurationError("transactional.id needs enable.idempotence")
        least = self.request_timeout_ms + int(self.linger_ms)
        if self.delivery_timeout_ms < least:
            if "delivery.timeout.ms" in self.given:
                raise ConfigurationError(
                    f"delivery.timeout.ms: {self.delivery_timeout_ms} is not allowed: it must be at least"
                    f" linger.ms + request.timeout.ms, which is {least}"
                )
            self.values["delivery.timeout.ms"] = least
