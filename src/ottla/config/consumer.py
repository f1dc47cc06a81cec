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
        "Consumer group, whose members share the partitions and the committed offsets; None: no group, so that "
        "subscribe() assigns all partitions of the topics to the consumer, and offsets cannot be committed. A share "
        "consumer requires a group.",
    )
    group_protocol: Final = Option(
        "classic",
        one_of("classic", "consumer"),
        "Protocol of the group: classic (a member assigns the partitions) or consumer (the broker does, KIP-848).",
    )
    group_remote_assignor: Final = Option(
        None,
        nullable(text),
        "Name of the broker's assignor that this member requests, for group.protocol=consumer; the group uses the one "
        "that most members request. None: no request; if no member requests one, the group uses the first of "
        "group.consumer.assignors.",
    )
    group_instance_id: Final = Option(
        None,
        nullable(text),
        "Id of a static member, which may restart within the session timeout without a rebalance; it must be unique "
        "in the group. None: a dynamic member.",
    )
    key_deserializer: Final = Option(
        None,
        anything,
        "Converts keys from bytes: a callable, a Deserializer, or the name of one, such as string or "
        "LongDeserializer; None: keys stay bytes.",
    )
    value_deserializer: Final = Option(
        None,
        anything,
        "Converts values from bytes: a callable, a Deserializer, or the name of one, such as string or "
        "LongDeserializer; None: values stay bytes.",
    )
    receive_buffer_bytes: Option[int] = Option(
        -1,
        absent(-1, integer(-1)),
        "Size in bytes of the socket's receive buffer (SO_RCVBUF); -1: the system's default, which grows with the "
        "connection. Java's default is 65536, which takes more CPU, and limits a connection to 64 KiB per round "
        "trip.",
    )
    fetch_min_bytes: Final = Option(
        1,
        integer(0),
        "Minimum number of bytes for which the broker waits before it responds to a fetch; it waits no longer than "
        "fetch.max.wait.ms.",
    )
    fetch_max_wait_ms: Final = Option(
        500,
        integer(0),
        "Maximum time in milliseconds that the broker waits for fetch.min.bytes before it responds to a fetch.",
    )
    fetch_max_bytes: Final = Option(
        52_428_800,
        integer(0),
        "Maximum bytes of a fetch response, limited also by the broker's fetch.max.bytes; a larger first batch is "
        "returned nevertheless. The consumer stops fetching while it has as many bytes that poll() has not returned.",
    )
    max_partition_fetch_bytes: Final = Option(
        1_048_576,
        integer(0),
        "Maximum bytes of one partition in a fetch response; a larger batch is returned nevertheless if it is the "
        "first of the response.",
    )
    auto_offset_reset: Final = Option(
        "latest",
        reset_policy("latest", "earliest", "none", aliases={"smallest": "earliest", "largest": "latest"}),
        "Position at which to start if a partition has no committed offset, or the position is out of range: latest, "
        "earliest, by_duration:PT1H (at the first record of the last hour), or none (poll() raises an error).",
    )
    enable_auto_commit: Final = Option(
        True,
        boolean,
        "Whether the consumer commits its positions automatically: every auto.commit.interval.ms in poll(), before "
        "partitions are revoked, and in close(). Without group.id it is off.",
    )
    auto_commit_interval_ms: Final = Option(
        5000,
        integer(0),
        "Interval in milliseconds between the automatic commits that poll() makes with enable.auto.commit; after a "
        "retriable error, poll() commits again after retry.backoff.ms.",
    )
    max_poll_records: Final = Option(
        500,
        integer(1),
        "Maximum number of records that a call of poll() returns, unless it has an argument max_records.",
    )
    max_poll_interval_ms: Final = Option(
        300_000,
        integer(1),
        "Maximum time in milliseconds between calls of poll(). After that, a dynamic member leaves the group; a "
        "static member stops its heartbeats, so that the broker removes it after the session timeout. It is also the"
        " member's rebalance timeout.",
    )
    session_timeout_ms: Final = Option(
        45_000,
        integer(1),
        "Time in milliseconds without a heartbeat after which the broker removes the member from a classic group. It"
        " cannot be set with group.protocol=consumer, for which the broker determines it.",
    )
    heartbeat_interval_ms: Final = Option(
        3000,
        integer(1),
        "Interval in milliseconds between heartbeats to a classic group; it must be less than session.timeout.ms, "
        "and at most a third of it is recommended. It cannot be set with group.protocol=consumer.",
    )
    partition_assignment_strategy: Final = Option(
        ("range", "cooperative-sticky"),
        each(assignor),
        "Assignors of a classic group in order of preference, as names (range, roundrobin, sticky, "
        "cooperative-sticky), Java's names, classes or objects. It cannot be set with group.protocol=consumer.",
    )
    isolation_level: Final = Option(
        "read_uncommitted",
        one_of("read_uncommitted", "read_committed", aliases={0: "read_uncommitted", 1: "read_committed"}),
        "read_committed: the consumer skips records of aborted transactions, and reads only up to the first open "
        "transaction; read_uncommitted: it returns all records.",
    )
    max_decompressed_batch_bytes: Final = Option(
        268_435_456,
        integer(1),
        "Maximum size in bytes of a batch after decompression; poll() raises CorruptBatchError for a larger one.",
    )
    check_crcs: Final = Option(
        True,
        boolean,
        "Whether the consumer verifies the checksum of each batch; poll() raises CorruptBatchError if it is wrong.",
    )
    client_rack: Final = Option(
        "",
        text,
        "The consumer's rack or availability zone. With replica.selector.class=RackAwareReplicaSelector on the "
        "brokers, the consumer fetches from an in-sync replica in the same rack if there is one. Empty: always from "
        "the leader.",
    )
    exclude_internal_topics: Final = Option(
        True,
        boolean,
        "Whether a subscription by a regular expression that the client evaluates leaves out internal topics such as"
        " __consumer_offsets; no effect on a SubscriptionPattern, which the broker evaluates.",
    )
    default_api_timeout_ms: Final = Option(
        60_000, integer(0), "Timeout in milliseconds of methods, other than poll(), that are called without one."
    )
    default_offset_commit_callback: Final = Option(
        None,
        nullable(anything),
        "Option of kafka-python: a function that is called as function(offsets, error) after automatic commits in "
        "poll() and after commit_async() without a callback; None: none is called.",
    )
    enable_incremental_fetch_sessions: Final = Option(
        True,
        boolean,
        "Option of kafka-python: whether the consumer uses fetch sessions (KIP-227), in which a request names only "
        "partitions that have changed; otherwise every request names every partition.",
    )
    consumer_timeout_ms: Final = Option(
        float("inf"),
        number(0),
        "Option of kafka-python: time in milliseconds without a record after which an iteration over the consumer "
        "ends; inf: never.",
    )
    enable_metrics_push: Final = Option(
        True,
        boolean,
        "Whether the consumer pushes its metrics to the cluster, if the cluster has a subscription for them (KIP-714).",
    )
    interceptor_classes: Final = Option(
        (),
        each(loaded),
        "Interceptors of records and of commits, as classes, objects or dotted names, in the order in which they are"
        " called.",
    )

    def check(self) -> None:
        """Raise ConfigurationError if options contradict each other, or partition.assignment.strategy is empty.

        Without group.id, turn enable.auto.commit off.
        """
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
