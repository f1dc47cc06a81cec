"""The parts of the broker that handlers call. `server.broker_node.BrokerNode` builds them once, when it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.config.dynamic_config import DynamicBrokerConfig
from ottla.broker.coordinators import Coordinators
from ottla.broker.monitoring.request_stats import RequestStats
from ottla.broker.quotas.client_quotas import Quotas
from ottla.broker.sessions.fetch_sessions import FetchSessions
from ottla.broker.sessions.share_sessions import ShareSessions
from ottla.broker.telemetry import Telemetry
from ottla.clock import Clock
from ottla.cluster.broker.config_store import DynamicConfigStore
from ottla.cluster.broker.metadata_updates import ControllerRequestHandler
from ottla.cluster.broker.producer_ids import ProducerIds
from ottla.cluster.broker.zookeeper_offsets import ZooKeeperOffsets
from ottla.cluster.controller.controller import Controller
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.interbroker.client import InterBrokerClient
from ottla.config.broker.broker_config import BrokerConfig
from ottla.replication.partitions import Partitions
from ottla.security.authorizer import Authorizer

if TYPE_CHECKING:
    from ottla.cluster.broker.acl_store import AclStore
    from ottla.cluster.broker.delegation_token_store import DelegationTokenStore
    from ottla.coordinator.group.group_runtime import GroupRuntime
    from ottla.coordinator.share_partition.share_coordinator import ShareCoordinator
    from ottla.coordinator.share_partition.share_partition_manager import SharePartitionManager
    from ottla.coordinator.share_partition.share_persister import SharePersister
    from ottla.coordinator.transaction.add_partitions import AddPartitionsClient
    from ottla.coordinator.transaction.transaction_markers import LocalMarkers
    from ottla.coordinator.transaction.transaction_runtime import TransactionRuntime
    from ottla.remote_log.remote_log_manager import RemoteLogManager


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """The broker's parts, and shortcuts to its config, id, cluster image and coordinators."""

    dynamic_config: DynamicBrokerConfig
    clock: Clock
    metadata_cache: MetadataCache
    controller_requests: ControllerRequestHandler
    controller: Controller
    config_store: DynamicConfigStore
    inter_broker: InterBrokerClient
    partitions: Partitions
    producer_ids: ProducerIds
    coordinators: Coordinators
    add_partitions: AddPartitionsClient | None
    """Sends AddPartitionsToTxn to coordinators on other brokers; None for a standalone broker."""
    zookeeper_offsets: ZooKeeperOffsets
    share_sessions: ShareSessions
    quotas: Quotas
    telemetry: Telemetry
    fetch_sessions: FetchSessions = field(default_factory=lambda: FetchSessions(0))
    request_stats: RequestStats = field(default_factory=RequestStats)
    renew_certificates: Callable[[], None] = lambda: None
    """Reloads the key stores and trust stores of the TLS listeners."""
    authorizer: Authorizer | None = None
    """None if `authorizer.class.name` is not set: every operation is allowed."""
    acl_store: AclStore | None = None
    delegation_tokens: DelegationTokenStore | None = None
    """None if `delegation.token.secret.key` is not set."""
    cluster_secret: bytes | None = None
    """The secret with which the brokers of a cluster prove their membership; None for a standalone broker."""

    remote_log: RemoteLogManager | None = None
    """None if `remote.log.storage.system.enable` is false: there is no tiered storage."""

    @property
    def in_cluster(self) -> bool:
        """Whether this broker is in a cluster, not standalone."""
        return self.cluster_secret is not None

    @property
    def config(self) -> BrokerConfig:
        """The broker's current configs, including dynamic ones."""
        return self.dynamic_config.current

    @property
    def broker_id(self) -> int:
        return self.partitions.broker_id

    @property
    def image(self) -> ClusterImage:
        """The current cluster image."""
        return self.metadata_cache.image

    async def remove_expired_tokens(self) -> None:
        """Remove expired delegation tokens, if this broker is the controller."""
        if self.delegation_tokens is not None and self.controller.is_active:
            await self.delegation_tokens.remove_expired()

    @property
    def groups(self) -> GroupRuntime:
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionRuntime:
        return self.coordinators.transactions

    @property
    def share_states(self) -> ShareCoordinator:
        return self.coordinators.share_states

    @property
    def share_persister(self) -> SharePersister:
        return self.coordinators.share_persister

    @property
    def share_partitions(self) -> SharePartitionManager:
        return self.coordinators.share_partitions

    @property
    def markers(self) -> LocalMarkers:
        return self.coordinators.markers
