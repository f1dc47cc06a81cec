"""The options of a replication flow of `ottla mirror-maker`: names, defaults and bounds of Kafka's MirrorMaker 2."""

from __future__ import annotations

import re
import warnings
from typing import Any, Final

from ottla.config.options import Config, Option, boolean, integer, one_of, text
from ottla.errors import ConfigurationError

IDENTITY: Final = "identity"
DEFAULT: Final = "default"
POLICIES: Final = {
    "org.apache.kafka.connect.mirror.DefaultReplicationPolicy": DEFAULT,
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy": IDENTITY,
}
"""Java's replication policies and their equivalents."""
CONNECT: Final = "it belongs to Kafka Connect, on which this tool does not run"
NO_EFFECT: Final = {  # with the reasons; a name that ends with a dot is a prefix
    "tasks.max": "one process copies all partitions of a flow",
    "config.storage.": CONNECT,
    "status.storage.": CONNECT,
    "key.converter": CONNECT,
    "value.converter": CONNECT,
    "header.converter": CONNECT,
    "dedicated.mode.enable.internal.rest": CONNECT,
    "listeners": CONNECT,
    "admin.timeout.ms": "the time limits are those of the admin clients (default.api.timeout.ms)",
    "metric.reporters": "the progress is printed; --json prints it for programs",
}
"""Options of MirrorMaker 2 that are accepted without effect."""


def patterns(value: Any) -> re.Pattern[str] | None:
    """Parse names and regular expressions separated by commas, one of which must match a whole name; empty: None."""
    items = [item.strip() for item in (value.split(",") if isinstance(value, str) else value)]
    joined = "|".join(item for item in items if item)
    if not joined:
        return None
    try:
        with warnings.catch_warnings():
            # Java's nested sets, such as [a-z&&[^x]], have another meaning in Python, which warns.
            warnings.simplefilter("error", FutureWarning)
            return re.compile(joined)
    except (re.error, FutureWarning) as error:
        raise ValueError(f"not a valid regular expression: {error}") from None


def _replicas(what: str) -> Option[int]:
    return Option(
        3, integer(-1), f"Replication factor with which {what} is created at the target; -1: the target's default."
    )


class MirrorConfig(Config, subject="mirror maker", no_effect=NO_EFFECT):
    """Options of one flow, from a source to a target cluster."""

    enabled = Option(
        False,
        boolean,
        "Whether the flow copies topics and translates offsets of groups. If false, the flow at most writes heartbeats "
        "(emit.heartbeats.enabled).",
    )
    topics = Option(
        patterns(".*"),
        patterns,
        "Topics to copy, in addition to those of heartbeats.replication.enabled: names and regular expressions, "
        "separated by commas; empty: none. Internal topics are never copied. Topics that come from the target are not "
        "copied either; the identity policy recognizes only heartbeats topics as such.",
    )
    topics_exclude = Option(
        patterns(r".*[\-\.]internal, .*\.replica, __.*"),
        patterns,
        "Topics not to copy, even if they match the config `topics`: names and regular expressions, separated by "
        "commas; empty: none. It does not exclude heartbeats topics while heartbeats.replication.enabled is true.",
    )
    groups = Option(
        patterns(".*"),
        patterns,
        "Groups whose offsets are translated: names and regular expressions, separated by commas; empty: none.",
    )
    groups_exclude = Option(
        patterns("console-consumer-.*, connect-.*, __.*"),
        patterns,
        "Groups whose offsets are not translated, even if they match the config `groups`: names and regular "
        "expressions, separated by commas; empty: none.",
    )
    replication_policy_class = Option(
        DEFAULT,
        one_of(DEFAULT, IDENTITY, aliases=POLICIES),
        "How topics are named in the target cluster: default (SOURCE.topic), identity (unchanged, except for "
        "topics whose names end with heartbeats, which are named as with default), or the Java class of either policy.",
    )
    replication_policy_separator = Option(
        ".",
        text,
        "Separator between the alias of the source and the topic's name in the names of copied topics; it must not be "
        "empty. With the identity policy, only copies of heartbeats topics have it.",
    )
    replication_policy_internal_topic_separator_enabled = Option(
        True,
        boolean,
        "Whether the names of MirrorMaker's checkpoints and offset syncs topics have replication.policy.separator "
        "instead of dots.",
    )
    replication_factor = Option(
        2,
        integer(-1),
        "Replication factor with which copied topics are created at the target; -1: the target's default.",
    )
    refresh_topics_enabled = Option(
        True,
        boolean,
        "Whether to look for new topics and partitions every refresh.topics.interval.seconds; if false, only at the "
        "start.",
    )
    refresh_topics_interval_seconds = Option(
        600,
        integer(1),
        "Interval in seconds between look-ups of new topics and partitions at the source. No effect if "
        "refresh.topics.enabled is false.",
    )
    sync_topic_configs_enabled = Option(
        True,
        boolean,
        "Whether the configs of copied topics are set to those of the source every "
        "sync.topic.configs.interval.seconds. If false, they are only copied when a topic is created.",
    )
    sync_topic_configs_interval_seconds = Option(
        600,
        integer(1),
        "Interval in seconds at which configs of topics are copied to the target. No effect if "
        "sync.topic.configs.enabled is false.",
    )
    config_properties_exclude = Option(
        patterns(
            r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
            r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, "
            r"unclean\.leader\.election\.enable, min\.insync\.replicas"
        ),
        patterns,
        "Configs of topics that are not copied: names and regular expressions, separated by commas; empty: none.",
    )
    use_defaults_from = Option(
        "target",
        one_of("source", "target"),
        "Cluster whose defaults apply to topic configs that are not set at the source: target or source. With source, "
        "the source's default values are set at the target, except those that its brokers' configs set.",
    )
    sync_topic_acls_enabled = Option(
        True,
        boolean,
        "Whether the ACLs of each copied topic (pattern type LITERAL) are created at the target; they are never "
        "deleted there. ACLs that allow Write are left out, and those that allow All are copied as Read.",
    )
    sync_topic_acls_interval_seconds = Option(
        600,
        integer(1),
        "Interval in seconds at which ACLs are copied to the target. No effect if sync.topic.acls.enabled is false.",
    )
    emit_heartbeats_enabled = Option(
        True, boolean, "Whether the flow writes heartbeats to the heartbeats topic of the target."
    )
    emit_heartbeats_interval_seconds = Option(
        1,
        integer(1),
        "Interval in seconds at which the flow writes heartbeats. No effect if emit.heartbeats.enabled is false.",
    )
    heartbeats_topic_replication_factor = _replicas("the heartbeats topic")
    heartbeats_replication_enabled = Option(
        True,
        boolean,
        "Whether heartbeats topics of the source are copied even if topics does not match them or topics.exclude does.",
    )
    emit_checkpoints_enabled = Option(
        True,
        boolean,
        "Whether the offsets of groups are translated and written to the checkpoints topic of the target. No effect if "
        "emit.offset-syncs.enabled is false.",
    )
    emit_checkpoints_interval_seconds = Option(
        60,
        integer(1),
        "Interval in seconds at which the offsets of groups are translated and written as checkpoints. No effect if "
        "emit.checkpoints.enabled is false.",
    )
    checkpoints_topic_replication_factor = _replicas("the checkpoints topic")
    refresh_groups_enabled = Option(
        True,
        boolean,
        "Whether to look for new groups every refresh.groups.interval.seconds; if false, only at the start.",
    )
    refresh_groups_interval_seconds = Option(
        600,
        integer(1),
        "Interval in seconds between look-ups of new groups at the source. No effect if refresh.groups.enabled is "
        "false.",
    )
    sync_group_offsets_enabled = Option(
        False,
        boolean,
        "Whether translated offsets are committed at the target for groups that have no members there. Requires "
        "emit.checkpoints.enabled and emit.offset-syncs.enabled.",
    )
    sync_group_offsets_interval_seconds = Option(
        60,
        integer(1),
        "Interval in seconds at which translated offsets are committed at the target. No effect if "
        "sync.group.offsets.enabled is false.",
    )
    emit_offset_syncs_enabled = Option(
        True,
        boolean,
        "Whether offset syncs are recorded: pairs of an offset at the source and the offset of the same record at the "
        "target. Without them, offsets of groups cannot be translated.",
        key="emit.offset-syncs.enabled",
    )
    offset_syncs_topic_location = Option(
        "source",
        one_of("source", "target"),
        "Cluster in which the offset syncs topic is created: source or target.",
        key="offset-syncs.topic.location",
    )
    offset_syncs_topic_replication_factor = Option(
        3,
        integer(-1),
        "Replication factor with which the offset syncs topic is created; -1: the default of its cluster.",
        key="offset-syncs.topic.replication.factor",
    )
    offset_lag_max = Option(
        100,
        integer(0),
        "Maximum number of records between two offset syncs of a partition; 0: a sync for every record. With a lower "
        "value, offsets of groups are translated more exactly.",
    )
    exactly_once_source_support = Option(
        "preferred",
        one_of("preferred", "enabled", "preparing", "disabled"),
        "enabled: copy each record exactly once, in transactions; disabled: at least once; preferred: exactly once if "
        "the target supports transactions; preparing: same as disabled.",
    )
    offset_storage_topic = Option(
        "",
        text,
        "Compacted topic of the target that stores the offsets up to which the source was copied. It is created if it "
        "does not exist; empty: mm2-offsets.SOURCE.internal.",
    )
    offset_storage_partitions = Option(
        25, integer(1), "Number of partitions with which the topic in offset.storage.topic is created."
    )
    offset_storage_replication_factor = _replicas("the topic in offset.storage.topic")
    consumer_poll_timeout_ms = Option(
        1000, integer(0), "Maximum time in milliseconds that a poll of the source waits for records."
    )

    def check(self) -> None:
        """Raise ConfigurationError if the separator is empty, or if offsets are to be committed without being
        translated.
        """
        if not self.replication_policy_separator:
            raise ConfigurationError("replication.policy.separator must not be empty")
        if self.sync_group_offsets_enabled and not (self.emit_offset_syncs_enabled and self.emit_checkpoints_enabled):
            raise ConfigurationError(
                "sync.group.offsets.enabled needs emit.offset-syncs.enabled and emit.checkpoints.enabled"
            )
