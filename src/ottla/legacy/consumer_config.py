"""The 0.8 high-level consumer's options: Kafka's names, defaults and bounds."""

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
    """ASCII letters and digits, '.', '_' and '-': it becomes part of paths."""
    name = client_id(value)
    if not name:
        raise ValueError("it must not be empty")
    return name


class ConsumerConfig(LegacyConfig, subject="0.8 consumer", prefixes=("external",)):
    """Options of a high-level consumer of 0.8, as a mapping with Kafka's names or as keywords.

    ConsumerConfig({"zookeeper.connect": "localhost:2181", "group.id": "visits"})
    """

    group_id = Option(REQUIRED, path_name, "The group whose members divide the partitions.")
    zookeeper_connect = Option(
        REQUIRED, zookeeper_address, "ZooKeeper: host:port, several with commas, then a chroot or none."
    )
    zookeeper_session_timeout_ms = Option(
        6_000,
        integer(1, MAX_INT),
        "ZooKeeper session timeout in ms, after which a silent member leaves the group.",
    )
    zookeeper_connection_timeout_ms = Option(
        None, nullable(integer(1, MAX_INT)), "How long ZooKeeper may take to be reached; None: the session timeout."
    )
    zookeeper_sync_time_ms = Option(2_000, integer(0, MAX_INT), "How far a ZooKeeper server may be behind its leader.")
    consumer_id = Option(
        None, nullable(path_name), "The member's name behind the group's; None: host, milliseconds and eight digits."
    )
    client_id = Option(None, nullable(client_id), "Name in the brokers' logs and quotas; None: the group.")
    socket_timeout_ms = Option(30_000, integer(1, MAX_INT), "How long a broker may take to be reached, and to answer.")
    socket_receive_buffer_bytes = Option(65_536, integer(-1, MAX_INT), "SO_RCVBUF; -1: the system's.")
    fetch_message_max_bytes = Option(
        1_048_576, integer(1, MAX_INT), "Bytes of one partition in a fetch: no message may be larger."
    )
    fetch_min_bytes = Option(1, integer(0, MAX_INT), "A fetch waits for so many bytes.")
    fetch_wait_max_ms = Option(100, integer(0, MAX_INT), "A fetch waits no longer than this.")
    num_consumer_fetchers = Option(1, integer(1, MAX_INT), "Threads that fetch from each broker.")
    queued_max_message_chunks = Option(2, integer(1, MAX_INT), "Fetched chunks that wait for each stream.")
    refresh_leader_backoff_ms = Option(200, integer(0, MAX_INT), "Pause before a new leader is looked for again.")
    auto_commit_enable = Option(True, boolean, "Whether offsets are committed from time to time.")
    auto_commit_interval_ms = Option(60_000, integer(1, MAX_INT), "Time between commits.")
    auto_offset_reset: Option[str] = Option(
        "largest",
        one_of(SMALLEST, "largest"),
        "Where reading begins without an offset, or with one that is not there (any more): smallest or largest.",
    )
    rebalance_max_retries = Option(4, integer(1, MAX_INT), "How often dividing the partitions is tried.")
    rebalance_backoff_ms = Option(
        None, nullable(integer(0, MAX_INT)), "Pause between the tries; None: zookeeper.sync.time.ms."
    )
    partition_assignment_strategy: Option[str] = Option(
        RANGE, one_of(RANGE, ROUND_ROBIN), "How partitions are divided: range or roundrobin."
    )
    consumer_timeout_ms = Option(
        -1, integer(-1, MAX_INT), "Raise ConsumerTimeoutError when no message comes for so long; -1: wait for ever."
    )
    exclude_internal_topics = Option(True, boolean, "Whether topic filters leave out __consumer_offsets and its like.")
    offsets_storage: Option[str] = Option(
        ZOOKEEPER, one_of(ZOOKEEPER, KAFKA), "Where offsets are kept: zookeeper or kafka."
    )
    dual_commit_enabled = Option(
        None, nullable(boolean), "With offsets.storage=kafka, commit to ZooKeeper as well; None: yes."
    )
    offsets_channel_backoff_ms = Option(1_000, integer(0, MAX_INT), "Pause before the coordinator is asked again.")
    offsets_channel_socket_timeout_ms = Option(10_000, integer(1, MAX_INT), "How long the coordinator may take.")
    offsets_commit_max_retries = Option(5, integer(0, MAX_INT), "How often a commit is tried again, on shutdown, too.")

    def check(self) -> None:
        """A fetch that waits must be answered in time."""
        if self.fetch_wait_max_ms > self.socket_timeout_ms:
            raise ConfigurationError(
                f"socket.timeout.ms: {self.socket_timeout_ms} is not allowed: it must be at least"
                f" fetch.wait.max.ms, which is {self.fetch_wait_max_ms}"
            )

    @property
    def client(self) -> str:
        """The name for brokers."""
        return self.group_id if self.client_id is None else self.client_id

    @property
    def connection_timeout_ms(self) -> int:
        """How long to wait for ZooKeeper."""
        return self.zookeeper_connection_timeout_ms or self.zookeeper_session_timeout_ms

    @property
    def rebalance_pause(self) -> float:
        """Seconds between two tries to rebalance."""
        backoff_ms = self.rebalance_backoff_ms
        return (self.zookeeper_sync_time_ms if backoff_ms is None else backoff_ms) / 1000

    @property
    def in_zookeeper(self) -> bool:
        """Whether offsets are committed to ZooKeeper."""
        return self.offsets_storage == ZOOKEEPER or self.dual_commit_enabled is not False

    @property
    def in_kafka(self) -> bool:
        """Whether offsets are committed to the group's coordinator."""
        return self.offsets_storage == KAFKA
