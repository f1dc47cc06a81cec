"""The cluster: its brokers, features, data directories, and Kafka's metadata quorum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple
from uuid import UUID

from ottla.client.admin_acls import ACLOperation, operations_of
from ottla.client.admin_calls import AdminCalls, Errors, check, failure
from ottla.client.admin_partitions import Partitions, numbers_by_topic, partitions_of
from ottla.errors import KafkaError, UnsupportedVersionError
from ottla.model import Node, TopicPartition
from ottla.protocol.apis import BY_KEY
from ottla.protocol.messages import add_raft_voter as add_voter
from ottla.protocol.messages import alter_replica_log_dirs as move
from ottla.protocol.messages import describe_log_dirs as dirs
from ottla.protocol.messages import describe_quorum as quorum
from ottla.protocol.messages import update_features as features
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest

METADATA_TOPIC = "__cluster_metadata"


class ClusterDescription(NamedTuple):
    """The cluster and its brokers; controller None when there is none at the moment."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    authorized_operations: frozenset[ACLOperation] | None = None
    fenced: frozenset[int] = frozenset()


class VersionRange(NamedTuple):
    """The levels of a feature, or the versions of an API."""

    min_version: int
    max_version: int


class FeatureMetadata(NamedTuple):
    """The features of the cluster: their levels now, and those that the broker could have."""

    finalized: dict[str, VersionRange]
    finalized_epoch: int | None
    supported: dict[str, VersionRange]


class UpgradeType(IntEnum):
    """Which way a feature may be changed."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The level that a feature shall have; 0: it is given up."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class ReplicaInfo(NamedTuple):
    """A replica in a directory: its bytes, and how far one that is moved there is behind."""

    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """A data directory; `error` where it is out of order, bytes None where the broker does not tell."""

    error: KafkaError | None
    replicas: dict[TopicPartition, ReplicaInfo]
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False


class TopicPartitionReplica(NamedTuple):
    """One replica: a partition on a broker."""

    topic: str
    partition: int
    broker_id: int


class ReplicaLogDirInfo(NamedTuple):
    """Where a replica lies, and where it is being moved to; None where that is nowhere."""

    current_log_dir: str | None = None
    current_offset_lag: int = -1
    future_log_dir: str | None = None
    future_offset_lag: int = -1


class QuorumMember(NamedTuple):
    """How far a member of the metadata quorum is. Times in milliseconds, None where they are not known."""

    replica_id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


class QuorumInfo(NamedTuple):
    """Kafka's metadata quorum; `nodes` are the addresses of its members by id and listener."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]
    nodes: dict[int, dict[str, tuple[str, int]]]


class RaftVoterEndpoint(NamedTuple):
    """Where a controller listens."""

    listener: str
    host: str
    port: int


class ClusterAdmin(AdminCalls):
    """Calls about the cluster and its brokers."""

    async def describe_cluster(
        self,
        timeout_ms: float | None = None,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
    ) -> ClusterDescription:
        """The cluster's id, controller and brokers."""

        def request(version: int) -> DescribeClusterRequest:
            if include_fenced_brokers and version < 2:
                raise UnsupportedVersionError("the broker does not tell of fenced brokers")
            return DescribeClusterRequest(
                include_cluster_authorized_operations=include_authorized_operations,
                endpoint_type=self.config.endpoint_type if version else 1,
                include_fenced_brokers=include_fenced_brokers,
            )

        async def attempt() -> ClusterDescription:
            try:
                response = await self.connections.ask_any_of(DescribeClusterRequest, request)
            except UnsupportedVersionError:
                if include_fenced_brokers:
                    raise
                return await self._from_metadata()  # before 2.8
            check(response.error_code, "cluster", response.error_message)
            nodes = sorted(Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers)
            return ClusterDescription(
                response.cluster_id,
                next((node for node in nodes if node.id == response.controller_id), None),
                tuple(nodes),
                operations_of(response.cluster_authorized_operations),
                frozenset(b.broker_id for b in response.brokers if b.is_fenced),
            )

        return await self.retried(attempt, timeout_ms)

    async def _from_metadata(self) -> ClusterDescription:
        cluster = await self.metadata.refresh(self.connections.request_timeout)
        nodes = tuple(sorted(cluster.nodes.values()))
        return ClusterDescription(cluster.cluster_id, cluster.nodes.get(cluster.controller_id), nodes)

    async def unregister_broker(self, broker_id: int, timeout_ms: float | None = None) -> None:
        """Have Kafka's controllers forget a broker that will not come back."""

        async def attempt() -> None:
            response = await self.ask_controller(UnregisterBrokerRequest(broker_id=broker_id))
            check(response.error_code, f"broker {broker_id}", response.error_message)

        await self.retried(attempt, timeout_ms)

    # Features and versions

    async def describe_features(self, node_id: int | None = None, timeout_ms: float | None = None) -> FeatureMetadata:
        """The levels of the cluster's features, as some broker (or this one) tells them."""

        async def attempt() -> FeatureMetadata:
            request = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")
            if node_id is None:
                response = await self.connections.ask_any(request)
            else:
                response = await self.connections.ask(node_id, request)
            check(response.error_code, "features")
            epoch = response.finalized_features_epoch
            return FeatureMetadata(
                {f.name: VersionRange(f.min_version_level, f.max_version_level) for f in response.finalized_features},
                None if epoch < 0 else epoch,
                {f.name: VersionRange(f.min_version, f.max_version) for f in response.supported_features},
            )

        return await self.retried(attempt, timeout_ms)

    async def update_features(
        self,
        feature_updates: Mapping[str, FeatureUpdate],
        validate_only: bool = False,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Set the levels of features, or only check that they could be set."""

        async def attempt(left: list[str]) -> dict[str, KafkaError | None]:
            def request(version: int) -> features.UpdateFeaturesRequest:
                if validate_only and version < 1:
                    raise UnsupportedVersionError("the broker cannot only check features")
                updates = [_feature(name, feature_updates[name], version) for name in left]
                return features.UpdateFeaturesRequest(
                    timeout_ms=self.limit_ms(timeout_ms), feature_updates=updates, validate_only=validate_only
                )

            response = await self.ask_controller(request, features.UpdateFeaturesRequest)
            check(response.error_code, "features", response.error_message)
            told = {r.feature: failure(r.error_code, r.feature, r.error_message) for r in response.results}
            return {name: told.get(name) for name in left}

        await self.settled(feature_updates, attempt, timeout_ms, errors)

    async def api_versions(
        self, node_id: int | None = None, timeout_ms: float | None = None
    ) -> dict[str, VersionRange]:
        """The versions of each API (by Kafka's name, or its number) that some broker (or this one) speaks."""

        async def attempt() -> dict[str, VersionRange]:
            node = next(iter(await self.nodes())) if node_id is None else node_id
            versions = (await self.connections.connect(node)).versions
            return {
                BY_KEY[key].name if key in BY_KEY else str(key): VersionRange(*span) for key, span in versions.items()
            }

        return await self.retried(attempt, timeout_ms)

    # Data directories

    async def describe_log_dirs(
        self,
        topic_partitions: Partitions | None = None,
        brokers: Iterable[int] | None = None,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[int, dict[str, LogDirDescription]]:
        """The data directories of brokers (of all of them with None) and the replicas (of these partitions) in them."""
        topics = None
        if topic_partitions is not None:
            by_topic = numbers_by_topic(partitions_of(topic_partitions))
            topics = [dirs.DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in by_topic.items()]

        async def attempt(left: list[int]) -> dict[int, dict[str, LogDirDescription] | KafkaError]:
            answers = await self.ask_each(dict.fromkeys(left, dirs.DescribeLogDirsRequest(topics=topics)))
            return {node: _dirs_of(node, answer) for node, answer in answers.items()}

        async def every() -> list[int]:
            return list(await self.nodes())

        wanted = list(brokers) if brokers is not None else await self.retried(every, timeout_ms)
        return await self.settled(wanted, attempt, timeout_ms, errors)

    async def describe_replica_log_dirs(
        self,
        replicas: Iterable[TopicPartitionReplica],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartitionReplica, ReplicaLogDirInfo]:
        """Where replicas lie in their brokers. Errors are by broker."""
        wanted = [TopicPartitionReplica(*replica) for replica in replicas]
        partitions = {TopicPartition(r.topic, r.partition) for r in wanted}
        found = await self.describe_log_dirs(partitions, {r.broker_id for r in wanted}, timeout_ms, errors=errors)
        return {r: _place(r, found[r.broker_id]) for r in wanted if r.broker_id in found}

    async def alter_replica_log_dirs(
        self,
        replica_assignments: Mapping[TopicPartitionReplica, str],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Move replicas to other data directories of their brokers, given as absolute paths."""
        wanted = {TopicPartitionReplica(*replica): path for replica, path in replica_assignments.items()}

        async def attempt(left: list[TopicPartitionReplica]) -> dict[TopicPartitionReplica, KafkaError | None]:
            by_node: dict[int, list[TopicPartitionReplica]] = {}
            for replica in left:
                by_node.setdefault(replica.broker_id, []).append(replica)
            requests = {node: _move({r: wanted[r] for r in some}) for node, some in by_node.items()}
            found: dict[TopicPartitionReplica, KafkaError | None] = {}
            for node, response in (await self.ask_each(requests)).items():
                if isinstance(response, KafkaError):
                    found |= dict.fromkeys(by_node[node], response)
                    continue
                for topic in response.results:
                    for p in topic.partitions:
                        replica = TopicPartitionReplica(topic.topic_name, p.partition_index, node)
                        found[replica] = failure(p.error_code, replica)
            return found

        await self.settled(wanted, attempt, timeout_ms, errors)

    # Kafka's metadata quorum

    async def describe_metadata_quorum(self, timeout_ms: float | None = None) -> QuorumInfo:
        """The members of Kafka's metadata quorum and how far they are."""
        partition = quorum.PartitionRequest(partition_index=0)
        request = quorum.DescribeQuorumRequest(
            topics=[quorum.TopicRequest(topic_name=METADATA_TOPIC, partitions=[partition])]
        )

        async def attempt() -> QuorumInfo:
            response = await self.ask_controller(request)
            check(response.error_code, "quorum", response.error_message)
            p = response.topics[0].partitions[0]
            check(p.error_code, "quorum", p.error_message)
            return QuorumInfo(
                p.leader_id,
                p.leader_epoch,
                p.high_watermark,
                tuple(map(_member, p.current_voters)),
                tuple(map(_member, p.observers)),
                {n.node_id: {at.name: (at.host, at.port) for at in n.listeners} for n in response.nodes},
            )

        return await self.retried(attempt, timeout_ms)

    async def add_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: UUID,
        endpoints: Iterable[RaftVoterEndpoint],
        timeout_ms: float | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Let a controller vote (KIP-853)."""
        listeners = [add_voter.Listener(name=e[0], host=e[1], port=e[2]) for e in endpoints]

        async def attempt() -> None:
            request = add_voter.AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=self.limit_ms(timeout_ms),
                voter_id=voter_id,
                voter_directory_id=voter_directory_id,
                listeners=listeners,
            )
            response = await self.ask_controller(request)
            check(response.error_code, f"voter {voter_id}", response.error_message)

        await self.retried(attempt, timeout_ms)

    async def remove_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: UUID,
        timeout_ms: float | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Let a controller vote no more (KIP-853)."""
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=voter_directory_id
        )

        async def attempt() -> None:
            response = await self.ask_controller(request)
            check(response.error_code, f"voter {voter_id}", response.error_message)

        await self.retried(attempt, timeout_ms)


def _feature(name: str, update: FeatureUpdate, version: int) -> features.FeatureUpdateKey:
    if version == 0:
        downwards = update.upgrade_type != UpgradeType.UPGRADE
        return features.FeatureUpdateKey(
            feature=name, max_version_level=update.max_version_level, allow_downgrade=downwards
        )
    return features.FeatureUpdateKey(
        feature=name, max_version_level=update.max_version_level, upgrade_type=int(update.upgrade_type)
    )


def _dirs_of(node: int, answer: dirs.DescribeLogDirsResponse | KafkaError) -> dict[str, LogDirDescription] | KafkaError:
    if isinstance(answer, KafkaError):
        return answer
    return failure(answer.error_code, f"broker {node}") or {r.log_dir: _dir(r) for r in answer.results}


def _dir(result: dirs.DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, p.partition_index): ReplicaInfo(p.partition_size, p.offset_lag, p.is_future_key)
        for topic in result.topics
        for p in topic.partitions
    }
    return LogDirDescription(
        failure(result.error_code, result.log_dir),
        replicas,
        None if result.total_bytes < 0 else result.total_bytes,
        None if result.usable_bytes < 0 else result.usable_bytes,
        result.is_cordoned,
    )


def _place(replica: TopicPartitionReplica, found: Mapping[str, LogDirDescription]) -> ReplicaLogDirInfo:
    place = ReplicaLogDirInfo()
    for path, described in found.items():
        info = described.replicas.get(TopicPartition(replica.topic, replica.partition))
        if info is not None and info.is_future:
            place = place._replace(future_log_dir=path, future_offset_lag=info.offset_lag)
        elif info is not None:
            place = place._replace(current_log_dir=path, current_offset_lag=info.offset_lag)
    return place


def _move(wanted: Mapping[TopicPartitionReplica, str]) -> move.AlterReplicaLogDirsRequest:
    by_path: dict[str, list[TopicPartition]] = {}
    for replica, path in wanted.items():
        by_path.setdefault(path, []).append(TopicPartition(replica.topic, replica.partition))
    return move.AlterReplicaLogDirsRequest(
        dirs=[
            move.AlterReplicaLogDir(
                path=path,
                topics=[
                    move.AlterReplicaLogDirTopic(name=name, partitions=numbers)
                    for name, numbers in numbers_by_topic(partitions).items()
                ],
            )
            for path, partitions in by_path.items()
        ]
    )


def _member(state: Any) -> QuorumMember:
    return QuorumMember(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        None if state.last_fetch_timestamp < 0 else state.last_fetch_timestamp,
        None if state.last_caught_up_timestamp < 0 else state.last_caught_up_timestamp,
    )
