"""Immutable snapshots of the cluster. The collector's thread creates them, pages read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.client.admin.cluster import ClusterDescription
from ottla.client.admin.driver import Errors
from ottla.client.admin.transactions import TransactionListing
from ottla.client.core.metadata import PartitionInfo, TopicInfo
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.security.acl import ACL

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
MAX_PROBLEMS: Final = 100
"""The maximum number of partitions with problems that a snapshot lists. All of them are counted."""


class TopicRow(NamedTuple):
    """A topic in the list of topics. `replicas` is the highest replication factor of its partitions."""

    name: str
    is_internal: bool
    partitions: int
    replicas: int
    under_replicated: int
    offline: int


class BrokerRow(NamedTuple):
    """A broker in the list of brokers: its address, and the numbers of its partitions."""

    id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool
    leaders: int
    replicas: int
    out_of_sync: int
    """The number of replicas on this broker that are not in the ISR."""


class DownBroker(NamedTuple):
    """A broker that has replicas, but is not registered: the cluster does not list it any more."""

    id: int
    replicas: int


class ClusterSnapshot(NamedTuple):
    """Brokers and topics at one point in time."""

    cluster_id: str | None
    controller_id: int | None
    brokers: tuple[BrokerRow, ...]
    topics: tuple[TopicRow, ...]
    """Sorted by name."""
    infos: Mapping[str, TopicInfo]
    partitions: int
    under_replicated: int
    offline: int
    problems: tuple[PartitionInfo, ...]
    down: tuple[DownBroker, ...]


class GroupRow(NamedTuple):
    """A group in the list of groups. The lag is None if the group has no committed offsets, or if it was not
    sampled.
    """

    group_id: str
    state: str
    group_type: str
    protocol_type: str
    lag: int | None = None

    @property
    def is_rebalancing(self) -> bool:
        """Whether a classic group is rebalancing."""
        return self.state in REBALANCING


class TransactionList(NamedTuple):
    """The transactional ids of brokers, sorted, and the errors of brokers that have not listed theirs, by broker id."""

    rows: tuple[TransactionListing, ...]
    failed: Errors


class AclList(NamedTuple):
    """The ACLs, sorted by resource; or the error of a cluster without an authorizer."""

    rows: tuple[ACL, ...]
    disabled: KafkaError | None


class PartitionLag(NamedTuple):
    """The committed offset of a group in a partition (of a share group: its start offset), and the partition's end
    offset and last stable offset (`stable`: the start of the first open transaction or, without one, the end offset).
    Each is -1 if it is unknown.
    """

    tp: TopicPartition
    committed: int
    end: int
    stable: int = -1

    @property
    def waits_for_transaction(self) -> bool:
        """Whether the group has read everything before an open transaction, so that consumers with `read_committed`
        cannot read on before the transaction ends. A group that has read beyond this point uses `read_uncommitted`.
        """
        return 0 <= self.stable == self.committed < self.end

    @property
    def lag(self) -> int | None:
        """The number of offsets from the committed one to the end; None if one of these two is unknown."""
        return None if self.end < 0 or self.committed < 0 else max(0, self.end - self.committed)


def cluster_snapshot(cluster: ClusterDescription, infos: Mapping[str, TopicInfo]) -> ClusterSnapshot:
    """Return a snapshot of a cluster and its topics."""
    leaders, replicas, out_of_sync = Counter[int](), Counter[int](), Counter[int]()
    rows: list[TopicRow] = []
    problems: list[PartitionInfo] = []
    partitions = under_replicated = offline = 0
    for name, info in infos.items():
        topic_under = topic_offline = most = 0
        for p in info.partitions:
            leaders[p.leader] += 1
            replicas.update(p.replicas)
            most = max(most, len(p.replicas))
            missing = set(p.replicas) - set(p.isr)
            out_of_sync.update(missing)
            topic_under += bool(missing)
            topic_offline += p.leader < 0
            if (missing or p.leader < 0) and len(problems) < MAX_PROBLEMS:
                problems.append(p)
        partitions += len(info.partitions)
        under_replicated += topic_under
        offline += topic_offline
        rows.append(TopicRow(name, info.is_internal, len(info.partitions), most, topic_under, topic_offline))
    controller = cluster.controller.id if cluster.controller is not None else None
    brokers = tuple(
        BrokerRow(
            *node,
            is_controller=node.id == controller,
            leaders=leaders[node.id],
            replicas=replicas[node.id],
            out_of_sync=out_of_sync[node.id],
        )
        for node in cluster.nodes
    )
    return ClusterSnapshot(
        cluster.cluster_id,
        controller,
        brokers,
        tuple(sorted(rows)),
        infos,
        partitions,
        under_replicated,
        offline,
        tuple(problems),
        tuple(DownBroker(broker, replicas[broker]) for broker in sorted(replicas.keys() - {b.id for b in brokers})),
    )
