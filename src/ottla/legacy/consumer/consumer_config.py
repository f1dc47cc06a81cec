"""Configs of the high-level consumer of Kafka 0.8, with Kafka's names and defaults.

Numbers are checked more strictly than in Kafka.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.config.broker.broker_config import zookeeper_address
from ottla.config.options import REQUIRED, Option, boolean, integer, nullable, one_of
from ottla.errors import ConfigurationError
from ottla.legacy.config import MAX_INT, LegacyConfig, client_id

KAFKA = "kafka"
ZOOKEEPER = "zookeeper"
RANGE = "range"
ROUND_ROBIN = "roundrobin"
SMALLEST = "smallest"


def path_name(value: Any) -> str:
    """Return the value, without blanks around it, if it is a name of ASCII letters and digits, '.', '_' and '-'. Raises
    ValueError if not, also for an empty one.
    """
    name = client_id(value)
    if not name:
        raise ValueError("must not be empty")
    return name


class ConsumerConfig(LegacyConfig, subject="0.8 consumer", prefixes=("external",)):
    """Configs of a high-level consumer of Kafka 0.8, as a mapping with Kafka's names or as keyword arguments.

    ConsumerConfig({"zookeeper.connect": "localhost:2181", "group.id": "visits"})
    """

    group_id: Final = Option(REQUIRED, path_name, "The group id. Partitions are assigned to the members of the group.")
    zookeeper_connect: Final = Option(
        REQUIRED,
        zookeeper_address,
        "ZooKeeper servers as host:port, separated by commas, with an optional chroot path at the end.",
    )
    zookeeper_session_timeout_ms: Final = Option(
        6_000,
        integer(1, MAX_INT),
        "ZooKeeper session timeout in ms. A member that sends no heartbeat for this time is removed from the group.",
    )
    zookeeper_connection_timeout_ms: Final = Option(
        None, nullable(integer(1, MAX_INT)), "Timeout for connecting to ZooKeeper in ms; None: the session timeout."
    )
    zookeeper_sync_time_ms: Final = Option(
        2_000,
        integer(0, MAX_INT),
        "Delay in ms between attempts to rebalance if rebalance.backoff.ms is not set; otherwise no effect. In "
        "Kafka, it is the time that a ZooKeeper follower may lag behind its leader.",
    )
    consumer_id: Final = Option(
        None,
        nullable(path_name),
        "Last part of the member id, which begins with the group id; None: host name, time in ms and eight hex digits.",
    )
    client_id: Final = Option(
        None, nullable(client_id), "Client id in the brokers' logs, metrics and quotas; None: the group id."
    )
    socket_timeout_ms: Final = Option(
        30_000,
        integer(1, MAX_INT),
        "Time in ms to wait for a connection to a broker from which messages or metadata are fetched, and for each "
        "response; at least fetch.wait.max.ms.",
    )
    socket_receive_buffer_bytes: Final = Option(
        65_536,
        integer(-1, MAX_INT),
        "Size in bytes of the socket's receive buffer (SO_RCVBUF); -1 or 0: the system default.",
    )
    fetch_message_max_bytes: Final = Option(
        1_048_576,
        integer(1, MAX_INT),
        "Maximum bytes of a partition in a fetch. A message that is larger cannot be read: the stream raises "
        "MessageSizeTooLargeError.",
    )
    fetch_min_bytes: Final = Option(
        1,
        integer(0, MAX_INT),
        "Minimum number of bytes for which the broker waits before it responds to a fetch; it waits no longer than "
        "fetch.wait.max.ms.",
    )
    fetch_wait_max_ms: Final = Option(
        100,
        integer(0, MAX_INT),
        "Maximum time in ms that the broker waits for fetch.min.bytes before it responds to a fetch.",
    )
    num_consumer_fetchers: Final = Option(1, integer(1, MAX_INT), "Maximum number of fetcher threads per broker.")
    queued_max_message_chunks: Final = Option(
        2,
        integer(1, MAX_INT),
        "Maximum number of chunks in the queue of a stream. A chunk has the messages of a partition from one fetch.",
    )
    refresh_leader_backoff_ms: Final = Option(
        200, integer(0, MAX_INT), "Delay in ms after a lookup of the leaders of partitions before the next lookup."
    )
    auto_commit_enable: Final = Option(
        True,
        boolean,
        "Whether offsets are committed every auto.commit.interval.ms, and before partitions are released in a "
        "rebalance or at shutdown.",
    )
    auto_commit_interval_ms: Final = Option(
        60_000, integer(1, MAX_INT), "Interval in ms between periodic commits if auto.commit.enable is true."
    )
    auto_offset_reset: Option[str] = Option(
        "largest",
        one_of(SMALLEST, "largest"),
        "Where to start if no offset is committed or the offset is out of range: smallest (the first message) or "
        "largest (only new messages).",
    )
    rebalance_max_retries: Final = Option(
        4,
        integer(1, MAX_INT),
        "Maximum number of attempts to rebalance. If all fail when the streams are created, "
        "ConsumerRebalanceFailedError is raised; later, the failure is logged and the rebalance begins again.",
    )
    rebalance_backoff_ms: Final = Option(
        None, nullable(integer(0, MAX_INT)), "Delay in ms between attempts to rebalance; None: zookeeper.sync.time.ms."
    )
    partition_assignment_strategy: Option[str] = Option(
        RANGE,
        one_of(RANGE, ROUND_ROBIN),
        "Strategy by which partitions are assigned to the threads of the group: range or roundrobin.",
    )
    consumer_timeout_ms: Final = Option(
        -1,
        integer(-1, MAX_INT),
        "Time in ms without a message after which a stream raises ConsumerTimeoutError; -1: never.",
    )
    exclude_internal_topics: Final = Option(
        True, boolean, "Whether topic filters exclude internal topics such as __consumer_offsets."
    )
    offsets_storage: Option[str] = Option(
        ZOOKEEPER, one_of(ZOOKEEPER, KAFKA), "Where committed offsets are stored: zookeeper or kafka."
    )
    dual_commit_enabled: Final = Option(
        None,
        nullable(boolean),
        "Whether offsets are also committed to ZooKeeper and read from it if offsets.storage is kafka; None: yes. No"
        " effect if it is zookeeper.",
    )
    offsets_channel_backoff_ms: Final = Option(
        1_000,
        integer(0, MAX_INT),
        "Delay in ms before a failed request that commits or reads offsets in Kafka is retried.",
    )
    offsets_channel_socket_timeout_ms: Final = Option(
        10_000,
        integer(1, MAX_INT),
        "Time in ms to wait for a connection to a broker when offsets are committed to Kafka or read from it, and for "
        "each response.",
    )
    offsets_commit_max_retries: Final = Option(
        5,
        integer(0, MAX_INT),
        "Maximum number of retries of a request that commits or reads offsets in Kafka; periodic commits have none.",
    )

    def check(self) -> None:
        """Raise ConfigurationError if socket.timeout.ms is less than fetch.wait.max.ms."""
        if self.fetch_wait_max_ms > self.socket_timeout_ms:
            raise ConfigurationError(
                f"socket.timeout.ms: {self.socket_timeout_ms} is invalid: it must be at least"
                f" fetch.wait.max.ms, which is {self.fetch_wait_max_ms}"
            )

    @property
    def client(self) -> str:
        """The client id that is sent to brokers."""
        return self.group_id if self.client_id is None else self.client_id

    @property
    def connection_timeout_ms(self) -> int:
        """The timeout for connecting to ZooKeeper in milliseconds."""
        return self.zookeeper_connection_timeout_ms or self.zookeeper_session_timeout_ms

    @property
    def rebalance_pause(self) -> float:
        """The delay between attempts to rebalance, in seconds."""
        backoff_ms = self.rebalance_backoff_ms
        return (self.zookeeper_sync_time_ms if backoff_ms is None else backoff_ms) / 1000

    @property
    def in_zookeeper(self) -> bool:
        """Whether offsets are committed to ZooKeeper, alone or in addition to Kafka."""
        return self.offsets_storage == ZOOKEEPER or self.dual_commit_enabled is not False

    @property
    def in_kafka(self) -> bool:
        """Whether offsets are committed to Kafka."""
        return self.offsets_storage == KAFKA
