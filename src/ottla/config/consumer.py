"""The consumer's options: Kafka's, mostly with its defaults and bounds, and some of kafka-python."""

from __future__ import annotations

from typing import Any, Final

from ottla.config.client import (
    ClientConfig,
    absent,
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
from ottla.config.options import Option, reset_policy
from ottla.errors import ConfigurationError

ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
"""Java's assignors and their equivalents."""


def assignor(value: Any) -> Any:
    """Parse an assignor: its name, its Java class, the object, or the dotted name of a class."""
    if isinstance(value, str):
        name = ASSIGNORS.get(value.strip(), value.strip())
        return name if name in ASSIGNORS.values() else loaded(name)
    return value


CLASSIC_ONLY: Final = ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms")
CONSUMER_ONLY: Final = ("group.remote.assignor",)
"""CLASSIC_ONLY and CONSUMER_ONLY: options that are rejected with the other group.protocol, as in Java."""


NO_EFFECT: Final = {
    "internal.leave.group.on.close": "close() has a parameter for it",
    "internal.throw.on.fetch.stable.offset.unsupported": "brokers without stable offsets return the committed ones",
    "max.in.flight.requests.per.connection": "one fetch is on its way to each broker",
    "metric.group.prefix": "groups of metrics have Kafka's names",
    "receive.message.max.bytes": "a response may have 512 MiB",
}


class ConsumerConfig(ClientConfig, subject="consumer", no_effect=NO_EFFECT):
    """Options of a consumer."""

    group_id: Final = Option(
        None,
        nullable(text),
        "Consumer group, whose members share the partitions and the committed offsets; None: no group.",
    )
    group_protocol: Final = Option(
        "classic",
        one_of("classic", "consumer"),
        "Protocol of the group: consumer (the broker assigns partitions, KIP-848) or classic (a member does).",
    )
    group_remote_assignor: Final = Option(
        None, nullable(text), "Server-side assignor for group.protocol=consumer; None: the broker's default."
    )
    group_instance_id: Final = Option(
        None,
        nullable(text),
        "Id of a static member, which may restart within the session timeout without a rebalance; None: a dynamic "
        "member.",
    )
    key_deserializer: Final = Option(
        None, anything, "Converts keys from bytes: a callable or a Deserializer; None: keys stay bytes."
    )
    value_deserializer: Final = Option(
        None, anything, "Converts values from bytes: a callable or a Deserializer; None: values stay bytes."
    )
    receive_buffer_bytes: Option[int] = Option(
        -1,
        absent(-1, integer(-1)),
        "SO_RCVBUF in bytes; -1: the system's default, which grows with the connection. Java's default is 65536, which "
        "takes more CPU, and limits a connection to 64 KiB per round trip.",
    )
    fetch_min_bytes: Final = Option(
        1, integer(0), "Minimum bytes of a fetch response; the broker waits for them for up to fetch.max.wait.ms."
    )
    fetch_max_wait_ms: Final = Option(
        500, integer(0), "Maximum time in milliseconds that the broker waits for fetch.min.bytes."
    )
    fetch_max_bytes: Final = Option(
        52_428_800,
        integer(0),
        "Maximum bytes of a fetch response; a larger first batch is returned nevertheless.",
    )
    max_partition_fetch_bytes: Final = Option(
        1_048_576,
        integer(0),
        "Maximum bytes of one partition in a fetch response; a larger first batch is returned nevertheless.",
    )
    auto_offset_reset: Final = Option(
        "latest",
        reset_policy("latest", "earliest", "none", aliases={"smallest": "earliest", "largest": "latest"}),
        "Position if there is no valid committed offset: latest, earliest, none (raise an error) or "
        "by_duration:PT1H (the first record of the last hour).",
    )
    enable_auto_commit: Final = Option(
        True, boolean, "Commit offsets automatically, in poll() and close(). Without group.id it is off."
    )
    auto_commit_interval_ms: Final = Option(5000, integer(0), "Interval in milliseconds between automatic commits.")
    max_poll_records: Final = Option(500, integer(1), "Maximum number of records that poll() returns.")
    max_poll_interval_ms: Final = Option(
        300_000, integer(1), "Maximum time in milliseconds between calls of poll(); a slower member leaves the group."
    )
    session_timeout_ms: Final = Option(
        45_000,
        integer(1),
        "Time in milliseconds without a heartbeat after which the broker removes the member from a classic group.",
    )
    heartbeat_interval_ms: Final = Option(
        3000,
        integer(1),
        "Interval in milliseconds between heartbeats to a classic group; at most a third of session.timeout.ms is "
        "recommended.",
    )
    partition_assignment_strategy: Final = Option(
        ("range", "cooperative-sticky"),
        each(assignor),
        "Assignors of a classic group, in order of preference: names or classes.",
    )
    isolation_level: Final = Option(
        "read_uncommitted",
        one_of("read_uncommitted", "read_committed", aliases={0: "read_uncommitted", 1: "read_committed"}),
        "read_committed skips records of aborted transactions and waits for open ones to end; read_uncommitted returns "
        "all records.",
    )
    max_decompressed_batch_bytes: Final = Option(
        268_435_456,
        integer(1),
        "Maximum size in bytes of a batch after decompression; poll() raises CorruptBatchError for a larger one.",
    )
    check_crcs: Final = Option(True, boolean, "Verify the checksum of each batch.")
    client_rack: Final = Option(
        "", text, "The consumer's rack or availability zone, to fetch from the nearest replica; empty: from the leader."
    )
    exclude_internal_topics: Final = Option(
        True, boolean, "Whether a subscription by pattern leaves out internal topics."
    )
    default_api_timeout_ms: Final = Option(
        60_000, integer(0), "Timeout in milliseconds of methods that are called without one."
    )
    default_offset_commit_callback: Final = Option(
        None,
        nullable(anything),
        "Option of kafka-python: a function that is called with (offsets, error) after commits without a callback.",
    )
    enable_incremental_fetch_sessions: Final = Option(
        True,
        boolean,
        "Option of kafka-python: use fetch sessions (KIP-227); otherwise every request names every partition.",
    )
    consumer_timeout_ms: Final = Option(
        float("inf"),
        number(0),
        "Option of kafka-python: end an iteration after this time in milliseconds without a record; inf: never.",
    )
    enable_metrics_push: Final = Option(
        True, boolean, "Push metrics to the cluster if it has a subscription for them (KIP-714)."
    )
    interceptor_classes: Final = Option(
        (), each(loaded), "Interceptors, as classes or objects, in the order in which they are called."
    )

    def check(self) -> None:
        """Raise ConfigurationError if options contradict each other. Without group.id, turn enable.auto.commit off."""
        refused = CLASSIC_ONLY if self.group_protocol == "consumer" else CONSUMER_ONLY
        for key in refused:
            if self.originals.get(key) is not None:
                raise ConfigurationError(f"{key} cannot be set when group.protocol is {self.group_protocol}")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigurationError("heartbeat.interval.ms must be less than session.timeout.ms")
        if not self.partition_assignment_strategy:
            raise ConfigurationError("partition.assignment.strategy needs at least one assignor")
        if self.group_id is None:
            self.values["enable.auto.commit"] = False
