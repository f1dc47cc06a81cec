"""What the admin client takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.model import Node, TopicPartition

TOPIC = 2
BROKER = 4


class NewTopic(NamedTuple):
    """A topic to make. -1 partitions or replicas: the broker's default; or every partition's replicas by hand."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] | None = None
    topic_configs: Mapping[str, str] | None = None


class NewPartitions(NamedTuple):
    """How many partitions a topic shall have, and where the replicas of each new one go (None: the broker decides)."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


class ConfigResource(NamedTuple):
    """What has options: type 2 a topic, 4 a broker. `configs` are the options to set, or (names only) to describe."""

    resource_type: int
    name: str
    configs: Mapping[str, str | None] | Sequence[str] | None = None


class ConfigEntry(NamedTuple):
    """One option. The source is 1 topic, 2 broker, 3 all brokers, 4 broker's file, 5 default…"""

    name: str
    value: str | None
    read_only: bool
    source: int
    is_sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source == 5


class ClusterDescription(NamedTuple):
    """The cluster and its brokers; controller None when there is none at the moment."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]


class GroupListing(NamedTuple):
    """One group as a list shows it."""

    group_id: str
    protocol_type: str
    state: str


class GroupMember(NamedTuple):
    """One member of a group, and the partitions it reads."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    """One group with its members; `protocol` is the assignor."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]
