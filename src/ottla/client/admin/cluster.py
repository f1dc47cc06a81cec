"""Admin calls for the cluster: its brokers, its features, and the API versions of its brokers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.client.admin.driver import (
    AdminCall,
    AdminDriver,
    Errors,
    any_broker,
    check,
    results,
    to_broker,
    to_controller,
)
from ottla.client.admin.security.acls import operations_of
from ottla.client.core.handshake import SOFTWARE
from ottla.errors import UnsupportedVersionError
from ottla.model import ACLOperation, Node
from ottla.protocol.apis import BY_KEY
from ottla.protocol.messages import update_features as features
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest


class ClusterDescription(NamedTuple):
    """The cluster and its brokers. `controller` is None if the response names none of the brokers as the controller.
    `fenced`: ids of the brokers in `nodes` that are registered, but fenced. `authorized_operations`: None if the
    response lacks them.
    """

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    authorized_operations: frozenset[ACLOperation] | None = None
    fenced: frozenset[int] = frozenset()


class VersionRange(NamedTuple):
    """An inclusive range: of a feature's levels, or of an API's versions."""

    min_version: int
    max_version: int


class FeatureMetadata(NamedTuple):
    """The features of the cluster: the finalized levels, and those that one broker supports, by feature name.
    `finalized_epoch` is None if the broker does not report it.
    """

    finalized: dict[str, VersionRange]
    finalized_epoch: int | None
    supported: dict[str, VersionRange]


class UpgradeType(IntEnum):
    """The direction in which the level of a feature may be changed. An unsafe downgrade may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The new finalized level of a feature; level 0 removes the feature."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class ClusterAdmin(AdminDriver):
    """Admin calls for the cluster and its brokers."""

    async def describe_cluster(
        self,
        timeout_ms: float | None = None,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
    ) -> ClusterDescription:
        """Return the cluster's id, controller and brokers. With `include_fenced_brokers`, raises
        UnsupportedVersionError if the broker does not report fenced brokers.
        """

        def request(version: int) -> DescribeClusterRequest:
            if include_fenced_brokers and version < 2:
                raise UnsupportedVersionError("the broker does not report fenced brokers")
            return DescribeClusterRequest(
                include_cluster_authorized_operations=include_authorized_operations,
                endpoint_type=self.config.endpoint_type if version else 1,
                include_fenced_brokers=include_fenced_brokers,
            )

        async def attempt() -> ClusterDescription:
            try:
                response = await self.connections.send_any_of(DescribeClusterRequest, request)
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

        return await self.retry(attempt, timeout_ms)

    async def _from_metadata(self) -> ClusterDescription:
        cluster = await self.metadata.refresh(self.connections.request_timeout)
        nodes = tuple(sorted(cluster.nodes.values()))
        return ClusterDescription(cluster.cluster_id, cluster.nodes.get(cluster.controller_id), nodes)

    async def describe_features(
        self, node_id: int | None = None, timeout_ms: float | None = None, *, send_request_to_controller: bool = False
    ) -> FeatureMetadata:
        """Return the features of the cluster, as reported by the broker `node_id` (None: any broker).

        With `send_request_to_controller`, which overrides `node_id`, the controller reports them, or in a KRaft cluster
        any broker.
        """
        lookup = to_controller if send_request_to_controller else any_broker if node_id is None else to_broker(node_id)
        return await self.call(
            ApiVersionsRequest(client_software_name=SOFTWARE[0], client_software_version=SOFTWARE[1]),
            _features,
            timeout_ms,
            "features",
            lookup,
        )

    async def update_features(
        self,
        feature_updates: Mapping[str, FeatureUpdate],
        validate_only: bool = False,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Set the finalized levels of features, by name. With `validate_only`, only check that the controller accepts
        them.
        """

        def request(names: list[str], version: int) -> features.UpdateFeaturesRequest:
            if validate_only and version < 1:
                raise UnsupportedVersionError("the broker cannot only validate feature updates")
            return features.UpdateFeaturesRequest(
                timeout_ms=self.milliseconds(timeout_ms),
                feature_updates=[_feature(name, feature_updates[name], version) for name in names],
                validate_only=validate_only,
            )

        call: AdminCall[str, None] = AdminCall(
            lambda names: lambda version: request(names, version),
            # From version 2 on there are only results of features that failed.
            lambda response, names, _: {**dict.fromkeys(names), **results(response.results, lambda r: str(r.feature))},
            to_controller,
            name="features",
            of=features.UpdateFeaturesRequest,
        )
        await self.call_per_key(call, feature_updates, timeout_ms, errors)

    async def api_versions(
        self, node_id: int | None = None, timeout_ms: float | None = None
    ) -> dict[str, VersionRange]:
        """Return the versions of each API that the broker `node_id` (None: any broker) supports, by Kafka's name of the
        API. The key of an API that this client does not know is its number.
        """

        async def attempt() -> dict[str, VersionRange]:
            nodes = await self.nodes()  # the addresses of brokers are unknown before the first call
            node = next(iter(nodes)) if node_id is None else node_id
            versions = (await self.connections.connect(node)).versions
            return {
                BY_KEY[key].name if key in BY_KEY else str(key): VersionRange(*span) for key, span in versions.items()
            }

        return await self.retry(attempt, timeout_ms)


def _features(response: ApiVersionsResponse) -> FeatureMetadata:
    epoch = response.finalized_features_epoch
    return FeatureMetadata(
        {f.name: VersionRange(f.min_version_level, f.max_version_level) for f in response.finalized_features},
        None if epoch < 0 else epoch,
        {f.name: VersionRange(f.min_version, f.max_version) for f in response.supported_features},
    )


def _feature(name: str, update: FeatureUpdate, version: int) -> features.FeatureUpdateKey:
    if version == 0:
        is_downgrade = update.upgrade_type != UpgradeType.UPGRADE
        return features.FeatureUpdateKey(
            feature=name, max_version_level=update.max_version_level, allow_downgrade=is_downgrade
        )
    return features.FeatureUpdateKey(
        feature=name, max_version_level=update.max_version_level, upgrade_type=int(update.upgrade_type)
    )
