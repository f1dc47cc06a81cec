"""Options of single groups (resource type GROUP): Kafka's names and bounds; the defaults are the broker's."""

from __future__ import annotations

from ottla.config.options import Config, Option, integer, one_of

EARLIEST, LATEST = "earliest", "latest"


class GroupConfig(Config, subject="group"):
    """What can be set on one group. The broker's `group.consumer.*` and `group.share.*` options say within which
    bounds."""

    consumer_session_timeout_ms = Option(45000, integer(1), "How long a member may be silent.")
    consumer_heartbeat_interval_ms = Option(5000, integer(1), "How often members send heartbeats.")
    share_session_timeout_ms = Option(45000, integer(1), "How long a member of a share group may be silent.")
    share_heartbeat_interval_ms = Option(5000, integer(1), "How often members of a share group send heartbeats.")
    share_record_lock_duration_ms = Option(
        30000, integer(1000), "How long a record belongs to the member of a share group that acquired it."
    )
    share_auto_offset_reset = Option(LATEST, one_of(EARLIEST, LATEST), "Where a share group begins a new partition.")
