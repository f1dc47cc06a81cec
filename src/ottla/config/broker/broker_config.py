"""The broker's options (`server.properties`): Kafka's, mostly with its defaults and bounds, and Ottla's own,
most of them `ottla.*`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Self

from ottla.config.broker import kafka_only
from ottla.config.broker.coordinator_config import GroupCoordinatorConfig, TransactionConfig
from ottla.config.broker.listener_config import ListenerConfig
from ottla.config.broker.log_config import ReplicationConfig, ServerLogConfig
from ottla.config.broker.remote_log import RSM_PREFIX, RemoteLogConfig, without_rlmm_prefix
from ottla.config.options import Option, boolean, integer, nullable, number, one_of, text, words
from ottla.config.topic import BROKER_SYNONYMS
from ottla.errors import ConfigurationError

ZOOKEEPER_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(:[0-9]{1,5})?")

STANDARD_HTTP_LISTENER = "127.0.0.1:9644"
WITHOUT_FILE = {"ottla.http.listener": STANDARD_HTTP_LISTENER, "group.initial.rebalance.delay.ms": 0}
"""Configs of a broker that is started without a properties file.

`group.initial.rebalance.delay.ms` is 0 in Kafka's shipped `server.properties`, too.
"""


def zookeeper_address(value: Any) -> str:
    """Check and normalize `host:port,…/chroot`: ZooKeeper's servers, and the path below which the znodes are."""
    servers, slash, chroot = text(value).partition("/")
    addresses = [server.strip() for server in servers.split(",") if server.strip()]
    if not addresses or not all(ZOOKEEPER_SERVER.fullmatch(server) for server in addresses):
        raise ValueError("expected host:port, several separated by commas, and an optional path such as /kafka")
    return ",".join(addresses) + slash + chroot


class BrokerConfig(
    ListenerConfig,
    ServerLogConfig,
    ReplicationConfig,
    GroupCoordinatorConfig,
    TransactionConfig,
    RemoteLogConfig,
    subject="broker",
    prefixes=("listener.name.", RSM_PREFIX),
    no_effect=kafka_only.NO_EFFECT,
):
    """Options of one broker."""

    @classmethod
    def from_kafka(cls, mapping: Mapping[str, Any], **more: Any) -> Self:
        """Build the config from Kafka's names, which may be those of a KRaft node."""
        return super().from_kafka(without_rlmm_prefix(kafka_only.without_controllers(mapping)), **more)

    # Identity and metadata store
    broker_id = Option(
        -1,
        integer(-1),
        "The broker's id. -1: the id stored in the log directory, or one that the metadata store of a cluster "
        "generates, or 0 for a new standalone broker. With several ottla.brokers it is the id of the first one, and "
        "-1 means 0.",
    )
    broker_id_generation_enable = Option(
        True,
        boolean,
        "Whether the metadata store of a cluster generates the id of a broker that has none. If false, such a broker "
        "does not start. No effect on a standalone broker.",
    )
    reserved_broker_max_id = Option(
        1000,
        integer(0),
        "Maximum broker.id that can be configured for a broker of a cluster, unless a log directory already has the "
        "id; generated ids are above it. No effect on a standalone broker, or if broker.id.generation.enable is false.",
    )
    node_id = Option(-1, integer(-1), "The newer name of broker.id, which it overrides; -1: broker.id applies.")
    broker_rack = Option[str | None](
        None,
        nullable(text),
        "The broker's rack or availability zone, for replica placement and fetching from the nearest replica. Not "
        "set: none; if ottla.brokers starts several brokers, the machine's name.",
    )
    zookeeper_connect = Option[str | None](
        None,
        nullable(zookeeper_address),
        "ZooKeeper's addresses, as host:port separated by commas, with an optional path. Not set: the metadata is in "
        "SQLite, for a standalone broker or (see ottla.metadata.dir) the brokers of one machine.",
    )
    ottla_brokers = Option(
        1,
        integer(0, 256),
        "Number of brokers that `ottla broker` starts, each a process with separate ports and directories; 0: one per "
        "core.",
    )
    ottla_metadata_dir = Option[str | None](
        None,
        nullable(text),
        "Directory of the embedded metadata store. Brokers of one machine with the same directory form a cluster "
        "without ZooKeeper. Must be on a local disk, and cannot be set together with zookeeper.connect. Not set: the "
        "directory `metadata` below the first log directory if ottla.brokers is more than 1; otherwise the broker is "
        "standalone, unless zookeeper.connect is set.",
    )
    ottla_tables_enable = Option(
        False,
        boolean,
        "Whether `ottla broker` also starts the table writer, `ottla tables run`, and restarts it whenever it ends. "
        "Requires the packages of ottla[tables].",
    )
    ottla_tables_command_config = Option[str | None](
        None,
        nullable(text),
        "Properties file with the client configs of the table writer. Required if the first listener requires "
        "credentials or TLS; no effect without ottla.tables.enable.",
    )
    ottla_event_loop_stall_ms = Option(
        250,
        integer(0),
        "Time in milliseconds after which a blocked event loop is logged as stalled, with the code that blocks it. "
        "0: never, the default of `ottla.Broker`, because the program around it may block it.",
    )
    ottla_tracing_sample_ratio = Option(
        0.0,
        number(0, 1),
        "Share of the requests of clients and other brokers for which an OpenTelemetry span is recorded, from 0 to 1; "
        "0: none. Environment variables (OTEL_...) configure where the spans are sent.",
    )
    broker_session_timeout_ms = Option(
        9000,
        integer(100),
        "Time in milliseconds after which a broker that is alive but blocked loses its registration in the embedded "
        "metadata store; a broker whose process has ended loses it at once. No effect on a standalone broker or with "
        "zookeeper.connect, for which zookeeper.session.timeout.ms applies.",
    )
    zookeeper_session_timeout_ms = Option(
        18000, integer(1), "Time in milliseconds without a heartbeat after which ZooKeeper considers the broker dead."
    )
    zookeeper_connection_timeout_ms = Option[int | None](
        None,
        nullable(integer(1)),
        "Maximum time in milliseconds that the broker waits for a connection to ZooKeeper when it starts. Not set: "
        "zookeeper.session.timeout.ms.",
    )
    zookeeper_set_acl = Option(
        False,
        boolean,
        "Whether the broker creates its znodes, except /consumers and those below it, so that only clients "
        "with its certificate's name can change them; all brokers need the same name. Requires "
        "zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location.",
    )
    zookeeper_ssl_client_enable = Option(
        False,
        boolean,
        "Whether the broker connects to ZooKeeper with TLS; if false, the other zookeeper.ssl.* configs have no "
        "effect.",
    )
    zookeeper_ssl_keystore_location = Option[str | None](
        None,
        nullable(text),
        "PEM file with the key and certificates by which the broker authenticates to ZooKeeper. Not set: no client "
        "certificate.",
    )
    zookeeper_ssl_keystore_password = Option[str | None](
        None,
        nullable(text),
        "Password of the key in zookeeper.ssl.keystore.location. Not set: the key is not encrypted.",
    )
    zookeeper_ssl_keystore_type = Option(
        "PEM", one_of("PEM"), "Type of the key store; only PEM is supported, so convert other types."
    )
    zookeeper_ssl_truststore_location = Option[str | None](
        None,
        nullable(text),
        "PEM file with the certificate authorities that sign ZooKeeper's certificates; by default the system's.",
    )
    zookeeper_ssl_truststore_type = Option(
        "PEM", one_of("PEM"), "Type of the trust store; only PEM is supported, so convert other types."
    )
    zookeeper_ssl_endpoint_identification_algorithm = Option(
        "HTTPS",
        one_of("HTTPS", "https", ""),
        "HTTPS: the host name of the ZooKeeper server must match its certificate; empty: it is not checked.",
    )

    # Requests
    quota_window_num = Option(
        11,
        integer(1),
        "Number of windows, each of quota.window.size.seconds, over which the usage of client quotas is averaged.",
    )
    quota_window_size_seconds = Option(
        1,
        integer(1),
        "Length in seconds of each of the quota.window.num windows over which the usage of client quotas is averaged.",
    )
    controller_quota_window_num = Option(
        11,
        integer(1),
        "Number of windows, each of controller.quota.window.size.seconds, over which the quota of topic changes "
        "(controller_mutation_rate) is averaged: a client can use the quota of all windows at once.",
    )
    controller_quota_window_size_seconds = Option(
        1,
        integer(1),
        "Length in seconds of each of the controller.quota.window.num windows over which the quota of topic changes "
        "(controller_mutation_rate) is averaged.",
    )
    num_io_threads = Option(
        8,
        integer(1),
        "Number of threads for work that would block the event loop, such as validating large batches, compaction and "
        "checkpoints. It also limits log.cleaner.threads.",
    )
    fetch_max_bytes = Option(
        55 * 1024 * 1024,
        integer(1024),
        "Maximum size in bytes of a fetch response; a larger first batch is returned nevertheless.",
    )
    max_incremental_fetch_session_cache_slots = Option(
        1000,
        integer(0),
        "Maximum number of incremental fetch sessions (KIP-227) that the broker keeps; clients without one list all "
        "their partitions in each request. 0: no sessions.",
    )
    request_timeout_ms = Option(
        30000,
        integer(0),
        "Timeout in milliseconds of requests to other brokers, except those of followers, for which "
        "replica.socket.timeout.ms applies. It also limits how long the broker waits for the replication of a "
        "transaction's state.",
    )

    # Metrics
    metric_reporters = Option[tuple[str, ...]](
        (),
        words(),
        "Reporters of this broker's metrics, separated by commas: logging, or classes (package.module.Class); empty: "
        "none. Prometheus needs none, see ottla.http.listener. The method `client_telemetry` of a class receives the "
        "metrics of clients (KIP-714).",
    )
    telemetry_max_bytes = Option(
        1048576,
        integer(1),
        "Maximum size in bytes of the metrics that a client may push in one request (KIP-714), both compressed and "
        "decompressed.",
    )

    def check(self) -> None:
        """Raise ConfigurationError if options that depend on each other do not match, such as those of ZooKeeper and
        the embedded metadata store.
        """
        super().check()
        if self.zookeeper_set_acl and not (self.zookeeper_ssl_client_enable and self.zookeeper_ssl_keystore_location):
            raise ConfigurationError(
                "zookeeper.set.acl: ZooKeeper has to authenticate the broker that creates znodes; "
                "set zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
            )
        if self.zookeeper_connect is not None and self.ottla_metadata_dir is not None:
            raise ConfigurationError(
                "ottla.metadata.dir: zookeeper.connect is set, too; the metadata is in only one of them"
            )
        self._check_inter_broker_listener()

    def _check_inter_broker_listener(self) -> None:
        name = self.inter_broker_listener_name
        if name is not None and "security.inter.broker.protocol" in self.originals:
            raise ConfigurationError(
                "inter.broker.listener.name: security.inter.broker.protocol is set, too; only one of them may be"
            )
        if self.inter_broker_listener is None and (name is not None or self.in_cluster):
            option = "security.inter.broker.protocol" if name is None else "inter.broker.listener.name"
            served = ", ".join(f"{e.name} ({self.security_protocol(e.name)})" for e in self.listeners)
            listener_name = name or self.security_inter_broker_protocol
            raise ConfigurationError(f"{option}: {listener_name} is none of the listeners, which are {served}")

        if self.inter_broker_protocol.startswith("SASL") and self.in_cluster:
            self.broker_login()

    @property
    def in_cluster(self) -> bool:
        """Whether this is a broker of a cluster, not a standalone one."""
        return self.zookeeper_connect is not None or self.ottla_metadata_dir is not None

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout of the broker's registration in milliseconds; 0 for a standalone broker."""
        if self.zookeeper_connect is not None:
            return self.zookeeper_session_timeout_ms
        return self.broker_session_timeout_ms if self.in_cluster else 0

    @property
    def id(self) -> int:
        """The broker's id by either of its two names; -1 if none is configured."""
        return self.node_id if self.node_id >= 0 else self.broker_id


DYNAMIC = frozenset(
    {
        *(synonym for synonyms in BROKER_SYNONYMS.values() for synonym in synonyms),
        "cordoned.log.dirs",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.connection.creation.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "remote.fetch.max.wait.ms",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.fetch.max.bytes.per.second",
    }
)
"""Configs that can be changed while the broker runs (KIP-226). Those in `RENEWED` can be changed as well, but only per
listener.
"""

PLAIN_USERS = "plain.sasl.jaas.config"
RENEWED = frozenset(
    {
        PLAIN_USERS,
        "ssl.key.password",
        *(f"ssl.keystore.{part}" for part in ("certificate.chain", "key", "location", "password", "type")),
        *(f"ssl.truststore.{part}" for part in ("certificates", "location", "password", "type")),
    }
)
"""Options that can be set on a running broker for one listener: its certificates, and the users of SASL PLAIN."""


def renewed_listener(option: str) -> str | None:
    """Return the listener's name in `listener.name.<listener>.<option>`, as it is written there, if the option is one
    of `RENEWED`; None for other names.
    """
    prefix, _, rest = option.partition("listener.name.")
    listener, _, key = rest.partition(".")
    return listener if not prefix and key in RENEWED else None
