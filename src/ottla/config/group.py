"""Options of single groups (resource type GROUP): Kafka's names and bounds; the defaults are the broker's."""

from __future__ import annotations

from ottla.config.options import Config, Option, boolean, integer, one_of, reset_policy

EARLIEST, LATEST = "earliest", "latest"
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"


class GroupConfig(Config, subject="group"):
    """The configs of one group. Values outside the bounds of the broker's `group.consumer.*`, `group.share.*` and
    `group.streams.*` configs are limited to them.
    """

    consumer_session_timeout_ms = Option(
        45000,
        integer(1),
        "Time in milliseconds without a heartbeat after which a member of a consumer group is removed.",
    )
    consumer_heartbeat_interval_ms = Option(
        5000, integer(1), "Interval in milliseconds between heartbeats of a consumer group's members."
    )
    consumer_assignment_interval_ms = Option(
        0, integer(0), "Minimum time in milliseconds between two assignments of a consumer group; 0: no minimum."
    )
    share_session_timeout_ms = Option(
        45000, integer(1), "Time in milliseconds without a heartbeat after which a member of a share group is removed."
    )
    share_heartbeat_interval_ms = Option(
        5000, integer(1), "Interval in milliseconds between heartbeats of a share group's members."
    )
    share_record_lock_duration_ms = Option(
        30000, integer(1000), "Time in milliseconds that a record is locked for the member that acquired it."
    )
    share_delivery_count_limit = Option(5, integer(2), "Maximum number of deliveries of a record to a share group.")
    share_partition_max_record_locks = Option(
        2000, integer(100), "Maximum number of records of a partition that a share group has in flight."
    )
    share_auto_offset_reset = Option(
        LATEST,
        reset_policy(EARLIEST, LATEST),
        "Where a share group starts in a new partition: latest, earliest or by_duration:PT1H (the first record of the "
        "last hour).",
    )
    share_isolation_level = Option(
        READ_UNCOMMITTED,
        one_of(READ_COMMITTED, READ_UNCOMMITTED),
        "read_committed: a share group gets no records of aborted or open transactions; read_uncommitted: all records.",
    )
    share_renew_acknowledge_enable = Option(
        True, boolean, "Allow members of a share group to renew the locks of records that they have acquired."
    )
    share_assignment_interval_ms = Option(
        0, integer(0), "Minimum time in milliseconds between two assignments of a share group; 0: no minimum."
    )
    streams_session_timeout_ms = Option(
        45000,
        integer(1),
        "Time in milliseconds without a heartbeat after which a member of a streams group is removed.",
    )
    streams_heartbeat_interval_ms = Option(
        5000, integer(1), "Interval in milliseconds between heartbeats of a streams group's members."
    )
    streams_num_standby_replicas = Option(
        0, integer(0), "Number of standby tasks, copies of the state, for each stateful task of a streams group."
    )
    streams_initial_rebalance_delay_ms = Option(
        3000,
        integer(0),
        "Time in milliseconds that the first assignment of an empty streams group waits for more members.",
    )
    streams_assignment_interval_ms = Option(
        1000, integer(0), "Minimum time in milliseconds between two assignments of a streams group; 0: no minimum."
    )
