"""The cluster: its brokers, features, and the versions they speak."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.client.admin.acls import operations_of
from ottla.client.admin.driver import AdminCalls, Errors, check, failure
from ottla.client.core.handshake import SOFTWARE
from ottla.errors import KafkaError, UnsupportedVersionError
from ottla.model import ACLOperation, Node
from ottla.protocol.apis import BY_KEY
from ottla.protocol.messages import update_features as features
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest


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

    # Features and versions

    async def describe_features(
        self, node_id: int | None = None, timeout_ms: float | None = None, *, send_request_to_controller: bool = False
    ) -> FeatureMetadata:
        """The levels of the cluster's features, as some broker (or this one, or the controller) tells them."""

        async def attempt() -> FeatureMetadata:
            request = ApiVersionsRequest(client_software_name=SOFTWARE[0], client_software_version=SOFTWARE[1])
            if send_request_to_controller:
                response = await self.ask_controller(request)
            elif node_id is None:
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
            known = await self.nodes()  # before the first call nobody knows where a broker is
            node = next(iter(known)) if node_id is None else node_id
            versions = (await self.connections.connect(node)).versions
            return {
                BY_KEY[key].name if key in BY_KEY else str(key): VersionRange(*span) for key, span in versions.items()
            }

        return await self.retried(attempt, timeout_ms)

    # Kafka's metadata quorum


def _feature(name: str, update: FeatureUpdate, version: int) -> features.FeatureUpdateKey:
    if version == 0:
        downwards = update.upgrade_type != UpgradeType.UPGRADE
        return features.FeatureUpdateKey(
            feature=name, max_version_level=update.max_version_level, allow_downgrade=downwards
        )
    return features.FeatureUpdateKey(
        feature=name, max_version_level=update.max_version_level, upgrade_type=int(update.upgrade_type)
    )
