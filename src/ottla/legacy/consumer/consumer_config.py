"""Configs of the 0.8 high-level consumer, with Kafka's names, defaults and limits."""

from __future__ import annotations

from typing import Any

from ottla.config.broker import zookeeper_address
from ottla.config.options import REQUIRED, Option, boolean, integer, nullable, one_of
from ottla.errors import ConfigurationError
from ottla.legacy.config import MAX_INT, LegacyConfig, client_id

KAFKA = "kafka"
ZOOKEEPER = "zookeeper"
RANGE = "range"
ROUND_ROBIN = "roundrobin"
SMALLEST = "smallest"


def path_name(value: Any) -> str:
    """Check a name that becomes part of znode paths: ASCII letters and digits, '.', '_' and '-'."""
    name = client_id(value)
    if not name:
        raise ValueError("must not be empty")
    return name


class ConsumerConfig(LegacyConfig, subject="0.8 consumer", prefixes=("external",)):
    """Configs of a 0.8 high-level consumer, as a mapping with Kafka's names or as keywords.

    ConsumerConfig({"zookeeper.connect": "localhost:2181", "group.id": "visits"})
    """

    group_id = Option(REQUIRED, path_name, "The group id; the partitions are assigned to its members.")
    zookeeper_connect = Option(
        REQUIRED,
        zookeeper_address,
        "ZooKeeper servers: host:port, separated by commas, with an optional chroot at the end.",
    )
    zookeeper_session_timeout_ms = Option(
        6_000,
        integer(1, MAX_INT),
        "ZooKeeper session timeout in ms, after which a silent member leaves the group.",
    )
    zookeeper_connection_timeout_ms = Option(
        None, nullable(integer(1, MAX_INT)), "Connection timeout of ZooKeeper in ms; None: the session timeout."
    )
    zookeeper_sync_time_ms = Option(
        2_000, integer(0, MAX_INT), "Time in ms that a ZooKeeper follower may lag behind its leader."
    )
    consumer_id = Option(
        None,
        nullable(path_name),
        "Second part of the member id, after the group id; None: host name, time in ms and eight hex digits.",
    )
    client_id = Option(None, nullable(client_id), "Client id for brokers' logs and quotas; None: the group id.")
    socket_timeout_ms = Option(30_000, integer(1, MAX_INT), "Connection and response timeout of a broker in ms.")
    socket_receive_buffer_bytes = Option(
        65_536, integer(-1, MAX_INT), "Size of the socket's receive buffer (SO_RCVBUF); -1: the system default."
    )
    fetch_message_max_bytes = Option(
        1_048_576, integer(1, MAX_INT), "Maximum bytes per partition in a fetch, and thereby the largest message."
    )
    fetch_min_bytes = Option(1, integer(0, MAX_INT), "Minimum bytes that a fetch waits for.")
    fetch_wait_max_ms = Option(100, integer(0, MAX_INT), "Maximum time in ms that a fetch waits.")
    num_consumer_fetchers = Option(1, integer(1, MAX_INT), "Number of fetcher threads per broker.")
    queued_max_message_chunks = Option(
        2, integer(1, MAX_INT), "Maximum number of fetched chunks in the queue of a stream."
    )
    refresh_leader_backoff_ms = Option(200, integer(0, MAX_INT), "Delay in ms before leaders are looked up again.")
    auto_commit_enable = Option(True, boolean, "Whether offsets are committed periodically.")
    auto_commit_interval_ms = Option(60_000, integer(1, MAX_INT), "Interval in ms between automatic commits.")
    auto_offset_reset: Option[str] = Option(
        "largest",
        one_of(SMALLEST, "largest"),
        "Where to start without a committed offset, or if it is out of range: smallest or largest.",
    )
    rebalance_max_retries = Option(4, integer(1, MAX_INT), "Maximum number of attempts to rebalance.")
    rebalance_backoff_ms = Option(
        None, nullable(integer(0, MAX_INT)), "Delay in ms between attempts to rebalance; None: zookeeper.sync.time.ms."
    )
    partition_assignment_strategy: Option[str] = Option(
        RANGE, one_of(RANGE, ROUND_ROBIN), "How partitions are assigned to members: range or roundrobin."
    )
    consumer_timeout_ms = Option(
        -1,
        integer(-1, MAX_INT),
        "Raise ConsumerTimeoutError if no message arrives for this time in ms; -1: wait for ever.",
    )
    exclude_internal_topics = Option(
        True, boolean, "Whether topic filters exclude internal topics such as __consumer_offsets."
    )
    offsets_storage: Option[str] = Option(
        ZOOKEEPER, one_of(ZOOKEEPER, KAFKA), "Where offsets are stored: zookeeper or kafka."
    )
    dual_commit_enabled = Option(
        None, nullable(boolean), "With offsets.storage=kafka, commit to ZooKeeper as well; None: yes."
    )
    offsets_channel_backoff_ms = Option(
        1_000, integer(0, MAX_INT), "Delay in ms before a request to the coordinator is repeated."
    )
    offsets_channel_socket_timeout_ms = Option(
        10_000, integer(1, MAX_INT), "Response timeout of the coordinator in ms."
    )
    offsets_commit_max_retries = Option(
        5, integer(0, MAX_INT), "Maximum number of retries of a commit, also at shutdown."
    )

    def check(self) -> None:
        """Raise ConfigurationError if the socket timeout is shorter than the wait of a fetch."""
        if self.fetch_wait_max_ms > self.socket_timeout_ms:
            raise ConfigurationError(
                f"socket.timeout.ms: {self.socket_timeout_ms} is not allowed: it must be at least"
                f" fetch.wait.max.ms, which is {self.fetch_wait_max_ms}"
            )

    @property
    def client(self) -> str:
        """The client id for brokers."""
        return self.group_id if self.client_id is None else self.client_id

    @property
    def connection_timeout_ms(self) -> int:
        """The connection timeout of ZooKeeper in milliseconds."""
        return self.zookeeper_connection_timeout_ms or self.zookeeper_session_timeout_ms

    @property
    def rebalance_pause(self) -> float:
        """The delay between attempts to rebalance, in seconds."""
        backoff_ms = self.rebalance_backoff_ms
        return (self.zookeeper_sync_time_ms if backoff_ms is None else backoff_ms) / 1000

    @property
    def in_zookeeper(self) -> bool:
        """Whether offsets are stored in ZooKeeper."""
        return self.offsets_storage == ZOOKEEPER or self.dual_commit_enabled is not False

    @property
    def in_kafka(self) -> bool:
        """Whether offsets are stored in Kafka, by the group's coordinator."""
        return self.offsets_storage == KAFKA
