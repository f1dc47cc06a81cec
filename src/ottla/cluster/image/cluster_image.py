"""An immutable image of the cluster's metadata: brokers, topics, leaders. Each change creates a new image."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from os.path import normpath
from types import MappingProxyType
from uuid import UUID

from ottla.cluster.image.features import highest
from ottla.cluster.store import config_entities
from ottla.config.broker.listener_config import Endpoint
from ottla.config.broker.log_config import ALL_DIRS
from ottla.model import INTERNAL_TOPICS, Node, TopicPartition

NO_LEADER = -1
CORDONED = "cordoned.log.dirs"


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """The state of one partition.

    `leader`: broker id, or NO_LEADER. `replicas`: broker ids, the preferred leader first.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    state_version: int = 0
    """The version of the partition's state znode, which every write increments, such as a change of leader or ISR.

    Kafka's partition epoch.
    """
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment in progress adds; `replicas` contains them."""
    removing: tuple[int, ...] = ()
    """Replicas that will be removed when the reassignment is complete; `replicas` contains them."""
    failed: tuple[int, ...] = ()
    """Offline replicas of live brokers, such as those on failed log directories (KIP-112). Not part of the state znode.
    """
    modified: int = field(default=0, compare=False)
    """The zxid of the last write of the state znode at the time when it was read from ZooKeeper; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic: its partitions by index, and its configs."""

    name: str
    id: UUID
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """The registration of a live broker."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    """The broker epoch: `ZNode.created` of its registration, in ZooKeeper its zxid (KIP-380); -1 if unknown."""
    log_dirs: tuple[str, ...] = ()
    """Its log directories. In the image of a broker that is not the controller, only that broker has them."""
    cordoned_log_dirs: tuple[str, ...] = ()
    """Its log directories in `cordoned.log.dirs` of its config file. They are in the same images as `log_dirs`."""

    def node(self, listener: str) -> Node:
        """Return the broker's address on the listener with this name; if there is none, on its first listener."""
        for endpoint in self.endpoints:
            if endpoint.name == listener:
                return Node(self.id, endpoint.host, endpoint.port, self.rack)
        first = self.endpoints[0]
        return Node(self.id, first.host, first.port, self.rack)


@dataclass(frozen=True)
class ClusterImage:
    """The metadata of the cluster at one point in time."""

    cluster_id: str
    controller_id: int = -1
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)
    """Topic names by id."""
    features: Mapping[str, int] = field(default_factory=highest)
    """Levels of the cluster's features."""
    features_epoch: int = 0
    """The number of times that feature levels were written."""
    deleting: Mapping[str, TopicImage] = field(default_factory=dict)
    """Topics that are being deleted: unavailable, but some logs may still be on disks.

    Only the controller keeps them up to date.
    """
    shutting_down: frozenset[int] = frozenset()
    """Brokers in their controlled shutdown. Only the controller keeps them up to date."""
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dynamic configs of brokers, clients, users, IP addresses, groups and client metrics, by entity path (see
    `config_entities`).
    """

    @property
    def racks(self) -> Mapping[int, str | None]:
        """The racks of the live brokers that may get new replicas, by broker id; None for a broker without a rack."""
        cordoned = self.cordoned_brokers
        return {broker.id: broker.rack for broker in self.brokers.values() if broker.id not in cordoned}

    @property
    def cordoned_brokers(self) -> Collection[int]:
        """The live brokers whose log directories are all cordoned (KIP-1066)."""
        return frozenset(broker.id for broker in self.brokers.values() if self._is_cordoned(broker))

    def _is_cordoned(self, broker: BrokerImage) -> bool:
        dynamic = self.configs.get(config_entities.entity(config_entities.BROKERS, str(broker.id)), {})
        value = dynamic.get(CORDONED)
        cordoned = broker.cordoned_log_dirs if value is None else [path.strip() for path in value.split(",")]
        paths = set(map(normpath, cordoned))
        return ALL_DIRS in paths or (bool(broker.log_dirs) and paths.issuperset(map(normpath, broker.log_dirs)))

    def with_topics(self, topics: Mapping[str, TopicImage]) -> ClusterImage:
        names = {topic.id: name for name, topic in topics.items()}
        return replace(self, topics=MappingProxyType(dict(topics)), names=MappingProxyType(names))

    def offline_replicas(self, p: PartitionImage) -> list[int]:
        """Return the replicas of a partition that are on dead brokers, or reported as offline by live ones."""
        return [replica for replica in p.replicas if replica not in self.brokers or replica in p.failed]

    def partition(self, tp: TopicPartition) -> PartitionImage | None:
        topic = self.topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            return None
        return topic.partitions[tp.partition]
