"""The broker's options (`server.properties`): Kafka's, mostly with its defaults and bounds, and Ottla's own,
most of them `ottla.*`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from os.path import normpath
from typing import Any, NamedTuple, Self

from ottla import addresses
from ottla.config import kafka_only
from ottla.config.jaas import MECHANISMS, MODULES, OAUTH_MODULE, PLAIN_MODULE, Jaas, jaas
from ottla.config.oauth import OAuthCheckConfig, OAuthLoginConfig
from ottla.config.options import Option, boolean, gzip_level, integer, nullable, number, one_of, text, words
from ottla.config.principal_rules import checked as principal_rules
from ottla.config.remote_log import RSM_PREFIX, RemoteLogConfig, without_rlmm_prefix
from ottla.config.tls import SslConfig, TlsConfig
from ottla.config.topic import BROKER_SYNONYMS, format_version
from ottla.errors import ConfigurationError

DAY_MS = 24 * 60 * 60 * 1000
MAX_LONG = 2**63 - 1
MAX_INT = 2**31 - 1
ZOOKEEPER_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(:[0-9]{1,5})?")
NETWORK_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

ALL_DIRS = "*"
"""Value of cordoned.log.dirs for all directories."""
STANDARD_HTTP_LISTENER = "127.0.0.1:9644"
WITHOUT_FILE = {"ottla.http.listener": STANDARD_HTTP_LISTENER, "group.initial.rebalance.delay.ms": 0}
"""Configs of a broker that is started without a properties file.

`group.initial.rebalance.delay.ms` is 0 in Kafka's shipped `server.properties`, too.
"""


class Endpoint(NamedTuple):
    """One listener: its name, the address that it binds or advertises, and its security protocol, which `endpoints`
    does not set (see `BrokerConfig.security_protocol`).
    """

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class HttpEndpoint(Endpoint):
    """The endpoint of `ottla.http.listener`. As text it is HOST:PORT, with TLS https://HOST:PORT."""

    __slots__ = ()

    def __str__(self) -> str:
        address = super().__str__().partition("://")[2]
        return f"https://{address}" if self.protocol == "SSL" else address


class Principals(tuple[str, ...]):
    """Principals. As text they are separated by semicolons, because names in certificates have commas."""

    __slots__ = ()

    def __str__(self) -> str:
        return ";".join(self)


def zookeeper_address(value: Any) -> str:
    """Check and normalize `host:port,…/chroot`: ZooKeeper's servers, and the path below which the znodes are."""
    servers, slash, chroot = text(value).partition("/")
    addresses = [server.strip() for server in servers.split(",") if server.strip()]
    if not addresses or not all(ZOOKEEPER_SERVER.fullmatch(server) for server in addresses):
        raise ValueError("expected host:port, several separated by commas, and an optional path such as /kafka")
    return ",".join(addresses) + slash + chroot


def endpoints(value: Any) -> tuple[Endpoint, ...]:
    """Parse listeners: `NAME://host:port`, separated by commas. An empty host means all IPv4 interfaces. IPv6
    addresses are in brackets.
    """
    parsed = []
    for item in words()(value):
        name, separator, address = item.partition("://")
        host, colon, port = address.rpartition(":")
        if not separator or not colon or not port.lstrip("-").isdigit() or not 0 <= int(port) <= 65535:
            raise ValueError("expected NAME://host:port, several separated by commas; ports are from 0 to 65535")
        parsed.append(Endpoint(name.upper(), host.strip("[]"), int(port)))
    if len({e.name for e in parsed}) < len(parsed):
        raise ValueError("each listener needs a unique name")
    return tuple(parsed)


def http_address(value: Any) -> Endpoint | None:
    """Parse `HOST:PORT`, optionally with http:// or https:// before it; an empty text turns the listener off."""
    if isinstance(value, Endpoint):
        return value
    word = text(value).strip()
    if not word:
        return None
    scheme, _, address = word.rpartition("://")
    host, colon, port = address.removesuffix("/").rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or scheme.lower() not in ("", "http", "https"):
        raise ValueError("expected HOST:PORT or https://HOST:PORT")
    return HttpEndpoint("HTTP", host.strip("[]"), int(port), "SSL" if scheme.lower() == "https" else "PLAINTEXT")


def passwords_by_user(value: Any) -> dict[str, str]:
    """Parse `USER:PASSWORD`, several separated by commas."""
    if isinstance(value, Mapping):
        return {str(user): str(password) for user, password in value.items()}
    pairs = [item.partition(":") for item in words()(value)]
    if any(not user or not password for user, _, password in pairs):
        raise ValueError("expected USER:PASSWORD, several separated by commas")
    return {user: password for user, _, password in pairs}


def listener_name(value: Any) -> str:
    """Parse a listener's name, and return it in upper case."""
    return text(value).upper()


def protocol_map(value: Any) -> dict[str, str]:
    """Parse `A:SSL,B:PLAINTEXT` into a mapping of listeners to security protocols."""
    if isinstance(value, Mapping):
        return {str(name): str(protocol) for name, protocol in value.items()}
    pairs = [item.partition(":") for item in words()(value)]
    if any(not separator for _, separator, _ in pairs):
        raise ValueError("expected NAME:PROTOCOL, several separated by commas")
    protocols = {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}
    unknown = sorted(set(protocols.values()).difference(NETWORK_PROTOCOLS))
    if unknown:
        raise ValueError(f"{', '.join(unknown)} is none of {', '.join(NETWORK_PROTOCOLS)}")
    return protocols


def limits_by_address(value: Any) -> dict[str, int]:
    """Parse `A:1,B:2` as numbers by IP address; host names are resolved, and IPv6 addresses may be in brackets."""
    if isinstance(value, dict):
        return {addresses.resolved(str(name)): int(limit) for name, limit in value.items()}
    pairs = [item.rpartition(":") for item in words()(value)]
    if any(not separator or not limit.strip().isdecimal() for _, separator, limit in pairs):
        raise ValueError("ADDRESS:NUMBER is expected, several with commas")
    return {addresses.resolved(name): int(limit) for name, _, limit in pairs}


SERVER_ASSIGNORS = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""The names of the broker's assignors, by Kafka's class names."""

RACK_AWARE = "RackAwareReplicaSelector"
SELECTORS = {
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": RACK_AWARE,
    "org.apache.kafka.common.replica.LeaderSelector": "LeaderSelector",
}
"""The names of the replica selectors, by Kafka's class names."""

ACL_AUTHORIZER = "AclAuthorizer"
AUTHORIZERS = {
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer": ACL_AUTHORIZER,
    "kafka.security.authorizer.AclAuthorizer": ACL_AUTHORIZER,
    "kafka.security.auth.SimpleAclAuthorizer": ACL_AUTHORIZER,
}
"""The authorizer for each of Kafka's class names: all of them apply the same rules."""


def principals(value: Any) -> Principals:
    """Parse principals: `Type:name`, separated by semicolons."""
    parts = value.split(";") if isinstance(value, str) else list(value)
    names = tuple(part.strip() for part in parts if part.strip())
    for principal in names:
        kind, _, name = principal.partition(":")
        if not kind or not name or ",User:" in name.replace(" ", ""):
            raise ValueError("expected Type:name, such as User:admin, several separated by semicolons")
        if kind.lower() == "user" and kind != "User":
            raise ValueError(f"the type of a user is User, with a capital, not {kind}")
    return Principals(names)


class BrokerConfig(
    SslConfig,
    OAuthLoginConfig,
    OAuthCheckConfig,
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

    # Identity and addresses
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
    listeners = Option(
        endpoints("PLAINTEXT://127.0.0.1:9092"),
        endpoints,
        "Addresses on which the broker listens, as NAME://host:port, separated by commas; each name is in "
        "listener.security.protocol.map. An empty host: all IPv4 interfaces; port 0: any free port.",
    )
    advertised_listeners = Option[tuple[Endpoint, ...]](
        (),
        endpoints,
        "Addresses to which clients and other brokers connect, if they differ from listeners (NAT, containers, "
        "several networks), as NAME://host:port, separated by commas. A listener without one advertises its own "
        "address, or the machine's host name if it listens on all interfaces.",
    )
    listener_security_protocol_map = Option(
        {p: p for p in NETWORK_PROTOCOLS},
        protocol_map,
        "Security protocol of each listener, as NAME:PROTOCOL pairs separated by commas; it must include all names in "
        "listeners. Protocols: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.",
    )
    inter_broker_listener_name = Option[str | None](
        None,
        nullable(listener_name),
        "Name of the listener for connections between brokers; not set: a listener with the protocol of "
        "security.inter.broker.protocol. Only one of the two configs can be set.",
    )
    security_inter_broker_protocol = Option(
        "PLAINTEXT",
        one_of(*NETWORK_PROTOCOLS),
        "Security protocol of connections between brokers; a broker of a cluster needs a listener with it. Cannot be "
        "set together with inter.broker.listener.name.",
    )
    apache_kafka_brokers_enable = Option(
        False,
        boolean,
        "Whether inter-broker requests are accepted on the inter-broker listener without proof that the sender is a "
        "broker of this cluster, because Apache Kafka's brokers send none. Required while such brokers are in the "
        "cluster, unless super.users or ACLs authorize them. With authorizer.class.name, the sender must be authorized "
        "for CLUSTER_ACTION in any case. Keep clients away from that listener then.",
    )
    authorizer_class_name = Option(
        "",
        one_of("", ACL_AUTHORIZER, aliases=AUTHORIZERS),
        "Authorizer that checks requests against ACLs: AclAuthorizer; the full class names of Kafka's "
        "StandardAuthorizer, AclAuthorizer and SimpleAclAuthorizer mean the same. Empty: no authorization, every "
        "client may do everything.",
    )
    super_users = Option[tuple[str, ...]](
        (),
        principals,
        "Principals that are authorized for everything, such as User:admin, separated by semicolons. No effect "
        "without authorizer.class.name.",
    )
    allow_everyone_if_no_acl_found = Option(
        False,
        boolean,
        "Whether every client is authorized for a resource that has no ACLs; if false, only super users are. No "
        "effect without authorizer.class.name.",
    )
    sasl_enabled_mechanisms = Option[tuple[str, ...]](
        ("GSSAPI",),
        words(),
        "SASL mechanisms to enable: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. A SASL listener needs one of "
        "them; GSSAPI (Kerberos), Kafka's default, is not supported.",
    )
    sasl_mechanism_inter_broker_protocol = Option(
        "GSSAPI",
        text,
        "SASL mechanism of connections between brokers, if the inter-broker listener uses SASL: PLAIN, SCRAM-SHA-256, "
        "SCRAM-SHA-512 or OAUTHBEARER. GSSAPI, the default as in Kafka, is not supported.",
    )
    sasl_server_max_receive_size = Option(
        524288, integer(1), "Maximum size in bytes of a request on a SASL connection that is not authenticated yet."
    )
    delegation_token_secret_key = Option[str | None](
        None,
        nullable(text),
        "Master key of delegation tokens, the same on all brokers. Not set: delegation.token.master.key applies; "
        "without either, the broker refuses delegation tokens.",
    )
    delegation_token_master_key = Option[str | None](
        None, nullable(text), "The older name of delegation.token.secret.key, which takes precedence if it is set."
    )
    delegation_token_max_lifetime_ms = Option(
        7 * DAY_MS,
        integer(1),
        "Maximum lifetime of a delegation token in milliseconds, renewals included; a client can request a shorter "
        "one.",
    )
    delegation_token_expiry_time_ms = Option(
        DAY_MS,
        integer(1),
        "Time in milliseconds after which a new delegation token expires unless it is renewed, and by which a renewal "
        "without a period extends it; delegation.token.max.lifetime.ms is the limit.",
    )
    delegation_token_expiry_check_interval_ms = Option(
        3_600_000,
        integer(1),
        "Interval in milliseconds at which the broker removes expired delegation tokens.",
    )
    connections_max_reauth_ms = Option(
        0,
        integer(0),
        "Time in milliseconds within which a SASL client has to authenticate again, at most the lifetime of its "
        "token; otherwise it is disconnected (KIP-368). 0: only when its token expires, or never without a token.",
    )
    connection_failed_authentication_delay_ms = Option(
        100,
        integer(0),
        "Delay in milliseconds before a failed SASL authentication is answered and the connection is closed.",
    )
    ssl_client_auth = Option(
        "none",
        one_of("none", "requested", "required"),
        "Whether clients of SSL listeners need a certificate: required, requested (optional) or none. For a SASL_SSL "
        "listener, only listener.name.NAME.ssl.client.auth applies.",
    )
    ssl_principal_mapping_rules = Option(
        "DEFAULT",
        principal_rules,
        "Rules, separated by commas, by which the name in a client's certificate becomes a user name; the first that "
        "matches applies, and without a match the connection is closed. DEFAULT: the whole name; "
        "RULE:pattern/replacement/ replaces a name that matches the regular expression, RULE:pattern/replacement/L or "
        "/U also converts it to lower or upper case.",
    )
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
        "0: never.",
    )
    ottla_tracing_sample_ratio = Option(
        0.0,
        number(0, 1),
        "Share of the requests of clients and other brokers for which an OpenTelemetry span is recorded, from 0 to 1; "
        "0: none. Environment variables (OTEL_...) configure where the spans are sent.",
    )
    ottla_http_listener = Option[Endpoint | None](
        None,
        nullable(http_address),
        "HOST:PORT of the HTTP listener with metrics for Prometheus, health checks and the version; https://HOST:PORT: "
        "with TLS, by ssl.* or listener.name.http.ssl.*. Not set: off; `ottla broker` without a file: 127.0.0.1:9644.",
    )
    ottla_http_passwords = Option[dict[str, str]](
        {},
        passwords_by_user,
        "USER:PASSWORD pairs for the HTTP listener (basic authentication), separated by commas; /healthz and /readyz "
        "need no password. Empty: no authentication, which is refused if other machines can reach the listener and it "
        "has no TLS.",
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
    log_dir = Option("./ottla-data", text, "Directory of the broker's logs. No effect if log.dirs is set.")
    log_dirs = Option[tuple[str, ...]](
        (),
        words(),
        "Directories of the broker's logs, separated by commas; a new partition goes to the one with the fewest "
        "partitions that is not in cordoned.log.dirs. Empty: log.dir applies.",
    )

    cordoned_log_dirs = Option[tuple[str, ...]](
        (),
        words(),
        "Log directories, separated by commas, that get no new replicas while a directory that is not "
        "cordoned is in service (KIP-1066); *: all of this broker's. A broker "
        "whose directories are all cordoned gets no replicas from new topics and partitions or from reassignments.",
    )

    # Requests
    socket_request_max_bytes = Option(
        104857600,
        integer(1),
        "Maximum size in bytes of a request; a client that sends a larger one is disconnected. Before SASL "
        "authentication, sasl.server.max.receive.size applies.",
    )
    socket_send_buffer_bytes = Option(
        102400,
        integer(-1),
        "Size in bytes of the send buffer (SO_SNDBUF) of connections that the broker accepts; -1 or 0: the system's "
        "default.",
    )
    socket_receive_buffer_bytes = Option(
        102400,
        integer(-1),
        "Size in bytes of the receive buffer (SO_RCVBUF) of connections that the broker accepts; -1 or 0: the "
        "system's default.",
    )
    socket_listen_backlog_size = Option(
        50,
        integer(1),
        "Maximum number of connections that wait to be accepted, for each listener; the operating system may limit it "
        "further.",
    )
    max_connections = Option(
        MAX_INT,
        integer(0),
        "Maximum number of connections of the broker; further ones wait until others are closed. If there are several "
        "listeners, the inter-broker listener accepts connections beyond this limit, and for each of them the least "
        "recently used client connection is closed. listener.name.NAME.max.connections limits a listener in addition.",
    )
    max_connections_per_ip = Option(
        MAX_INT, integer(0), "Maximum number of connections from one IP address; further ones are closed at once."
    )
    max_connections_per_ip_overrides = Option(
        dict[str, int](),
        limits_by_address,
        "Maximum numbers of connections from individual addresses, which override max.connections.per.ip: "
        "ADDRESS:NUMBER pairs, separated by commas.",
    )
    max_connection_creation_rate = Option(
        MAX_INT,
        integer(0),
        "Maximum number of new connections per second; further ones wait. If there are several listeners, it does not "
        "apply to the inter-broker listener. listener.name.NAME.max.connection.creation.rate limits a listener in "
        "addition.",
    )
    queued_max_request_bytes = Option(
        -1,
        integer(-1),
        "Approximate maximum memory in bytes for requests above 64 KiB that are received or processed; further ones "
        "wait. Must be at least socket.request.max.bytes; -1 or 0: no limit.",
    )
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
    connections_max_idle_ms = Option(
        600000,
        integer(-1),
        "Time in milliseconds after which the broker closes an idle connection of a client or another broker; -1: "
        "never.",
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

    # Topics
    num_partitions = Option(
        1,
        integer(1),
        "Number of partitions of a topic that is created automatically or by a request without a number. Internal "
        "topics have their own configs.",
    )
    default_replication_factor = Option(
        1,
        integer(1),
        "Number of replicas of a topic that is created automatically or by a request without a number. Internal "
        "topics have their own configs.",
    )
    auto_create_topics_enable = Option(
        True,
        boolean,
        "Whether a missing topic is created when a client requests its metadata. The request can forbid it.",
    )
    delete_topic_enable = Option(
        True, boolean, "Whether clients can delete topics; if false, such requests fail with TOPIC_DELETION_DISABLED."
    )
    min_insync_replicas = Option(
        1,
        integer(1),
        "Minimum number of in-sync replicas for writes with acks=all; with fewer they fail. If a partition has fewer "
        "replicas than this, all of them must be in sync.",
    )
    compression_type = Option(
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Codec of stored batches. producer: the broker stores batches as they were sent; a codec or uncompressed: it "
        "converts batches that differ.",
    )
    compression_gzip_level = Option(
        -1,
        gzip_level,
        "Level, 1 to 9, at which the broker compresses batches that it converts to gzip (compression.type); -1: the "
        "codec's default.",
    )
    compression_lz4_level = Option(
        9,
        integer(1, 17),
        "Level, 1 to 17, at which the broker compresses batches that it converts to lz4 (compression.type).",
    )
    compression_zstd_level = Option(
        3,
        integer(-131072, 22),
        "Level, -131072 to 22, at which the broker compresses batches that it converts to zstd (compression.type).",
    )
    message_max_bytes = Option(
        1048588,
        integer(0),
        "Maximum size in bytes of a record batch, after compression; a larger one fails with MESSAGE_TOO_LARGE.",
    )
    message_max_decompressed_bytes = Option(
        16777216,
        integer(1, MAX_INT),
        "Maximum size in bytes of a producer's batch after decompression; a larger one fails with MESSAGE_TOO_LARGE. "
        "If ottla.validate.records is crc, only checked for batches that the broker compresses again or stores in an "
        "older message format.",
    )
    ottla_validate_records = Option(
        "all",
        one_of("all", "crc"),
        "What the leader validates of a producer's batch: all of its records, as Kafka does, or only its header and "
        "CRC (crc), which is cheaper and trusts producers to encode records, timestamps and keys correctly. Batches "
        "that the broker compresses again or stores in an older message format are always validated completely.",
    )
    unclean_leader_election_enable = Option(
        False,
        boolean,
        "Whether a replica that is not in sync can become the leader if no in-sync replica is available. The "
        "partition is then available again sooner, but records may be lost.",
    )

    # The log
    log_segment_bytes = Option(
        1073741824,
        integer(14),
        "Maximum size in bytes of a segment: a batch that does not fit rolls a new one, and a batch larger than a "
        "whole segment is rejected.",
    )
    log_roll_ms = Option[int | None](
        None,
        nullable(integer(1)),
        "Age of a segment in milliseconds at which the next append rolls a new one; for compacted topics at most "
        "log.cleaner.max.compaction.lag.ms. Not set: log.roll.hours applies.",
    )
    log_roll_hours = Option(
        168,
        integer(1),
        "Age of a segment in hours at which the next append rolls a new one; for compacted topics at most "
        "log.cleaner.max.compaction.lag.ms. No effect if log.roll.ms is set.",
    )
    log_roll_jitter_ms = Option[int | None](
        None,
        nullable(integer(0)),
        "Maximum random time in milliseconds by which segments are rolled before they reach the age of log.roll.ms or "
        "log.roll.hours, so that partitions do not all roll them at the same time. Not set: log.roll.jitter.hours "
        "applies.",
    )
    log_roll_jitter_hours = Option(
        0,
        integer(0),
        "Maximum random time in hours by which segments are rolled before they reach the age of log.roll.ms or "
        "log.roll.hours, so that partitions do not all roll them at the same time. No effect if log.roll.jitter.ms is "
        "set.",
    )
    log_retention_ms = Option[int | None](
        None,
        nullable(integer(-1)),
        "Time in milliseconds to retain records, if the cleanup policy includes delete; -1: no limit. Not set: "
        "log.retention.minutes applies or, if that is not set either, log.retention.hours.",
    )
    log_retention_minutes = Option[int | None](
        None,
        nullable(integer(-1)),
        "Time in minutes to retain records, if the cleanup policy includes delete; -1: no limit. No effect if "
        "log.retention.ms is set. Not set: log.retention.hours applies.",
    )
    log_retention_hours = Option(
        168,
        integer(-1),
        "Time in hours to retain records, if the cleanup policy includes delete; -1: no limit. No effect if "
        "log.retention.ms or log.retention.minutes is set.",
    )
    log_local_retention_ms = Option(
        -2,
        integer(-2),
        "Age in milliseconds from which brokers delete records of tiered topics that are in remote storage, for topics "
        "without local.retention.ms; -1: no limit, -2: the topic's retention.ms.",
    )
    log_local_retention_bytes = Option(
        -2,
        integer(-2),
        "Size in bytes of a tiered partition on a broker above which its oldest segments are deleted there once they "
        "are in remote storage, for topics without local.retention.bytes; -1: no limit, -2: the topic's "
        "retention.bytes.",
    )
    log_retention_bytes = Option(
        -1,
        integer(-1),
        "Size in bytes above which a partition's oldest segments are deleted, if the cleanup policy includes delete; "
        "-1: no limit.",
    )
    log_retention_check_interval_ms = Option(
        300000,
        integer(1),
        "Interval in milliseconds at which the broker checks whether segments are due for deletion by the retention "
        "configs.",
    )
    log_cleanup_policy = Option[tuple[str, ...]](
        ("delete",),
        words("delete", "compact"),
        "How old records are removed: delete removes segments by log.retention.ms and log.retention.bytes, compact "
        "retains the last record of each key; both can be set. Empty: neither applies.",
    )
    log_cleaner_enable = Option(
        True,
        boolean,
        "Whether the broker compacts topics whose cleanup.policy includes compact. Internal topics need it.",
    )
    log_cleaner_backoff_ms = Option(
        15000,
        integer(0),
        "Time in milliseconds, at least 100, that a thread of the cleaner sleeps after it has compacted all logs that "
        "are due.",
    )
    log_cleaner_dedupe_buffer_size = Option(
        134217728,
        integer(1024),
        "Memory in bytes for the offsets of keys that the cleaner has read, for all its threads together. With more, "
        "a log is compacted in fewer passes.",
    )
    log_cleaner_threads = Option(
        1, integer(1), "Maximum number of logs that are compacted at the same time; num.io.threads limits it, too."
    )
    log_cleaner_io_buffer_load_factor = Option(
        0.9,
        number(0, 1),
        "Maximum share, from 0 to 1, of a cleaner thread's part of log.cleaner.dedupe.buffer.size that is filled with "
        "keys in one pass. With a higher share, a log is compacted in fewer passes.",
    )
    log_cleaner_io_max_bytes_per_second = Option(
        1.7976931348623157e308,
        number(1),
        "Maximum rate in bytes per second at which all threads of the cleaner together read and write; by default "
        "there is no limit.",
    )
    log_cleaner_min_cleanable_ratio = Option(
        0.5,
        number(0, 1),
        "Share of a log's bytes, from 0 to 1, that must be uncompacted before the log is compacted, unless "
        "log.cleaner.max.compaction.lag.ms is exceeded.",
    )
    log_cleaner_delete_retention_ms = Option(
        DAY_MS,
        integer(0),
        "Minimum time in milliseconds for which tombstones of compacted topics remain after the first compaction that "
        "has read them, so that consumers can read them, too.",
    )
    log_cleaner_min_compaction_lag_ms = Option(
        0, integer(0), "Minimum age in milliseconds of a record before it is compacted."
    )
    log_cleaner_max_compaction_lag_ms = Option(
        MAX_LONG,
        integer(1),
        "Maximum age in milliseconds of an uncompacted record before its log becomes due for compaction, whatever "
        "log.cleaner.min.cleanable.ratio is; by default there is no limit.",
    )
    log_index_size_max_bytes = Option(
        10 * 1024 * 1024,
        integer(4),
        "Maximum size in bytes of a segment's offset index and of its time index; when one of them is full, a new "
        "segment is rolled.",
    )
    log_index_interval_bytes = Option(
        4096, integer(0), "Minimum number of bytes of records between two entries of an offset index."
    )
    log_segment_delete_delay_ms = Option(
        60000,
        integer(0),
        "Minimum time in milliseconds between the deletion of a segment or partition and the removal of its files.",
    )
    log_flush_interval_messages = Option(
        MAX_LONG,
        integer(1),
        "Number of unflushed records at which a partition is flushed with fsync, for which acknowledgements wait. By "
        "default there is no limit, and segments are flushed after they are rolled; with replication that is usually "
        "enough.",
    )
    log_flush_interval_ms = Option[int | None](
        None,
        nullable(integer(0)),
        "Time in milliseconds since a partition's last flush after which its unflushed records are flushed. It is "
        "checked every log.flush.scheduler.interval.ms, which is also the default.",
    )
    log_flush_scheduler_interval_ms = Option(
        MAX_LONG,
        integer(1),
        "Interval in milliseconds at which the broker checks whether flushes are due by log.flush.interval.ms; by "
        "default, it never does.",
    )
    log_flush_offset_checkpoint_interval_ms = Option(
        60000,
        integer(0),
        "No effect (accepted for compatibility): recovery points are written with "
        "replica.high.watermark.checkpoint.interval.ms.",
    )
    log_flush_start_offset_checkpoint_interval_ms = Option(
        60000,
        integer(0),
        "No effect (accepted for compatibility): log start offsets are written with "
        "replica.high.watermark.checkpoint.interval.ms.",
    )
    replica_high_watermark_checkpoint_interval_ms = Option(
        5000,
        integer(1),
        "Interval in milliseconds at which high watermarks, recovery points and log start offsets are written to "
        "checkpoint files.",
    )
    log_message_timestamp_type = Option(
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Which timestamp records get: CreateTime (that of the producer) or LogAppendTime (the time when the leader "
        "appends them).",
    )
    log_message_timestamp_before_max_ms = Option(
        MAX_LONG,
        integer(0),
        "Maximum time in milliseconds by which a record's timestamp may be behind the broker's clock; otherwise its "
        "batch is rejected. Not checked with LogAppendTime or, for batches that the broker does not convert, if "
        "ottla.validate.records is crc.",
    )
    log_message_timestamp_after_max_ms = Option(
        3600000,
        integer(0),
        "Maximum time in milliseconds by which a record's timestamp may be ahead of the broker's clock; otherwise its "
        "batch is rejected. Not checked with LogAppendTime or, for batches that the broker does not convert, if "
        "ottla.validate.records is crc.",
    )
    log_message_timestamp_difference_max_ms = Option(
        MAX_LONG,
        integer(0),
        "The older config for both log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms, in "
        "milliseconds: it sets each of them that is not set itself.",
    )
    log_message_format_version = Option(
        "3.0-IV1",
        format_version,
        "Kafka version that determines the message format in which the broker stores producers' batches: 0 if it is "
        "below 0.10, 1 if it is 0.10, and 2 from 0.11 on. The broker's own batches, such as those of committed "
        "offsets, always have format 2.",
    )
    log_message_downconversion_enable = Option(
        True,
        boolean,
        "Whether the broker converts batches for consumers that only read older message formats; if false, their "
        "fetches fail with UNSUPPORTED_VERSION.",
    )
    log_preallocate = Option(
        False,
        boolean,
        "Whether the file of a new segment is allocated at its full size (log.segment.bytes); the unused rest is "
        "released when the segment is closed or idle.",
    )
    replica_lag_time_max_ms = Option(
        30000,
        integer(1),
        "Time in milliseconds for which a follower may be behind its leader before the leader removes it from the ISR. "
        "The leader checks this at intervals of half this time.",
    )
    replica_fetch_wait_max_ms = Option(
        500,
        integer(0),
        "Maximum time in milliseconds that a leader waits for replica.fetch.min.bytes of records before it answers "
        "this broker's fetch as a follower.",
    )
    replica_fetch_min_bytes = Option(
        1,
        integer(1),
        "Minimum number of bytes for which a leader waits before it answers this broker's fetch as a follower; after "
        "replica.fetch.wait.max.ms, it answers with less.",
    )
    replica_fetch_max_bytes = Option(
        1024 * 1024,
        integer(0),
        "Maximum number of bytes per partition in a response when this broker fetches as a follower. If the first "
        "batch of the response is larger, it is returned nevertheless.",
    )
    replica_fetch_response_max_bytes = Option(
        10 * 1024 * 1024,
        integer(0),
        "Maximum number of bytes of a whole response when this broker fetches as a follower; fetch.max.bytes of the "
        "leader limits it, too. If the first batch of the response is larger, it is returned nevertheless.",
    )
    replica_fetch_backoff_ms = Option(
        1000,
        integer(0),
        "Maximum delay in milliseconds before a follower fetches again after an error of a partition or of the whole "
        "request. The delay begins at 20 ms for a partition and 50 ms for a request, and doubles with each consecutive "
        "failure.",
    )
    replica_socket_timeout_ms = Option(
        30000,
        integer(1),
        "Time in milliseconds that a follower waits for a leader's response before its request fails; for a fetch, "
        "replica.fetch.wait.max.ms is added.",
    )
    num_replica_fetchers = Option(
        1,
        integer(1),
        "Maximum number of fetchers per leader, over which this broker distributes the partitions that it follows. "
        "Each fetcher sends its own requests over its own connections.",
    )
    replica_selector_class = Option[str | None](
        None,
        nullable(one_of(*SELECTORS.values(), aliases=SELECTORS)),
        "Class that selects the replica from which a consumer reads (KIP-392): RackAwareReplicaSelector selects an "
        "in-sync replica in the rack of the consumer's client.rack. LeaderSelector, or not set: consumers read from "
        "the leader.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second = Option(
        MAX_LONG,
        integer(1),
        "Maximum rate in bytes per second at which this broker copies replicas from one of its log directories to "
        "another.",
    )
    leader_replication_throttled_rate = Option(
        MAX_LONG,
        integer(1),
        "Maximum rate in bytes per second at which this broker, as a leader, sends data of the replicas in "
        "leader.replication.throttled.replicas of their topics. Followers in the ISR are not throttled.",
    )
    follower_replication_throttled_rate = Option(
        MAX_LONG,
        integer(1),
        "Maximum rate in bytes per second at which this broker, as a follower, fetches data of the replicas in "
        "follower.replication.throttled.replicas of their topics. It is not throttled in partitions where it is in the "
        "ISR.",
    )
    num_recovery_threads_per_data_dir = Option(
        2,
        integer(1),
        "Maximum number of logs per log directory that are recovered at the same time when the broker starts after an "
        "unclean shutdown. After a clean one, a single thread per log directory loads the logs.",
    )
    producer_id_expiration_ms = Option(
        DAY_MS,
        integer(1),
        "Time in milliseconds since the last batch or transaction marker of a producer after which the broker removes "
        "the producer's state from a partition, unless a transaction is open there. It is checked every "
        "producer.id.expiration.check.interval.ms.",
    )

    # Groups
    group_min_session_timeout_ms = Option(
        6000,
        integer(1),
        "Minimum session.timeout.ms in milliseconds of a classic group's members; one with a lower value is rejected "
        "with INVALID_SESSION_TIMEOUT.",
    )
    group_max_session_timeout_ms = Option(
        1800000,
        integer(1),
        "Maximum session.timeout.ms in milliseconds of a classic group's members; one with a higher value is rejected "
        "with INVALID_SESSION_TIMEOUT.",
    )
    group_initial_rebalance_delay_ms = Option(
        3000,
        integer(0),
        "Time in milliseconds that the first rebalance of an empty classic group waits for more members; 0: it does "
        "not wait. If some join meanwhile, it waits again, in total at most for the rebalance timeout.",
    )
    group_max_size = Option(
        MAX_INT,
        integer(1),
        "Maximum number of members of a classic group; further ones are rejected with GROUP_MAX_SIZE_REACHED.",
    )
    group_coordinator_rebalance_protocols = Option[tuple[str, ...]](
        ("classic", "consumer", "share", "streams"),
        words("classic", "consumer", "share", "streams"),
        "Group protocols that clients may use: consumer (KIP-848), share (KIP-932), streams (KIP-1071) and classic, "
        "which is enabled even if it is not listed.",
    )
    group_consumer_session_timeout_ms = Option(
        45000,
        integer(1),
        "Time in milliseconds without a heartbeat after which a member of a consumer group is removed; members that "
        "use the classic protocol have their own session.timeout.ms. A group can set consumer.session.timeout.ms "
        "instead.",
    )
    group_consumer_min_session_timeout_ms = Option(
        45000,
        integer(1),
        "Minimum value in milliseconds that a group can set for consumer.session.timeout.ms; a lower one is rejected. "
        "It is also the minimum of group.consumer.session.timeout.ms.",
    )
    group_consumer_max_session_timeout_ms = Option(
        60000,
        integer(1),
        "Maximum value in milliseconds that a group can set for consumer.session.timeout.ms; a higher one is rejected. "
        "It is also the maximum of group.consumer.session.timeout.ms.",
    )
    group_consumer_heartbeat_interval_ms = Option(
        5000,
        integer(1),
        "Interval in milliseconds at which members of a consumer group send heartbeats; members that use the classic "
        "protocol have their own heartbeat.interval.ms. A group can set consumer.heartbeat.interval.ms instead.",
    )
    group_consumer_min_heartbeat_interval_ms = Option(
        5000,
        integer(1),
        "Minimum value in milliseconds that a group can set for consumer.heartbeat.interval.ms; a lower one is "
        "rejected. It is also the minimum of group.consumer.heartbeat.interval.ms.",
    )
    group_consumer_max_heartbeat_interval_ms = Option(
        15000,
        integer(1),
        "Maximum value in milliseconds that a group can set for consumer.heartbeat.interval.ms; a higher one is "
        "rejected. It is also the maximum of group.consumer.heartbeat.interval.ms.",
    )
    group_consumer_max_size = Option(
        MAX_INT,
        integer(1),
        "Maximum number of members of a consumer group; further ones are rejected with GROUP_MAX_SIZE_REACHED.",
    )
    group_consumer_assignors = Option[tuple[str, ...]](
        ("uniform", "range"),
        words(*SERVER_ASSIGNORS.values(), aliases=SERVER_ASSIGNORS),
        "Assignors that the broker offers to consumer groups: uniform and range, or their Java class names. A group "
        "uses the one that most of its members request by group.remote.assignor; the first one is the default.",
    )
    group_consumer_migration_policy = Option(
        "bidirectional",
        one_of("bidirectional", "upgrade", "downgrade", "disabled"),
        "Changes of the protocol that a group may make while it has members: upgrade (classic to consumer), downgrade "
        "(consumer to classic), bidirectional (both) or disabled (neither).",
    )
    group_consumer_assignment_interval_ms = Option(
        0,
        integer(0),
        "Minimum time in milliseconds between two assignments of a consumer group; 0: no minimum. Kafka's default is "
        "1000. A group can set consumer.assignment.interval.ms instead.",
    )
    group_consumer_min_assignment_interval_ms = Option(
        0,
        integer(0),
        "Minimum value in milliseconds that a group can set for consumer.assignment.interval.ms; a lower one is "
        "rejected. It is also the minimum of group.consumer.assignment.interval.ms.",
    )
    group_consumer_max_assignment_interval_ms = Option(
        15000,
        integer(0),
        "Maximum value in milliseconds that a group can set for consumer.assignment.interval.ms; a higher one is "
        "rejected. It is also the maximum of group.consumer.assignment.interval.ms.",
    )
    group_share_session_timeout_ms = Option(
        45000,
        integer(1),
        "Time in milliseconds without a heartbeat after which a member of a share group is removed. A group can set "
        "share.session.timeout.ms instead.",
    )
    group_share_min_session_timeout_ms = Option(
        45000,
        integer(1),
        "Minimum value in milliseconds that a group can set for share.session.timeout.ms; a lower one is rejected. It "
        "is also the minimum of group.share.session.timeout.ms.",
    )
    group_share_max_session_timeout_ms = Option(
        60000,
        integer(1),
        "Maximum value in milliseconds that a group can set for share.session.timeout.ms; a higher one is rejected. It"
        " is also the maximum of group.share.session.timeout.ms.",
    )
    group_share_heartbeat_interval_ms = Option(
        5000,
        integer(1),
        "Interval in milliseconds at which members of a share group send heartbeats. A group can set "
        "share.heartbeat.interval.ms instead.",
    )
    group_share_min_heartbeat_interval_ms = Option(
        5000,
        integer(1),
        "Minimum value in milliseconds that a group can set for share.heartbeat.interval.ms; a lower one is rejected. "
        "It is also the minimum of group.share.heartbeat.interval.ms.",
    )
    group_share_max_heartbeat_interval_ms = Option(
        15000,
        integer(1),
        "Maximum value in milliseconds that a group can set for share.heartbeat.interval.ms; a higher one is rejected."
        " It is also the maximum of group.share.heartbeat.interval.ms.",
    )
    group_share_max_size = Option(
        200,
        integer(1, 1000),
        "Maximum number of members of a share group; further ones are rejected with GROUP_MAX_SIZE_REACHED.",
    )
    group_share_record_lock_duration_ms = Option(
        30000,
        integer(1000, 3600000),
        "Time in milliseconds for which a record is locked for the member of a share group that acquired it; if the "
        "member has not acknowledged it by then, it can be delivered again. A group can set "
        "share.record.lock.duration.ms instead.",
    )
    group_share_min_record_lock_duration_ms = Option(
        15000,
        integer(1000, 30000),
        "Minimum value in milliseconds that a group can set for share.record.lock.duration.ms; a lower one is "
        "rejected. It is also the minimum of group.share.record.lock.duration.ms.",
    )
    group_share_max_record_lock_duration_ms = Option(
        60000,
        integer(30000, 3600000),
        "Maximum value in milliseconds that a group can set for share.record.lock.duration.ms; a higher one is "
        "rejected. It is also the maximum of group.share.record.lock.duration.ms.",
    )
    group_share_delivery_count_limit = Option(
        5,
        integer(2, 10),
        "Maximum number of times that a record is delivered to a share group before it is archived. A group can set "
        "share.delivery.count.limit instead.",
    )
    group_share_min_delivery_count_limit = Option(
        2,
        integer(2, 5),
        "Minimum value that a group can set for share.delivery.count.limit; a lower one is rejected. It is also the "
        "minimum of group.share.delivery.count.limit.",
    )
    group_share_max_delivery_count_limit = Option(
        10,
        integer(5, 25),
        "Maximum value that a group can set for share.delivery.count.limit; a higher one is rejected. It also limits "
        "group.share.delivery.count.limit, which is at most 10 in any case.",
    )
    group_share_partition_max_record_locks = Option(
        2000,
        integer(100, 10000),
        "Maximum number of records of a partition that a share group can have in flight; at this number, it gets no "
        "further ones until the first of them are acknowledged or archived. A group can set "
        "share.partition.max.record.locks instead.",
    )
    group_share_min_partition_max_record_locks = Option(
        100,
        integer(100, 2000),
        "Minimum value that a group can set for share.partition.max.record.locks; a lower one is rejected. It is also "
        "the minimum of group.share.partition.max.record.locks.",
    )
    group_share_max_partition_max_record_locks = Option(
        4000,
        integer(2000, 10000),
        "Maximum value that a group can set for share.partition.max.record.locks; a higher one is rejected. It is also "
        "the maximum of group.share.partition.max.record.locks.",
    )
    group_share_max_share_sessions = Option(
        2000,
        integer(1),
        "Maximum number of share sessions of members that fetch from this broker. At the limit, sessions that were "
        "idle for group.share.session.timeout.ms are closed; if there are none, a new session is rejected.",
    )
    group_share_assignment_interval_ms = Option(
        0,
        integer(0),
        "Minimum time in milliseconds between two assignments of a share group; 0: no minimum. Kafka's default is "
        "1000. A group can set share.assignment.interval.ms instead.",
    )
    group_share_min_assignment_interval_ms = Option(
        0,
        integer(0),
        "Minimum value in milliseconds that a group can set for share.assignment.interval.ms; a lower one is rejected. "
        "It is also the minimum of group.share.assignment.interval.ms.",
    )
    group_share_max_assignment_interval_ms = Option(
        15000,
        integer(0),
        "Maximum value in milliseconds that a group can set for share.assignment.interval.ms; a higher one is "
        "rejected. It is also the maximum of group.share.assignment.interval.ms.",
    )
    group_streams_session_timeout_ms = Option(
        45000,
        integer(1),
        "Time in milliseconds without a heartbeat after which a member of a streams group is removed. A group can set "
        "streams.session.timeout.ms instead.",
    )
    group_streams_min_session_timeout_ms = Option(
        45000,
        integer(1),
        "Minimum value in milliseconds that a group can set for streams.session.timeout.ms; a lower one is rejected. "
        "It is also the minimum of group.streams.session.timeout.ms.",
    )
    group_streams_max_session_timeout_ms = Option(
        60000,
        integer(1),
        "Maximum value in milliseconds that a group can set for streams.session.timeout.ms; a higher one is rejected. "
        "It is also the maximum of group.streams.session.timeout.ms.",
    )
    group_streams_heartbeat_interval_ms = Option(
        5000,
        integer(1),
        "Interval in milliseconds at which members of a streams group send heartbeats. A group can set "
        "streams.heartbeat.interval.ms instead.",
    )
    group_streams_min_heartbeat_interval_ms = Option(
        5000,
        integer(1),
        "Minimum value in milliseconds that a group can set for streams.heartbeat.interval.ms; a lower one is "
        "rejected. It is also the minimum of group.streams.heartbeat.interval.ms.",
    )
    group_streams_max_heartbeat_interval_ms = Option(
        15000,
        integer(1),
        "Maximum value in milliseconds that a group can set for streams.heartbeat.interval.ms; a higher one is "
        "rejected. It is also the maximum of group.streams.heartbeat.interval.ms.",
    )
    group_streams_max_size = Option(
        MAX_INT,
        integer(1),
        "Maximum number of members of a streams group; further ones are rejected with GROUP_MAX_SIZE_REACHED.",
    )
    group_streams_num_standby_replicas = Option(
        0,
        integer(0),
        "Number of standby tasks, which maintain copies of the state, for each stateful task of a streams group; fewer "
        "if there are not enough processes. A group can set streams.num.standby.replicas instead.",
    )
    group_streams_max_standby_replicas = Option(
        2,
        integer(0),
        "Maximum value that a group can set for streams.num.standby.replicas; a higher one is rejected. It is also the"
        " maximum of group.streams.num.standby.replicas.",
    )
    group_streams_initial_rebalance_delay_ms = Option(
        3000,
        integer(0),
        "Time in milliseconds that the first assignment of an empty streams group waits for more members; 0: it does "
        "not wait. A group can set streams.initial.rebalance.delay.ms instead.",
    )
    group_streams_assignment_interval_ms = Option(
        1000,
        integer(0),
        "Minimum time in milliseconds between two assignments of a streams group; 0: no minimum. A group can set "
        "streams.assignment.interval.ms instead.",
    )
    group_streams_min_assignment_interval_ms = Option(
        0,
        integer(0),
        "Minimum value in milliseconds that a group can set for streams.assignment.interval.ms; a lower one is "
        "rejected. It is also the minimum of group.streams.assignment.interval.ms.",
    )
    group_streams_max_assignment_interval_ms = Option(
        15000,
        integer(0),
        "Maximum value in milliseconds that a group can set for streams.assignment.interval.ms; a higher one is "
        "rejected. It is also the maximum of group.streams.assignment.interval.ms.",
    )
    share_coordinator_state_topic_num_partitions = Option(
        50,
        integer(1),
        "Number of partitions with which the topic __share_group_state is created; later changes have no effect on it.",
    )
    share_coordinator_state_topic_replication_factor = Option(
        3,
        integer(1),
        "Replication factor with which the topic __share_group_state is created; on a standalone broker it has one "
        "replica. By default with ottla.brokers and without ZooKeeper: the number of brokers, at most 3.",
    )
    share_coordinator_state_topic_min_isr = Option(
        2,
        integer(1),
        "min.insync.replicas with which the topic __share_group_state is created; 1 on a standalone broker. By default "
        "with ottla.brokers and without ZooKeeper: the number of brokers, at most 2.",
    )
    share_coordinator_state_topic_segment_bytes = Option(
        104857600,
        integer(1),
        "Size of segments in bytes (segment.bytes) with which the topic __share_group_state is created; later changes "
        "have no effect on it.",
    )
    group_consumer_regex_refresh_interval_ms = Option(
        600000,
        integer(10000),
        "Age in milliseconds at which the broker determines again which topics match the regular expressions of a "
        "consumer group's members, so that changes of ACLs take effect. New topics are matched at the next heartbeat.",
    )
    offsets_topic_num_partitions = Option(
        50,
        integer(1),
        "Number of partitions with which the topic __consumer_offsets is created; later changes have no effect on it.",
    )
    offsets_topic_replication_factor = Option(
        3,
        integer(1),
        "Replication factor with which the topic __consumer_offsets is created; on a standalone broker it has one "
        "replica. By default with ottla.brokers and without ZooKeeper: the number of brokers, at most 3.",
    )
    offsets_topic_segment_bytes = Option(
        104857600,
        integer(1),
        "Size of segments in bytes (segment.bytes) with which the topic __consumer_offsets is created; later changes "
        "have no effect on it.",
    )
    offsets_topic_compression_codec = Option(
        0, integer(0, 4), "No effect (accepted for compatibility): batches in __consumer_offsets are not compressed."
    )
    offset_metadata_max_bytes = Option(
        4096,
        integer(0),
        "Maximum size in bytes of the metadata of a committed offset; commits with larger metadata fail with "
        "OFFSET_METADATA_TOO_LARGE.",
    )
    offsets_retention_minutes = Option(
        10080,
        integer(1),
        "Time in minutes to retain the committed offsets of an empty group, and of topics to which a group is not "
        "subscribed any more. Old clients can set another time in a commit.",
    )
    offsets_commit_timeout_ms = Option(
        5000,
        integer(1),
        "Maximum time in milliseconds for which an offset commit, or a change of a group or of the state of a share "
        "partition, waits until it is replicated in the internal topic; after that it fails.",
    )
    offsets_retention_check_interval_ms = Option(
        600000,
        integer(1),
        "Interval in milliseconds at which the broker removes committed offsets that have expired "
        "(offsets.retention.minutes).",
    )

    # Transactions
    transaction_max_timeout_ms = Option(
        900000,
        integer(1),
        "Maximum transaction.timeout.ms in milliseconds that a producer may request; a higher one fails with "
        "INVALID_TRANSACTION_TIMEOUT.",
    )
    transaction_state_log_num_partitions = Option(
        50,
        integer(1),
        "Number of partitions with which the topic __transaction_state is created; later changes have no effect on it.",
    )
    transaction_state_log_replication_factor = Option(
        3,
        integer(1),
        "Replication factor with which the topic __transaction_state is created; on a standalone broker it has one "
        "replica. By default with ottla.brokers and without ZooKeeper: the number of brokers, at most 3.",
    )
    transaction_state_log_min_isr = Option(
        2,
        integer(1),
        "min.insync.replicas with which the topic __transaction_state is created; 1 on a standalone broker. By default "
        "with ottla.brokers and without ZooKeeper: the number of brokers, at most 2.",
    )
    transaction_state_log_segment_bytes = Option(
        104857600,
        integer(1),
        "Size of segments in bytes (segment.bytes) with which the topic __transaction_state is created; later changes "
        "have no effect on it.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = Option(
        10000,
        integer(1),
        "Interval in milliseconds at which the broker aborts transactions that have exceeded their producer's "
        "transaction.timeout.ms.",
    )
    transactional_id_expiration_ms = Option(
        604800000,
        integer(1),
        "Time in milliseconds without use after which a transactional id expires, unless its transaction is open. It "
        "is checked every transaction.remove.expired.transaction.cleanup.interval.ms.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = Option(
        3600000,
        integer(1),
        "Interval in milliseconds at which the broker removes transactional ids that have been unused for "
        "transactional.id.expiration.ms.",
    )
    transaction_partition_verification_enable = Option(
        True,
        boolean,
        "Whether the broker verifies with the transaction's coordinator that a partition is in the transaction before "
        "it appends the first batch (KIP-890). No effect on newer clients, whose batches add the partition to the "
        "transaction.",
    )
    add_partitions_to_txn_retry_backoff_ms = Option(
        20,
        integer(1),
        "Delay in milliseconds before the broker retries adding partitions to a transaction whose coordinator is "
        "another broker, while the previous transaction is still completing.",
    )
    add_partitions_to_txn_retry_backoff_max_ms = Option(
        100,
        integer(0),
        "Maximum time in milliseconds for which a write that adds its partition to a transaction waits on the broker "
        "until the producer's previous transaction is complete; after that the client has to retry.",
    )
    transaction_two_phase_commit_enable = Option(
        False,
        boolean,
        "Whether producers may use transactions without a timeout, whose outcome an external coordinator decides "
        "(KIP-939).",
    )
    producer_id_expiration_check_interval_ms = Option(
        600000,
        integer(1),
        "Interval in milliseconds at which the broker removes the state of producers that have been inactive for "
        "producer.id.expiration.ms.",
    )

    controlled_shutdown_enable = Option(
        True,
        boolean,
        "Whether the controller moves this broker's leaderships to other in-sync replicas before the broker stops. No "
        "effect on a standalone broker.",
    )
    controlled_shutdown_max_retries = Option(
        3,
        integer(0),
        "Number of times that a stopping broker repeats its request for a controlled shutdown if the request fails or "
        "some leaders could not be moved; after that it stops nevertheless.",
    )
    controlled_shutdown_retry_backoff_ms = Option(
        5000,
        integer(0),
        "Delay in milliseconds before a stopping broker repeats its request for a controlled shutdown "
        "(controlled.shutdown.max.retries).",
    )
    auto_leader_rebalance_enable = Option(
        True,
        boolean,
        "Whether the controller moves leadership back to the preferred replicas, for example after a failed broker has "
        "returned. It checks this every leader.imbalance.check.interval.seconds.",
    )
    leader_imbalance_check_interval_seconds = Option(
        300,
        integer(1),
        "Interval in seconds at which the controller checks whether to move leadership back to preferred replicas. No "
        "effect if auto.leader.rebalance.enable is false.",
    )
    leader_imbalance_per_broker_percentage = Option(
        10,
        integer(0),
        "Percentage of the partitions that prefer a broker as their leader up to which other brokers may lead them. If "
        "it is exceeded, the controller moves their leadership back to this broker, unless "
        "auto.leader.rebalance.enable is false.",
    )
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
        """Raise ConfigurationError if a required list is empty, an advertised listener has no address to which clients
        can connect, or options that depend on each other do not match, such as listeners, their protocols, and bounds
        of group configs.
        """
        super().check()
        if not self.listeners:
            raise ConfigurationError("listeners: at least one is needed, such as PLAINTEXT://127.0.0.1:9092")
        for endpoint in (*self.listeners, *self.advertised_listeners):
            if self.security_protocol(endpoint.name).startswith("SASL"):
                self._check_mechanisms(endpoint.name)
        unknown = {e.name for e in self.advertised_listeners} - {e.name for e in self.listeners}
        if unknown:
            raise ConfigurationError(f"advertised.listeners: {', '.join(sorted(unknown))} is not among listeners")
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise ConfigurationError(
                f"queued.max.request.bytes: {self.queued_max_request_bytes} is less than socket.request.max.bytes "
                f"({self.socket_request_max_bytes}), so the largest request could not be received"
            )
        if self.zookeeper_set_acl and not (self.zookeeper_ssl_client_enable and self.zookeeper_ssl_keystore_location):
            raise ConfigurationError(
                "zookeeper.set.acl: ZooKeeper has to authenticate the broker that creates znodes; "
                "set zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
            )
        if any(e.host in ("", "0.0.0.0", "::") for e in self.advertised_listeners):
            raise ConfigurationError("advertised.listeners: a client cannot connect to 0.0.0.0; name a host")

        if self.zookeeper_connect is not None and self.ottla_metadata_dir is not None:
            raise ConfigurationError(
                "ottla.metadata.dir: zookeeper.connect is set, too; the metadata is in only one of them"
            )
        missing = self.cordoned_dirs.difference(map(normpath, self.data_dirs))
        if missing:
            raise ConfigurationError(f"cordoned.log.dirs: {', '.join(sorted(missing))} is not in log.dirs")
        self._check_http_listener()
        self._check_inter_broker_listener()
        self._check_group_defaults()
        if not self.group_consumer_assignors:
            raise ConfigurationError("group.consumer.assignors: at least one is needed")

    def _check_http_listener(self) -> None:
        endpoint = self.ottla_http_listener
        if endpoint is None or endpoint.protocol == "SSL" or self.ottla_http_passwords:
            return
        if not addresses.is_loopback(endpoint.host):
            raise ConfigurationError(
                f"ottla.http.listener: other machines can reach {endpoint.host or '0.0.0.0'}:{endpoint.port}; "
                "use https://, set ottla.http.passwords, or listen on 127.0.0.1"
            )

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

    def _check_mechanisms(self, listener: str) -> None:
        wrong = [name for name in self.mechanisms(listener) if name not in MECHANISMS]
        if wrong or not self.mechanisms(listener):
            problem = f"{', '.join(wrong)} is not supported" if wrong else "no mechanism is enabled"
            raise ConfigurationError(
                f"sasl.enabled.mechanisms: {problem} on listener {listener}, which uses SASL; use one of "
                f"{', '.join(MECHANISMS)}"
            )
        if "PLAIN" in self.mechanisms(listener):
            self.passwords(listener)
        if "OAUTHBEARER" in self.mechanisms(listener):
            self.oauth_of(listener)

    def _check_group_defaults(self) -> None:
        """Check the defaults of group configs as Kafka's GroupCoordinatorConfig and ShareGroupConfig do."""
        for kind in ("consumer", "share", "streams"):
            for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
                self._check_bounds(kind, name)
            heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
            if self.values[heartbeat] >= self.values[session]:
                raise ConfigurationError(f"{heartbeat}: it must be less than {session} ({self.values[session]})")
        for name in ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"):
            self._check_bounds("share", name)
        if self.group_streams_num_standby_replicas > self.group_streams_max_standby_replicas:
            raise ConfigurationError(
                "group.streams.num.standby.replicas: it must not be greater than group.streams.max.standby.replicas "
                f"({self.group_streams_max_standby_replicas})"
            )

    def _check_bounds(self, kind: str, name: str) -> None:
        least, most = (self.values[f"group.{kind}.{bound}.{name}"] for bound in ("min", "max"))
        if not least <= self.values[f"group.{kind}.{name}"] <= most:
            raise ConfigurationError(f"group.{kind}.{name}: it must be between {least} and {most}")

    def security_protocol(self, listener: str) -> str:
        """Return the security protocol of the listener with this name. Raises ConfigurationError if
        listener.security.protocol.map does not contain it.
        """
        mapping = self.listener_security_protocol_map
        if listener not in mapping:
            raise ConfigurationError(f"listener.security.protocol.map: listener {listener} is not in it")
        return mapping[listener]

    def of_listener(self, listener: str, option: str) -> str | None:
        """Return a config that is set for one listener, `listener.name.<name>.<option>`, or None."""
        value = self.originals.get(f"listener.name.{listener.lower()}.{option}")
        return None if value is None else str(value)

    def on_listener(self, listener: str, option: str) -> Any:
        """Return a config's value for one listener: its own value, else the common one. Raises ConfigurationError,
        which names the config, for an invalid value of the listener.
        """
        own = self.of_listener(listener, option)
        return self.values[option] if own is None else self.options[option].read(own)

    def tls_of(self, listener: str) -> TlsConfig:
        """Return the TLS configs of one listener: its own ones, else the common ones."""
        own = {key: self.of_listener(listener, key) for key in SslConfig.options}
        common = {key: self.originals[key] for key in SslConfig.options if key in self.originals}
        return TlsConfig({**common, **{key: value for key, value in own.items() if value is not None}})

    def client_auth(self, listener: str) -> str:
        """Return ssl.client.auth of a listener; for a SASL_SSL listener, only its own config counts."""
        option = "ssl.client.auth"
        if self.security_protocol(listener) == "SASL_SSL" and self.of_listener(listener, option) is None:
            return "none"  # KIP-684
        return str(self.on_listener(listener, option))

    def mechanisms(self, listener: str) -> tuple[str, ...]:
        """Return the SASL mechanisms that a listener offers."""
        names: tuple[str, ...] = self.on_listener(listener, "sasl.enabled.mechanisms")
        return names

    def first_request_bytes(self, listener: str) -> int:
        """Return the maximum size in bytes of requests on a new connection: sasl.server.max.receive.size until
        authentication if the listener uses SASL, otherwise socket.request.max.bytes.
        """
        without_sasl = not self.security_protocol(listener).startswith("SASL")
        return self.socket_request_max_bytes if without_sasl else self.sasl_server_max_receive_size

    def max_reauth_ms(self, listener: str, mechanism: str) -> int:
        """Return connections.max.reauth.ms of a mechanism on a listener: the maximum time in milliseconds until a
        client must authenticate again. A token may expire earlier; with 0, only that limits the time.
        """
        option = "connections.max.reauth.ms"
        own = self.of_listener(listener, f"{mechanism.lower()}.{option}")
        return int(self.on_listener(listener, option) if own is None else self.options[option].read(own))

    def passwords(self, listener: str) -> dict[str, str]:
        """Return the users and passwords of PLAIN on a listener, from its JAAS config: `user_<name>="<password>"`."""
        login = self._jaas(listener, "PLAIN")
        if login.module != PLAIN_MODULE:
            raise ConfigurationError(f"{_jaas_option(listener, 'PLAIN')}: expected …{PLAIN_MODULE}, not {login.module}")
        return {name[5:]: password for name, password in login.options.items() if name.startswith("user_")}

    def oauth_of(self, listener: str) -> OAuthCheckConfig:
        """Return the configs by which a listener validates tokens: its own ones, else those of all listeners."""
        own = {key: self.of_listener(listener, key) for key in OAuthCheckConfig.options}
        common = {key: self.originals[key] for key in OAuthCheckConfig.options if key in self.originals}
        return OAuthCheckConfig({**common, **{key: value for key, value in own.items() if value is not None}})

    def oauth_jaas(self, listener: str) -> Jaas:
        """Return a listener's JAAS config for OAUTHBEARER, which also has the settings of this broker's own unsecured
        tokens.
        """
        login = self._jaas(listener, "OAUTHBEARER")
        if login.module != OAUTH_MODULE:
            raise ConfigurationError(
                f"{_jaas_option(listener, 'OAUTHBEARER')}: expected …{OAUTH_MODULE}, not {login.module}"
            )
        return login

    def jwks_endpoint_jaas(self, listener: str) -> Mapping[str, str]:
        """Return the options of a listener's JAAS config for OAUTHBEARER, which may have ssl options for
        sasl.oauthbearer.jwks.endpoint.url; empty if there is none, as signed tokens do not require it.
        """
        return self.oauth_jaas(listener).options if _jaas_option(listener, "OAUTHBEARER") in self.originals else {}

    def broker_login(self) -> tuple[str, Mapping[str, str]]:
        """Return the SASL mechanism for connections to other brokers, and the options of its JAAS config. Raises
        ConfigurationError if the mechanism is not enabled on the inter-broker listener, or if its JAAS config is
        missing, malformed or without credentials.
        """
        listener, mechanism = self.inter_broker_listener, self.sasl_mechanism_inter_broker_protocol
        assert listener is not None
        if mechanism not in self.mechanisms(listener.name):
            offered = ", ".join(self.mechanisms(listener.name))
            raise ConfigurationError(
                f"sasl.mechanism.inter.broker.protocol: {mechanism} is not enabled on the inter-broker listener "
                f"{listener.name}; use one of {offered}"
            )
        options = self._jaas(listener.name, mechanism).options
        if mechanism != "OAUTHBEARER" and not {"username", "password"} <= options.keys():
            option = _jaas_option(listener.name, mechanism)
            raise ConfigurationError(
                f'{option}: username="…" and password="…" are required, to log in to other brokers'
            )
        return mechanism, options

    def _jaas(self, listener: str, mechanism: str) -> Jaas:
        option = _jaas_option(listener, mechanism)
        line = self.originals.get(option)
        if line is None:
            raise ConfigurationError(f"{option} is required: …{MODULES[mechanism]};")
        try:
            return jaas(line)
        except ValueError as error:
            raise ConfigurationError(f"{option}: {error}") from None

    @property
    def inter_broker_protocol(self) -> str:
        """The security protocol of connections between brokers."""
        listener = self.inter_broker_listener
        return self.security_inter_broker_protocol if listener is None else self.security_protocol(listener.name)

    @property
    def inter_broker_listener(self) -> Endpoint | None:
        """The listener for connections between brokers: that of inter.broker.listener.name or, if that is not set, one
        with security.inter.broker.protocol. None if there is no such listener.
        """
        name, protocol = self.inter_broker_listener_name, self.security_inter_broker_protocol
        if name is not None:
            return next((e for e in self.listeners if e.name == name), None)
        speaking = [e for e in self.listeners if self.security_protocol(e.name) == protocol]
        return next((e for e in speaking if e.name == protocol), next(iter(speaking), None))

    @property
    def delegation_token_key(self) -> bytes:
        """The master key of delegation tokens by either of its two names; empty: no delegation tokens."""
        return (self.delegation_token_secret_key or self.delegation_token_master_key or "").encode()

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

    @property
    def cordoned_dirs(self) -> frozenset[str]:
        """The normalized paths of the log directories that get no new replicas."""
        cordoned = self.cordoned_log_dirs
        return frozenset(map(normpath, self.data_dirs if ALL_DIRS in cordoned else cordoned))

    @property
    def data_dirs(self) -> tuple[str, ...]:
        """The log directories: those of log.dirs, or else that of log.dir."""
        return self.log_dirs or (self.log_dir,)


def _jaas_option(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


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
