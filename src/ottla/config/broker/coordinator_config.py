"""The coordinators of groups, share partitions and transactions."""

from __future__ import annotations

from ottla.config.options import Config, Option, boolean, integer, one_of, words
from ottla.config.topic import INT_MAX
from ottla.errors import ConfigurationError

SERVER_ASSIGNORS = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""The names of the broker's assignors, by Kafka's class names."""


class GroupCoordinatorConfig(Config):
    """Options of the group coordinator and the share coordinator. Groups can set some of them themselves."""

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
        INT_MAX,
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
        INT_MAX,
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
        INT_MAX,
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

    def check(self) -> None:
        """Raise ConfigurationError if the defaults and bounds of group configs do not match, as Kafka's
        GroupCoordinatorConfig and ShareGroupConfig do.
        """
        super().check()
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
        if not self.group_consumer_assignors:
            raise ConfigurationError("group.consumer.assignors: at least one is needed")

    def _check_bounds(self, kind: str, name: str) -> None:
        least, most = (self.values[f"group.{kind}.{bound}.{name}"] for bound in ("min", "max"))
        if not least <= self.values[f"group.{kind}.{name}"] <= most:
            raise ConfigurationError(f"group.{kind}.{name}: it must be between {least} and {most}")


class TransactionConfig(Config):
    """Options of the transaction coordinator."""

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
