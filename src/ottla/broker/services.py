"""What a handler may use, and what it is told of the request it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.live_config import LiveConfig
from ottla.broker.quotas import ANONYMOUS, Quotas
from ottla.broker.share_sessions import ShareSessions
from ottla.broker.telemetry import Telemetry
from ottla.clock import Clock
from ottla.cluster.controller import Controller
from ottla.cluster.following import Following
from ottla.cluster.metadata import ClusterImage
from ottla.cluster.old_offsets import OldOffsets
from ottla.cluster.options import Options
from ottla.cluster.peers import Peers
from ottla.cluster.producer_ids import ProducerIds
from ottla.cluster.view import ClusterView
from ottla.config.broker import BrokerConfig
from ottla.coordinator.runtime import GroupRuntime
from ottla.coordinator.share.states import ShareStates
from ottla.coordinator.transaction_markers import LocalMarkers
from ottla.coordinator.transaction_runtime import TransactionRuntime
from ottla.net.connection import USER, Connection
from ottla.replication.partitions import Partitions

if TYPE_CHECKING:
    from ottla.coordinator.add_partitions import AddPartitions

MAX_THROTTLE_MS = 2**31 - 1
"""The longest time that an answer can tell."""


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of the broker that handlers call."""

    live: LiveConfig
    clock: Clock
    view: ClusterView
    following: Following
    controller: Controller
    options: Options
    peers: Peers
    partitions: Partitions
    producer_ids: ProducerIds
    groups: GroupRuntime
    markers: LocalMarkers
    transactions: TransactionRuntime
    add_partitions: AddPartitions | None
    """Asks coordinators that are other brokers; None for a broker by itself."""
    old_offsets: OldOffsets
    share_states: ShareStates
    share_sessions: ShareSessions
    quotas: Quotas
    telemetry: Telemetry
    sessions: FetchSessions = field(default_factory=lambda: FetchSessions(0))

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

    def throttle(self, seconds: float) -> int:
        """Leave the connection alone for a while after this answer; the time in milliseconds, for the answer."""
        if seconds > 0:
            self.connection.throttle(seconds)
        return min(round(seconds * 1000), MAX_THROTTLE_MS)
