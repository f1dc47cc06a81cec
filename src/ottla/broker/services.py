"""What a handler may use, and what it is told of the request it answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.broker.config.dynamic_config import DynamicBrokerConfig
from ottla.broker.quotas.client_quotas import ANONYMOUS, Quotas
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
from ottla.cluster.interbroker.membership_proof import MEMBER
from ottla.config.broker import BrokerConfig
from ottla.coordinator.group.group_runtime import GroupRuntime
from ottla.coordinator.share_partition.share_coordinator import ShareCoordinator
from ottla.coordinator.transaction.transaction_markers import LocalMarkers
from ottla.coordinator.transaction.transaction_runtime import TransactionRuntime
from ottla.errors import (
    ClusterAuthorizationFailedError,
    DelegationTokenAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from ottla.model import ACLOperation
from ottla.net.flood import FloodFilter
from ottla.net.server.connection import USER, Connection
from ottla.replication.partitions import Partitions
from ottla.security.acl import CLUSTER_NAME, ResourceType
from ottla.security.authorizer import Authorizer, Client

if TYPE_CHECKING:
    from ottla.cluster.broker.acl_store import AclStore
    from ottla.coordinator.transaction.add_partitions import AddPartitions

log = logging.getLogger("ottla.authorizer")
broker_log = logging.getLogger("ottla.broker.refused")
broker_log.addFilter(FloodFilter())

MAX_THROTTLE_MS = 2**31 - 1
"""The longest time that an answer can tell."""
REFUSALS: dict[ResourceType, type[KafkaError]] = {
    ResourceType.TOPIC: TopicAuthorizationFailedError,
    ResourceType.GROUP: GroupAuthorizationFailedError,
    ResourceType.CLUSTER: ClusterAuthorizationFailedError,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailedError,
    ResourceType.DELEGATION_TOKEN: DelegationTokenAuthorizationFailedError,
}
"""What is answered to who may not do something with a resource, by the resource's type."""
NOTHING: Mapping[str, KafkaError] = MappingProxyType({})
"""Refused to those who may do everything."""


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of the broker that handlers call."""

    live: DynamicBrokerConfig
    clock: Clock
    view: MetadataCache
    following: ControllerRequestHandler
    controller: Controller
    options: DynamicConfigStore
    peers: InterBrokerClient
    partitions: Partitions
    producer_ids: ProducerIds
    groups: GroupRuntime
    markers: LocalMarkers
    transactions: TransactionRuntime
    add_partitions: AddPartitions | None
    """Asks coordinators that are other brokers; None for a broker by itself."""
    old_offsets: ZooKeeperOffsets
    share_states: ShareCoordinator
    share_sessions: ShareSessions
    quotas: Quotas
    telemetry: Telemetry
    sessions: FetchSessions = field(default_factory=lambda: FetchSessions(0))
    renew_certificates: Callable[[], None] = lambda: None
    """Have listeners with TLS read their stores again."""
    authorizer: Authorizer | None = None
    """Says who may do what; None: everybody may do everything."""
    acls: AclStore | None = None
    """Keeps the rules that it goes by."""
    secret: bytes | None = None
    """The secret of the cluster, by which its brokers recognise each other; None for a standalone broker."""

    @property
    def in_cluster(self) -> bool:
        """Whether this broker serves other brokers."""
        return self.secret is not None

    @property
    def config(self) -> BrokerConfig:
        """The options as they are now."""
        return self.live.current

    @property
    def broker_id(self) -> int:
        """This broker."""
        return self.partitions.broker_id

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self.view.image


@dataclass(slots=True)
class Call:
    """One request: who sent it, in which version, and the services to answer it with."""

    services: Services
    connection: Connection
    version: int
    client_id: str

    @property
    def user(self) -> str:
        """Who sends the request: the name by a certificate, or Kafka's for those who have not said it."""
        return str(self.connection.state.get(USER, ANONYMOUS))

    @property
    def client(self) -> Client:
        """Who sends the request and from which address, as rules name them."""
        return Client(f"User:{self.user}", self.connection.peer.rpartition(":")[0])

    @property
    def is_broker(self) -> bool:
        """Whether the client is a broker of this cluster and may send what only brokers send.

        With an authorizer its principal needs CLUSTER_ACTION, by an ACL or as a super user. Without one, or where only
        `allow.everyone.if.no.acl.found` allows it, the connection must have proved that it knows the cluster's secret.
        Brokers of Apache Kafka cannot; `apache.kafka.brokers.enable` accepts them on the inter-broker listener.
        """
        services, connection = self.services, self.connection
        if not services.in_cluster:
            return False
        authorizer = services.authorizer
        if authorizer is not None:
            question = self.client, ACLOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
            if not authorizer.allows(*question):
                return False
            if not authorizer.allows_by_default(*question):
                return True
        if MEMBER in connection.state:
            return True
        own = services.config.inter_broker_listener
        return services.config.apache_kafka_brokers_enable and own is not None and own.name == connection.listener.name

    def require_broker(self) -> None:
        """Raise ClusterAuthorizationFailedError unless the client is a broker of this cluster."""
        if self.is_broker:
            return
        if self.services.authorizer is None:
            broker_log.warning(
                "%s: refused a request that only brokers of this cluster may send; if it is a broker of Apache Kafka, "
                "set apache.kafka.brokers.enable=true on this broker",
                self.connection.peer,
            )
        raise self.refusal(ACLOperation.CLUSTER_ACTION, ResourceType.CLUSTER)

    def allows(self, operation: ACLOperation, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether the client may do this. Not told to anybody: for what an answer leaves out."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.allows(self.client, operation, kind, name)

    def allows_some(self, operation: ACLOperation, kind: ResourceType) -> bool:
        """Whether there may be a resource of this type that the client may do this with."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.allows_some(self.client, operation, kind)

    def require(self, operation: ACLOperation, kind: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise the error of the resource's type (`REFUSALS`) where the client may not do this."""
        error = self.why_not(operation, kind, name)
        if error is not None:
            raise error

    def why_not(self, operation: ACLOperation, kind: ResourceType, name: str = CLUSTER_NAME) -> KafkaError | None:
        """The error where the client may not do this: for answers that have it in several places, or none."""
        return None if self.allows(operation, kind, name) else self.refusal(operation, kind, name)

    def refused(self, operation: ACLOperation, kind: ResourceType, names: Iterable[str]) -> Mapping[str, KafkaError]:
        """The errors of those resources that the client may not do this with, by name."""
        if self.services.authorizer is None:
            return NOTHING
        return {name: self.refusal(operation, kind, name) for name in self.denied(operation, kind, names)}

    def denied(self, operation: ACLOperation, kind: ResourceType, names: Iterable[str]) -> Collection[str]:
        """Those resources that the client may not do this with. Not told to anybody, as `allows`."""
        authorizer = self.services.authorizer
        if authorizer is None:
            return NOTHING
        who = self.client
        return {name for name in set(names) if not authorizer.allows(who, operation, kind, name)}

    def refusal(self, operation: ACLOperation, kind: ResourceType, name: str = CLUSTER_NAME) -> KafkaError:
        """The error for who may not do this, which goes to the log as well."""
        who = self.client
        log.info("%s may not %s %s %s from %s", who.principal, operation.name, kind.name, name, who.host)
        return REFUSALS[kind]()

    def throttle(self, seconds: float) -> int:
        """Leave the connection alone for a while after this answer; the time in milliseconds, for the answer."""
        if seconds > 0:
            self.connection.throttle(seconds)
        return min(round(seconds * 1000), MAX_THROTTLE_MS)
