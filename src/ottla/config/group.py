"""Options of single groups (resource type GROUP): Kafka's names and bounds; most defaults are the broker's."""

from __future__ import annotations

from ottla.config.options import Config, Option, boolean, integer, one_of, reset_policy

EARLIEST, LATEST = "earliest", "latest"
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"


class GroupConfig(Config, subject="group"):
    """The configs of one group. `GroupConfigs` limits the numeric ones to the bounds that the broker's configs set."""

    consumer_session_timeout_ms = Option(
        45000,
        integer(1),
        "Time in milliseconds without a heartbeat after which a member of a consumer group is removed; members that "
        "use the classic protocol have their own session.timeout.ms. Must be longer than "
        "consumer.heartbeat.interval.ms. Not set: the broker's group.consumer.session.timeout.ms.",
    )
    consumer_heartbeat_interval_ms = Option(
        5000,
        integer(1),
        "Interval in milliseconds at which members of a consumer group send heartbeats; members that use the classic "
        "protocol have their own heartbeat.interval.ms. Not set: the broker's group.consumer.heartbeat.interval.ms.",
    )
    consumer_assignment_interval_ms = Option(
        0,
        integer(0),
        "Minimum time in milliseconds between two assignments of a consumer group; 0: no minimum. Not set: the "
        "broker's group.consumer.assignment.interval.ms.",
    )
    share_session_timeout_ms = Option(
        45000,
        integer(1),
        "Time in milliseconds without a heartbeat after which a member of a share group is removed. Must be longer "
        "than share.heartbeat.interval.ms. Not set: the broker's group.share.session.timeout.ms.",
    )
    share_heartbeat_interval_ms = Option(
        5000,
        integer(1),
        "Interval in milliseconds at which members of a share group send heartbeats. Not set: the broker's "
        "group.share.heartbeat.interval.ms.",
    )
    share_record_lock_duration_ms = Option(
        30000,
        integer(1000),
        "Time in milliseconds for which a record is locked for the member of a share group that acquired it; if the "
        "member has not acknowledged it by then, it can be delivered again. Not set: the broker's "
        "group.share.record.lock.duration.ms.",
    )
    share_delivery_count_limit = Option(
        5,
        integer(2),
        "Maximum number of times that a record is delivered to a share group before it is archived. Not set: the "
        "broker's group.share.delivery.count.limit.",
    )
    share_partition_max_record_locks = Option(
        2000,
        integer(100),
        "Maximum number of records of a partition that a share group can have in flight; at this number, it gets no "
        "further ones until the first of them are acknowledged or archived. Not set: the broker's "
        "group.share.partition.max.record.locks.",
    )
    share_auto_offset_reset = Option(
        LATEST,
        reset_policy(EARLIEST, LATEST),
        "Position at which a share group starts in a partition that it has not read yet: latest, earliest or "
        "by_duration:DURATION, such as by_duration:PT1H (the first record of the last hour).",
    )
    share_isolation_level = Option(
        READ_UNCOMMITTED,
        one_of(READ_COMMITTED, READ_UNCOMMITTED),
        "read_committed: a share group gets no records of aborted or open transactions; read_uncommitted: all records.",
    )
    share_renew_acknowledge_enable = Option(
        True, boolean, "Whether members of a share group may renew the locks of records that they have acquired."
    )
    share_assignment_interval_ms = Option(
        0,
        integer(0),
        "Minimum time in milliseconds between two assignments of a share group; 0: no minimum. Not set: the broker's "
        "group.share.assignment.interval.ms.",
    )
    streams_session_timeout_ms = Option(
        45000,
        integer(1),
        "Time in milliseconds without a heartbeat after which a member of a streams group is removed. Must be longer "
        "than streams.heartbeat.interval.ms. Not set: the broker's group.streams.session.timeout.ms.",
    )
    streams_heartbeat_interval_ms = Option(
        5000,
        integer(1),
        "Interval in milliseconds at which members of a streams group send heartbeats. Not set: the broker's "
        "group.streams.heartbeat.interval.ms.",
    )
    streams_num_standby_replicas = Option(
        0,
        integer(0),
        "Number of standby tasks, which maintain copies of the state, for each stateful task of a streams group; fewer "
        "if there are not enough processes. Not set: the broker's group.streams.num.standby.replicas.",
    )
    streams_initial_rebalance_delay_ms = Option(
        3000,
        integer(0),
        "Time in milliseconds that the first assignment of an empty streams group waits for more members; 0: it does "
        "not wait. Not set: the broker's group.streams.initial.rebalance.delay.ms.",
    )
    streams_assignment_interval_ms = Option(
        1000,
        integer(0),
        "Minimum time in milliseconds between two assignments of a streams group; 0: no minimum. Not set: the broker's "
        "group.streams.assignment.interval.ms.",
    )
