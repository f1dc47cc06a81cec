"""Names of topics at the target, and the cluster that a topic was copied from: Kafka's `ReplicationPolicy`."""

from __future__ import annotations

from typing import Final

from ottla.config.mirror import IDENTITY, MirrorConfig

HEARTBEATS: Final = "heartbeats"


class ReplicationPolicy:
    """`DefaultReplicationPolicy`: a topic of cluster A is `A.topic` at the target, with `.` as the separator.

    `internal_separator` is the separator in names of MirrorMaker's own topics.
    """

    heartbeats_topic: Final = HEARTBEATS

    def __init__(self, separator: str = ".", internal_separator: str = ".") -> None:
        self._separator = separator
        self._internal_separator = internal_separator

    def remote_topic(self, source: str, topic: str) -> str:
        """Return the name that a topic of the cluster `source` has at the target."""
        return source + self._separator + topic

    def source_of(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was copied from; None if it is not a copy.

        Any topic counts as a copy if its name has the separator and something after it.
        """
        source, _, upstream = topic.partition(self._separator)
        return source if upstream else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a copied topic at the cluster it was copied from; None if it is not a copy."""
        return topic.partition(self._separator)[2] or None

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Return whether a topic is the heartbeats topic, or a direct or indirect copy of it."""
        return topic == HEARTBEATS or topic.endswith(self._separator + HEARTBEATS)

    def is_internal_topic(self, topic: str) -> bool:
        """Return whether a topic's name has a prefix or suffix of internal topics, such as `__` or `.internal`."""
        return topic.startswith(("__", ".")) or topic.endswith(("-internal", ".internal", self._internal(".internal")))

    def is_cycle(self, topic: str, target: str) -> bool:
        """Return whether the name of a topic shows that it comes from the target, so that its records must not be
        copied back.
        """
        upstream: str | None = topic
        while upstream is not None:
            if self.source_of(upstream) == target:
                return True
            upstream = self.upstream_topic(upstream)
        return False

    def offset_syncs_topic(self, other: str) -> str:
        """Return the name of the offset syncs topic. `other`: the alias of the cluster that does not have it."""
        return self._internal("mm2-offset-syncs.") + other + self._internal(".internal")

    def checkpoints_topic(self, source: str) -> str:
        """Return the name of the topic with the translated group offsets of the cluster `source`."""
        return source + self._internal(".checkpoints.internal")

    def _internal(self, name: str) -> str:
        return name.replace(".", self._internal_separator)


class IdentityReplicationPolicy(ReplicationPolicy):
    """Topics keep their names at the target, except those that end with `heartbeats`."""

    def remote_topic(self, source: str, topic: str) -> str:
        return super().remote_topic(source, topic) if topic.endswith(HEARTBEATS) else topic

    def source_of(self, topic: str) -> str | None:
        return super().source_of(topic) if topic.endswith(HEARTBEATS) else None

    def upstream_topic(self, topic: str) -> str | None:
        return super().upstream_topic(topic) if topic.endswith(HEARTBEATS) else None


def replication_policy(config: MirrorConfig) -> ReplicationPolicy:
    """Return the replication policy, with its separators, that the config of a flow selects."""
    separator = config.replication_policy_separator
    internal = separator if config.replication_policy_internal_topic_separator_enabled else "."
    kind = IdentityReplicationPolicy if config.replication_policy_class == IDENTITY else ReplicationPolicy
    return kind(separator, internal)
