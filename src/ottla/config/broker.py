"""The broker's options: Kafka's names, defaults and bounds (`server.properties`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla import addresses
from ottla.config.jaas import MECHANISMS, MODULES, OAUTH_MODULE, PLAIN_MODULE, Jaas, jaas
from ottla.config.oauth import OAuthCheckConfig, OAuthLoginConfig
from ottla.config.options import Option, boolean, integer, nullable, number, one_of, text, words
from ottla.config.principal_rules import checked as principal_rules
from ottla.config.tls import SslConfig, TlsConfig
from ottla.config.topic import BROKER_SYNONYMS, format_version
from ottla.errors import ConfigurationError

DAY_MS = 24 * 60 * 60 * 1000
MAX_LONG = 2**63 - 1
MAX_INT = 2**31 - 1
ZOOKEEPER_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(:[0-9]{1,5})?")
NETWORK_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Endpoint(NamedTuple):
    """One listener: its name, where it binds or is reached, and the security protocol spoken there."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def zookeeper_address(value: Any) -> str:
    """`host:port,…/chroot`: ZooKeeper's servers, and the path below which the cluster has its nodes."""
    servers, slash, chroot = text(value).partition("/")
    addresses = [server.strip() for server in servers.split(",") if server.strip()]
    if not addresses or not all(ZOOKEEPER_SERVER.fullmatch(server) for server in addresses):
        raise ValueError("host:port is wanted, several with commas, and after them perhaps a path such as /kafka")
    return ",".join(addresses) + slash + chroot


def endpoints(value: Any) -> tuple[Endpoint, ...]:
    """`NAME://host:port`, several with commas; an empty host is every address, an IPv6 host stands in brackets."""
    parsed = []
    for item in words()(value):
        name, separator, address = item.partition("://")
        host, colon, port = address.rpartition(":")
        if not separator or not colon or not port.lstrip("-").isdigit() or not 0 <= int(port) <= 65535:
            raise ValueError("NAME://host:port is wanted, several with commas; ports go from 0 to 65535")
        parsed.append(Endpoint(name.upper(), host.strip("[]"), int(port)))
    if len({e.name for e in parsed}) < len(parsed):
        raise ValueError("each listener needs a name of its own")
    return tuple(parsed)


def listener_name(value: Any) -> str:
    """A listener's name, which is in capitals."""
    return text(value).upper()


def protocol_map(value: Any) -> dict[str, str]:
    """`A:SSL,B:PLAINTEXT` as a mapping of listeners to security protocols."""
    if isinstance(value, Mapping):
        return {str(name): str(protocol) for name, protocol in value.items()}
    pairs = [item.partition(":") for item in words()(value)]
    if any(not separator for _, separator, _ in pairs):
        raise ValueError("NAME:PROTOCOL is wanted, several with commas")
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
"""Kafka's classes for the assignors of the broker's."""

RACK_AWARE = "RackAwareReplicaSelector"
SELECTORS = {
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": RACK_AWARE,
    "org.apache.kafka.common.replica.LeaderSelector": "LeaderSelector",
}
"""Kafka's classes that choose replicas for consumers."""

ACL_AUTHORIZER = "AclAuthorizer"
AUTHORIZERS = {
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer": ACL_AUTHORIZER,
    "kafka.security.authorizer.AclAuthorizer": ACL_AUTHORIZER,
    "kafka.security.auth.SimpleAclAuthorizer": ACL_AUTHORIZER,
}
"""Kafka's classes of authorizers, which go by the same rules."""


def principals(value: Any) -> tuple[str, ...]:
    """`Type:name`, several with semicolons, as names by a certificate have commas."""
    parts = value.split(";") if isinstance(value, str) else list(value)
    names = tuple(part.strip() for part in parts if part.strip())
    for principal in names:
        kind, _, name = principal.partition(":")
        if not kind or not name or ",User:" in name.replace(" ", ""):
            raise ValueError("Type:name is wanted, such as User:admin, several with semicolons")
        if kind.lower() == "user" and kind != "User":
            raise ValueError(f"the type of a user is User, with a capital, not {kind}")
    return names


class BrokerConfig(SslConfig, OAuthLoginConfig, OAuthCheckConfig, subject="broker", prefixes=("listener.name.",)):
    """Options of one broker."""

    # Who and where
    broker_id = Option(
        -1, integer(-1), "This broker's id. -1 takes that of the data directory, or a new one; 0 for a node by itself."
    )
    broker_id_generation_enable = Option(True, boolean, "Let ZooKeeper number brokers that have no id.")
    reserved_broker_max_id = Option(1000, integer(0), "The numbers that ZooKeeper gives begin above this one.")
    node_id = Option(-1, integer(-1), "Newer name of broker.id; wins where both are set.")
    listeners = Option(
        endpoints("PLAINTEXT://127.0.0.1:9092"), endpoints, "Where the broker listens; port 0: any free."
    )
    advertised_listeners = Option[tuple[Endpoint, ...]](
        (), endpoints, "Addresses told to clients; by default the listeners."
    )
    listener_security_protocol_map = Option(
        {p: p for p in NETWORK_PROTOCOLS}, protocol_map, "The security protocol of each listener name."
    )
    inter_broker_listener_name = Option[str | None](
        None, nullable(listener_name), "The listener that brokers use among themselves."
    )
    security_inter_broker_protocol = Option(
        "PLAINTEXT",
        one_of(*NETWORK_PROTOCOLS),
        "Where no such listener is named: brokers use the one that speaks this.",
    )
    apache_kafka_brokers_enable = Option(
        False,
        boolean,
        "Accept requests of brokers on the inter-broker listener without proof that the sender is a broker of this "
        "cluster, as Apache Kafka does. Brokers of Apache Kafka in the same cluster need it where there is no "
        "authorizer; keep clients away from that listener meanwhile.",
    )
    authorizer_class_name = Option(
        "",
        one_of("", ACL_AUTHORIZER, aliases=AUTHORIZERS),
        "Who says what clients may do: AclAuthorizer, or Kafka's name of it; without it everybody may do everything.",
    )
    super_users = Option[tuple[str, ...]](
        (), principals, "Those who may do everything, such as User:admin; several with semicolons."
    )
    allow_everyone_if_no_acl_found = Option(False, boolean, "What no rule is about may be done by everybody.")
    sasl_enabled_mechanisms = Option[tuple[str, ...]](
        ("GSSAPI",),
        words(),
        "What SASL listeners offer: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; not the default, Kerberos.",
    )
    sasl_mechanism_inter_broker_protocol = Option("GSSAPI", text, "The one of them that brokers use among themselves.")
    sasl_server_max_receive_size = Option(524288, integer(1), "The largest request from those who are not known yet.")
    connections_max_reauth_ms = Option(
        0, integer(0), "How long clients are known before they have to say again who they are; 0: as long as they stay."
    )
    connection_failed_authentication_delay_ms = Option(
        100, integer(0), "How long who failed to say who he is waits for the answer, which is the end."
    )
    ssl_client_auth = Option(
        "none",
        one_of("none", "requested", "required"),
        "Whether clients show a certificate on SSL listeners: they must (required), may (requested) or are not asked.",
    )
    ssl_principal_mapping_rules = Option(
        "DEFAULT",
        principal_rules,
        "What clients are called by their certificates: RULE:pattern/replacement/[LU], the first that fits; DEFAULT:"
        " the whole name.",
    )
    broker_rack = Option[str | None](None, nullable(text), "The rack that this broker stands in.")
    zookeeper_connect = Option[str | None](
        None, nullable(zookeeper_address), "ZooKeeper's addresses; none: a node by itself."
    )
    zookeeper_session_timeout_ms = Option(18000, integer(1), "How long ZooKeeper keeps a silent broker.")
    zookeeper_connection_timeout_ms = Option[int | None](
        None, nullable(integer(1)), "How long a start waits for ZooKeeper; by default as long as a session lives."
    )
    zookeeper_set_acl = Option(False, boolean, "Make nodes that none but the brokers may change; needs TLS with a key.")
    zookeeper_ssl_client_enable = Option(False, boolean, "Speak TLS with ZooKeeper.")
    zookeeper_ssl_keystore_location = Option[str | None](
        None, nullable(text), "PEM file with the broker's key and certificates for ZooKeeper."
    )
    zookeeper_ssl_keystore_password = Option[str | None](None, nullable(text), "Password of that key.")
    zookeeper_ssl_keystore_type = Option("PEM", one_of("PEM"), "PEM; other stores have to be turned into it.")
    zookeeper_ssl_truststore_location = Option[str | None](
        None, nullable(text), "PEM file with the certificates that ZooKeeper's may be signed by; none: the system's."
    )
    zookeeper_ssl_truststore_type = Option("PEM", one_of("PEM"), "As zookeeper.ssl.keystore.type.")
    zookeeper_ssl_endpoint_identification_algorithm = Option(
        "HTTPS", one_of("HTTPS", "https", ""), "Whether ZooKeeper's certificate must be for its host name; empty: not."
    )
    log_dir = Option("./ottla-data", text, "Data directory, where log.dirs is not set.")
    log_dirs = Option[tuple[str, ...]]((), words(), "Data directories, with commas.")

    # Requests
    socket_request_max_bytes = Option(104857600, integer(1), "The largest request taken; above it the peer is cut off.")
    socket_send_buffer_bytes = Option(102400, integer(-1), "SO_SNDBUF of client connections; -1: the system's.")
    socket_receive_buffer_bytes = Option(102400, integer(-1), "SO_RCVBUF of client connections; -1: the system's.")
    socket_listen_backlog_size = Option(50, integer(1), "Connections that may wait to be accepted.")
    max_connections = Option(MAX_INT, integer(0), "The most connections at a time.")
    max_connections_per_ip = Option(MAX_INT, integer(0), "The most connections from one address at a time.")
    max_connections_per_ip_overrides = Option(
        dict[str, int](), limits_by_address, "ADDRESS:NUMBER, several with commas: other limits for some addresses."
    )
    max_connection_creation_rate = Option(MAX_INT, integer(0), "The most new connections per second.")
    queued_max_request_bytes = Option(
        -1, integer(-1), "Most memory of requests that are received or worked on; not positive: no bound."
    )
    quota_window_num = Option(11, integer(1), "Over how many windows quotas are measured.")
    quota_window_size_seconds = Option(1, integer(1), "Length of such a window.")
    controller_quota_window_num = Option(11, integer(1), "The same for changes of topics.")
    controller_quota_window_size_seconds = Option(1, integer(1), "The same for changes of topics.")
    connections_max_idle_ms = Option(600000, integer(-1), "Connections silent for longer are closed; -1: never.")
    num_io_threads = Option(8, integer(1), "Workers for what blocks: fsync, recovery, compaction.")
    fetch_max_bytes = Option(55 * 1024 * 1024, integer(1024), "The most bytes answered to one fetch.")
    max_incremental_fetch_session_cache_slots = Option(1000, integer(0), "Fetch sessions kept at the most.")
    request_timeout_ms = Option(30000, integer(0), "How long the broker waits for a request of its own.")

    # Topics
    num_partitions = Option(1, integer(1), "Partitions of a topic that is created without a number.")
    default_replication_factor = Option(1, integer(1), "Replicas of a topic that is created without a number.")
    auto_create_topics_enable = Option(True, boolean, "Create a topic when a client asks for an unknown one.")
    delete_topic_enable = Option(True, boolean, "Let clients delete topics.")
    min_insync_replicas = Option(1, integer(1), "Replicas that acks=all needs in sync.")
    compression_type = Option(
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Compression of stored batches.",
    )
    compression_gzip_level = Option(-1, integer(-1, 9), "Level of gzip where the broker compresses; -1 is the codec's.")
    compression_lz4_level = Option(9, integer(1, 17), "Level of lz4 where the broker compresses.")
    compression_zstd_level = Option(3, integer(-131072, 22), "Level of zstd where the broker compresses.")
    message_max_bytes = Option(1048588, integer(0), "The largest batch taken.")
    message_max_decompressed_bytes = Option(
        16777216,
        integer(1, MAX_INT),
        "What a producer's compressed batch may decompress to, in bytes; a larger one is MESSAGE_TOO_LARGE.",
    )
    unclean_leader_election_enable = Option(False, boolean, "Let a replica lead that is not in sync, and lose data.")

    # The log
    log_segment_bytes = Option(1073741824, integer(14), "Size at which a segment is closed.")
    log_roll_ms = Option[int | None](
        None, nullable(integer(1)), "Age at which a segment is closed; beats log.roll.hours."
    )
    log_roll_hours = Option(168, integer(1), "Age at which a segment is closed.")
    log_roll_jitter_ms = Option[int | None](None, nullable(integer(0)), "Random part taken off the age.")
    log_roll_jitter_hours = Option(0, integer(0), "Random part taken off the age.")
    log_retention_ms = Option[int | None](None, nullable(integer(-1)), "How long records are kept; -1: for ever.")
    log_retention_minutes = Option[int | None](None, nullable(integer(-1)), "The same in minutes.")
    log_retention_hours = Option(168, integer(-1), "The same in hours.")
    log_retention_bytes = Option(-1, integer(-1), "Size above which a partition's oldest segments go; -1: none.")
    log_retention_check_interval_ms = Option(300000, integer(1), "How often retention is looked at.")
    log_cleanup_policy = Option[tuple[str, ...]](
        ("delete",), words("delete", "compact"), "What happens to old segments."
    )
    log_cleaner_enable = Option(True, boolean, "Run the compaction of topics with cleanup.policy=compact.")
    log_cleaner_backoff_ms = Option(15000, integer(0), "Pause of the cleaner when nothing is dirty.")
    log_cleaner_dedupe_buffer_size = Option(134217728, integer(1024), "Most memory of the cleaner's offset map, bytes.")
    log_cleaner_threads = Option(
        1, integer(1), "Logs that are compacted at a time; they share the offset map's memory."
    )
    log_cleaner_io_buffer_load_factor = Option(0.9, number(0, 1), "How full the offset map may become.")
    log_cleaner_io_max_bytes_per_second = Option(
        1.7976931348623157e308, number(1), "Most bytes that compaction reads and writes a second."
    )
    log_cleaner_min_cleanable_ratio = Option(0.5, number(0, 1), "Share of a log that is dirty before it is cleaned.")
    log_cleaner_delete_retention_ms = Option(DAY_MS, integer(0), "How long tombstones stay readable.")
    log_cleaner_min_compaction_lag_ms = Option(0, integer(0), "Age below which a record is not compacted.")
    log_cleaner_max_compaction_lag_ms = Option(MAX_LONG, integer(1), "Age above which a record is compacted at once.")
    log_index_size_max_bytes = Option(10 * 1024 * 1024, integer(4), "The largest index file.")
    log_index_interval_bytes = Option(4096, integer(0), "Bytes of log between two entries of an index.")
    log_segment_delete_delay_ms = Option(60000, integer(0), "How long a removed segment's files stay.")
    log_flush_interval_messages = Option(MAX_LONG, integer(1), "Records after which a partition is fsynced.")
    log_flush_interval_ms = Option[int | None](None, nullable(integer(0)), "Age of a record at which it is fsynced.")
    log_flush_scheduler_interval_ms = Option(MAX_LONG, integer(1), "How often the age of records is looked at.")
    log_flush_offset_checkpoint_interval_ms = Option(60000, integer(0), "How often recovery points are written.")
    log_flush_start_offset_checkpoint_interval_ms = Option(60000, integer(0), "How often log starts are written.")
    replica_high_watermark_checkpoint_interval_ms = Option(5000, integer(1), "How often high watermarks are written.")
    log_message_timestamp_type = Option(
        "CreateTime", one_of("CreateTime", "LogAppendTime"), "Whose time records carry."
    )
    log_message_timestamp_before_max_ms = Option(MAX_LONG, integer(0), "How far back a record's time may lie.")
    log_message_timestamp_after_max_ms = Option(3600000, integer(0), "How far ahead a record's time may lie.")
    log_message_timestamp_difference_max_ms = Option(MAX_LONG, integer(0), "Older name of both of these bounds.")
    log_message_format_version = Option(
        "3.0-IV1", format_version, "Below 0.11 batches are stored in the message format of that version."
    )
    log_message_downconversion_enable = Option(True, boolean, "Answer old clients in old formats.")
    log_preallocate = Option(False, boolean, "Reserve a segment's bytes on the disk while it is written.")
    replica_lag_time_max_ms = Option(30000, integer(1), "A follower that is behind for longer is not in sync.")
    replica_fetch_wait_max_ms = Option(500, integer(0), "How long a leader may let a follower wait for records.")
    replica_fetch_min_bytes = Option(1, integer(1), "What a follower waits for.")
    replica_fetch_max_bytes = Option(1024 * 1024, integer(0), "The most a follower asks for of one partition.")
    replica_fetch_response_max_bytes = Option(10 * 1024 * 1024, integer(0), "The most a follower asks for at once.")
    replica_fetch_backoff_ms = Option(1000, integer(0), "Before a partition is fetched again that failed.")
    replica_socket_timeout_ms = Option(30000, integer(1), "How long a follower waits for an answer.")
    num_replica_fetchers = Option(1, integer(1), "Connections to each leader that partitions are fetched over.")
    replica_selector_class = Option[str | None](
        None,
        nullable(one_of(*SELECTORS.values(), aliases=SELECTORS)),
        "Which replica consumers are sent to; without it the leader.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second = Option(
        MAX_LONG, integer(1), "The most that moves between data directories may copy, in bytes per second."
    )
    leader_replication_throttled_rate = Option(
        MAX_LONG, integer(1), "What followers may fetch of throttled replicas, in bytes per second."
    )
    follower_replication_throttled_rate = Option(
        MAX_LONG, integer(1), "What throttled replicas may fetch, in bytes per second."
    )
    num_recovery_threads_per_data_dir = Option(2, integer(1), "Workers that recover logs at the start.")
    producer_id_expiration_ms = Option(DAY_MS, integer(1), "How long the state of a silent producer is kept.")

    # Groups
    group_min_session_timeout_ms = Option(6000, integer(1), "The shortest session.timeout.ms that members may ask for.")
    group_max_session_timeout_ms = Option(
        1800000, integer(1), "The longest session.timeout.ms that members may ask for."
    )
    group_initial_rebalance_delay_ms = Option(3000, integer(0), "How long an empty group waits for more members.")
    group_max_size = Option(MAX_INT, integer(1), "The most members of a group.")
    group_coordinator_rebalance_protocols = Option[tuple[str, ...]](
        ("classic", "consumer", "share"), words("classic", "consumer", "share"), "The protocols that groups may use."
    )
    group_consumer_session_timeout_ms = Option(
        45000, integer(1), "How long a member of a group.protocol=consumer group may be silent."
    )
    group_consumer_min_session_timeout_ms = Option(45000, integer(1), "The least that a group may set for it.")
    group_consumer_max_session_timeout_ms = Option(60000, integer(1), "The most that a group may set for it.")
    group_consumer_heartbeat_interval_ms = Option(5000, integer(1), "How often its members send heartbeats.")
    group_consumer_min_heartbeat_interval_ms = Option(5000, integer(1), "The least that a group may set for it.")
    group_consumer_max_heartbeat_interval_ms = Option(15000, integer(1), "The most that a group may set for it.")
    group_consumer_max_size = Option(MAX_INT, integer(1), "The most members of a group.protocol=consumer group.")
    group_consumer_assignors = Option[tuple[str, ...]](
        ("uniform", "range"),
        words(*SERVER_ASSIGNORS.values(), aliases=SERVER_ASSIGNORS),
        "The assignors of the broker's that members may ask for; the first is the default.",
    )
    group_consumer_migration_policy = Option(
        "bidirectional",
        one_of("bidirectional", "upgrade", "downgrade", "disabled"),
        "Which groups change their protocol while members are in them: classic ones to consumer (upgrade) and back.",
    )
    group_share_session_timeout_ms = Option(45000, integer(1), "How long a member of a share group may be silent.")
    group_share_min_session_timeout_ms = Option(45000, integer(1), "The least that a group may set for it.")
    group_share_max_session_timeout_ms = Option(60000, integer(1), "The most that a group may set for it.")
    group_share_heartbeat_interval_ms = Option(5000, integer(1), "How often its members send heartbeats.")
    group_share_min_heartbeat_interval_ms = Option(5000, integer(1), "The least that a group may set for it.")
    group_share_max_heartbeat_interval_ms = Option(15000, integer(1), "The most that a group may set for it.")
    group_share_max_size = Option(200, integer(1, 1000), "The most members of a share group.")
    group_share_record_lock_duration_ms = Option(
        30000, integer(1000, 3600000), "How long a record belongs to the member that acquired it."
    )
    group_share_min_record_lock_duration_ms = Option(
        15000, integer(1000, 30000), "The least that a group may set for it."
    )
    group_share_max_record_lock_duration_ms = Option(
        60000, integer(30000, 3600000), "The most that a group may set for it."
    )
    group_share_delivery_count_limit = Option(5, integer(2, 10), "How often a record is delivered at the most.")
    group_share_partition_max_record_locks = Option(
        2000, integer(100, 10000), "Records of a partition that a share group may have in the works."
    )
    group_share_max_share_sessions = Option(2000, integer(1), "Share sessions kept at the most.")
    share_coordinator_state_topic_num_partitions = Option(50, integer(1), "Partitions of __share_group_state.")
    share_coordinator_state_topic_replication_factor = Option(3, integer(1), "Replicas of __share_group_state.")
    share_coordinator_state_topic_min_isr = Option(2, integer(1), "min.insync.replicas of __share_group_state.")
    share_coordinator_state_topic_segment_bytes = Option(104857600, integer(1), "Segment size of __share_group_state.")
    group_consumer_regex_refresh_interval_ms = Option(
        600000, integer(10000), "How old the topics of a regular expression may be; other topics are seen at once."
    )
    offsets_topic_num_partitions = Option(50, integer(1), "Partitions of __consumer_offsets.")
    offsets_topic_replication_factor = Option(
        3, integer(1), "Replicas of __consumer_offsets; at most the brokers there are."
    )
    offsets_topic_segment_bytes = Option(104857600, integer(1), "Segment size of __consumer_offsets.")
    offsets_topic_compression_codec = Option(0, integer(0, 4), "Codec number of offset batches.")
    offset_metadata_max_bytes = Option(4096, integer(0), "The longest metadata text of a commit, in bytes.")
    offsets_retention_minutes = Option(10080, integer(1), "How long the offsets of an empty group are kept.")
    offsets_commit_timeout_ms = Option(5000, integer(1), "How long a commit may wait until its replicas have it.")
    offsets_retention_check_interval_ms = Option(600000, integer(1), "How often expired offsets are looked for.")

    # Transactions
    transaction_max_timeout_ms = Option(
        900000, integer(1), "The longest transaction.timeout.ms that producers may ask for."
    )
    transaction_state_log_num_partitions = Option(50, integer(1), "Partitions of __transaction_state.")
    transaction_state_log_replication_factor = Option(3, integer(1), "Replicas of __transaction_state.")
    transaction_state_log_min_isr = Option(
        2, integer(1), "min.insync.replicas of __transaction_state; at most its replicas."
    )
    transaction_state_log_segment_bytes = Option(104857600, integer(1), "Segment size of __transaction_state.")
    transaction_abort_timed_out_transaction_cleanup_interval_ms = Option(
        10000, integer(1), "How often transactions are looked for that are open for longer than their timeout."
    )
    transactional_id_expiration_ms = Option(604800000, integer(1), "How long a transactional id is kept without use.")
    transaction_remove_expired_transaction_cleanup_interval_ms = Option(
        3600000, integer(1), "How often expired transactional ids are looked for."
    )
    transaction_partition_verification_enable = Option(
        True, boolean, "Ask the coordinator whether a transaction has a partition before its first batch is taken."
    )
    add_partitions_to_txn_retry_backoff_ms = Option(
        20, integer(1), "Pause before another broker is asked again to take a first write into a transaction."
    )
    add_partitions_to_txn_retry_backoff_max_ms = Option(
        100, integer(0), "How long a first write may wait until the producer's last transaction has all its markers."
    )
    transaction_two_phase_commit_enable = Option(
        False, boolean, "Let producers open transactions that somebody else decides about."
    )
    producer_id_expiration_check_interval_ms = Option(600000, integer(1), "How often silent producers are looked for.")

    controlled_shutdown_enable = Option(True, boolean, "Hand partitions over before the broker stops.")
    controlled_shutdown_max_retries = Option(3, integer(0), "How often that is tried again.")
    controlled_shutdown_retry_backoff_ms = Option(5000, integer(0), "The pause before that.")
    auto_leader_rebalance_enable = Option(True, boolean, "Have preferred replicas lead again, after failures.")
    leader_imbalance_check_interval_seconds = Option(300, integer(1), "How often that is looked at.")
    leader_imbalance_per_broker_percentage = Option(
        10, integer(0), "Up to what share of its partitions a broker may not lead that are to be led by it."
    )
    metric_reporters = Option[tuple[str, ...]](
        (),
        words(),
        "Classes (package.module.Class) whose `client_telemetry` gets the metrics of clients.",
    )
    telemetry_max_bytes = Option(1048576, integer(1), "The most bytes of metrics that a client may send at a time.")

    def check(self) -> None:
        """Hold listeners and advertised listeners against each other and against what is served."""
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
                f"queued.max.request.bytes: {self.queued_max_request_bytes} is less than "
                f"socket.request.max.bytes ({self.socket_request_max_bytes}), so the largest request could not be taken"
            )
        if self.zookeeper_set_acl and not (self.zookeeper_ssl_client_enable and self.zookeeper_ssl_keystore_location):
            raise ConfigurationError(
                "zookeeper.set.acl: ZooKeeper has to know who makes the nodes; "
                "set zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
            )
        if any(e.host in ("", "0.0.0.0", "::") for e in self.advertised_listeners):
            raise ConfigurationError("advertised.listeners: a client cannot connect to 0.0.0.0; name a host")

        self._check_inter_broker_listener()
        self._check_bounds("session.timeout.ms")
        self._check_bounds("heartbeat.interval.ms")
        if not self.group_consumer_assignors:
            raise ConfigurationError("group.consumer.assignors: at least one is needed")

    def _check_inter_broker_listener(self) -> None:
        name = self.inter_broker_listener_name
        if name is not None and "security.inter.broker.protocol" in self.originals:
            raise ConfigurationError(
                "inter.broker.listener.name: security.inter.broker.protocol is set, too; only one of them may be"
            )
        if self.inter_broker_listener is None and (name is not None or self.zookeeper_connect is not None):
            option = "security.inter.broker.protocol" if name is None else "inter.broker.listener.name"
            served = ", ".join(f"{e.name} ({self.security_protocol(e.name)})" for e in self.listeners)
            listener_name = name or self.security_inter_broker_protocol
            raise ConfigurationError(f"{option}: {listener_name} is none of the listeners, which are {served}")

        if self.inter_broker_protocol.startswith("SASL") and self.zookeeper_connect is not None:
            self.broker_login()

    def _check_mechanisms(self, listener: str) -> None:
        wrong = [name for name in self.mechanisms(listener) if name not in MECHANISMS]
        if wrong or not self.mechanisms(listener):
            raise ConfigurationError(
                f"sasl.enabled.mechanisms: listener {listener} speaks SASL, and {', '.join(wrong) or 'nothing'} "
                f"cannot be offered there; {', '.join(MECHANISMS)} can"
            )
        if "PLAIN" in self.mechanisms(listener):
            self.passwords(listener)
        if "OAUTHBEARER" in self.mechanisms(listener):
            self.oauth_of(listener)

    def _check_bounds(self, name: str) -> None:
        least, most = (self.values[f"group.consumer.{bound}.{name}"] for bound in ("min", "max"))
        if not least <= self.values[f"group.consumer.{name}"] <= most:
            raise ConfigurationError(f"group.consumer.{name}: it must be between {least} and {most}")

    def security_protocol(self, listener: str) -> str:
        """The security protocol of a listener's name."""
        mapping = self.listener_security_protocol_map
        if listener not in mapping:
            raise ConfigurationError(f"listener.security.protocol.map: listener {listener} is not in it")
        return mapping[listener]

    def of_listener(self, listener: str, option: str) -> str | None:
        """An option that is set for one listener: `listener.name.<name>.<option>`."""
        value = self.originals.get(f"listener.name.{listener.lower()}.{option}")
        return None if value is None else str(value)

    def on_listener(self, listener: str, option: str) -> Any:
        """An option's value on one listener: what is set for it alone, or for all. ConfigurationError names it."""
        own = self.of_listener(listener, option)
        return self.values[option] if own is None else self.options[option].read(own)

    def tls_of(self, listener: str) -> TlsConfig:
        """The options of TLS on one listener: those set for it alone, over those set for all."""
        own = {key: self.of_listener(listener, key) for key in SslConfig.options}
        common = {key: self.originals[key] for key in SslConfig.options if key in self.originals}
        return TlsConfig({**common, **{key: value for key, value in own.items() if value is not None}})

    def client_auth(self, listener: str) -> str:
        """Whether clients of a listener show certificates; where SASL tells who they are, only if it says so itself."""
        option = "ssl.client.auth"
        if self.security_protocol(listener) == "SASL_SSL" and self.of_listener(listener, option) is None:
            return "none"  # KIP-684
        return str(self.on_listener(listener, option))

    def mechanisms(self, listener: str) -> tuple[str, ...]:
        """The mechanisms of SASL that a listener offers."""
        names: tuple[str, ...] = self.on_listener(listener, "sasl.enabled.mechanisms")
        return names

    def first_request_bytes(self, listener: str) -> int:
        """The most bytes of a request on a listener before it is known whose it is."""
        without_sasl = not self.security_protocol(listener).startswith("SASL")
        return self.socket_request_max_bytes if without_sasl else self.sasl_server_max_receive_size

    def max_reauth_ms(self, listener: str, mechanism: str) -> int:
        """How long clients are known on a listener by a mechanism; 0: as long as they stay."""
        option = "connections.max.reauth.ms"
        own = self.of_listener(listener, f"{mechanism.lower()}.{option}")
        return int(self.on_listener(listener, option) if own is None else self.options[option].read(own))

    def passwords(self, listener: str) -> dict[str, str]:
        """Who is known by PLAIN on a listener, from its line of JAAS: `user_<name>="<password>"`."""
        login = self._jaas(listener, "PLAIN")
        if login.module != PLAIN_MODULE:
            raise ConfigurationError(
                f"{_jaas_option(listener, 'PLAIN')}: …{PLAIN_MODULE} is wanted, not {login.module}"
            )
        return {name[5:]: password for name, password in login.options.items() if name.startswith("user_")}

    def oauth_of(self, listener: str) -> OAuthCheckConfig:
        """Which tokens a listener takes: by the options set for it alone, over those set for all."""
        own = {key: self.of_listener(listener, key) for key in OAuthCheckConfig.options}
        common = {key: self.originals[key] for key in OAuthCheckConfig.options if key in self.originals}
        return OAuthCheckConfig({**common, **{key: value for key, value in own.items() if value is not None}})

    def oauth_jaas(self, listener: str) -> Jaas:
        """A listener's line of JAAS for OAUTHBEARER: which unsecured tokens it takes, and what this broker shows."""
        login = self._jaas(listener, "OAUTHBEARER")
        if login.module != OAUTH_MODULE:
            raise ConfigurationError(
                f"{_jaas_option(listener, 'OAUTHBEARER')}: …{OAUTH_MODULE} is wanted, not {login.module}"
            )
        return login

    def broker_login(self) -> tuple[str, Mapping[str, str]]:
        """The mechanism by which this broker is known to the others, and what its line of JAAS says for that."""
        listener, mechanism = self.inter_broker_listener, self.sasl_mechanism_inter_broker_protocol
        assert listener is not None
        if mechanism not in self.mechanisms(listener.name):
            offered = ", ".join(self.mechanisms(listener.name))
            raise ConfigurationError(
                f"sasl.mechanism.inter.broker.protocol: {mechanism} is not offered by listener {listener.name}, "
                f"where brokers meet; {offered} is"
            )
        options = self._jaas(listener.name, mechanism).options
        if mechanism != "OAUTHBEARER" and not {"username", "password"} <= options.keys():
            option = _jaas_option(listener.name, mechanism)
            raise ConfigurationError(f'{option}: username="…" and password="…" are wanted, for the other brokers')
        return mechanism, options

    def _jaas(self, listener: str, mechanism: str) -> Jaas:
        option = _jaas_option(listener, mechanism)
        line = self.originals.get(option)
        if line is None:
            raise ConfigurationError(f"{option}: it is needed: …{MODULES[mechanism]};")
        try:
            return jaas(line)
        except ValueError as error:
            raise ConfigurationError(f"{option}: {error}") from None

    @property
    def inter_broker_protocol(self) -> str:
        """The security protocol that brokers speak among themselves."""
        listener = self.inter_broker_listener
        return self.security_inter_broker_protocol if listener is None else self.security_protocol(listener.name)

    @property
    def inter_broker_listener(self) -> Endpoint | None:
        """The listener that brokers use among themselves; None where there is no such one."""
        name, protocol = self.inter_broker_listener_name, self.security_inter_broker_protocol
        if name is not None:
            return next((e for e in self.listeners if e.name == name), None)
        speaking = [e for e in self.listeners if self.security_protocol(e.name) == protocol]
        return next((e for e in speaking if e.name == protocol), next(iter(speaking), None))

    @property
    def id(self) -> int:
        """The broker's id by either of its two names; -1: to be taken from the data directory."""
        return self.node_id if self.node_id >= 0 else self.broker_id

    @property
    def data_dirs(self) -> tuple[str, ...]:
        """The data directories by either of their two names."""
        return self.log_dirs or (self.log_dir,)


def _jaas_option(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


DYNAMIC = frozenset(
    {
        *(synonym for synonyms in BROKER_SYNONYMS.values() for synonym in synonyms),
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
    }
)
"""Options that can be set while the broker runs (KIP-226): the defaults of topics, and those read at each use."""

RENEWED = frozenset(
    {
        "ssl.key.password",
        *(f"ssl.keystore.{part}" for part in ("certificate.chain", "key", "location", "password", "type")),
        *(f"ssl.truststore.{part}" for part in ("certificates", "location", "password", "type")),
    }
)
"""Options of one listener that can be set on a running broker, so that certificates do not outlive their dates."""


def renewed_listener(option: str) -> str | None:
    """The listener, in small letters, that one of `RENEWED` is set for: `listener.name.<listener>.<option>`."""
    prefix, _, rest = option.partition("listener.name.")
    listener, _, key = rest.partition(".")
    return listener if not prefix and key in RENEWED else None
