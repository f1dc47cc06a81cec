"""Options of single groups (resource type GROUP): Kafka's names and bounds; the defaults are the broker's."""

from __future__ import annotations

from ottla.config.options import Config, Option, integer, one_of

EARLIEST, LATEST = "earliest", "latest"


class GroupConfig(Config, subject="group"):
    """What can be set on one group. The broker's `group.consumer.*` options say within which bounds."""

    consumer_session_timeout_ms = Option(45000, integer(1), "How long a member may be silent.")
    consumer_heartbeat_interval_ms = Option(5000, integer(1), "How often members send heartbeats.")
    share_auto_offset_reset = Option(LATEST, one_of(EARLIEST, LATEST), "Where a share group begins a new partition.")
