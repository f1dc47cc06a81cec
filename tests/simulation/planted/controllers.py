"""Bugs of controllers and of the metadata store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.simulation.planted.patching import needs, patch

from ottla.cluster.broker.acl_store import AclStore
from ottla.cluster.broker.metadata_updates import ControllerRequestHandler
from ottla.cluster.controller import leader_election, partition_states
from ottla.cluster.controller.alter_partition import IsrUpdates
from ottla.simulation.stores.zookeeper import ZooKeeper


@needs("power-loss")
def restarted_leaders_lead_on() -> None:
    """A new controller trusts brokers that have restarted."""
    decisions = dict(leader_election.DECISIONS)
    decisions[leader_election.Reason.NEW_TERM] = leader_election.on_broker_change
    patch(leader_election, "DECISIONS", decisions)


def dead_replicas_stay_in_the_isr() -> None:
    """A broker that has failed stays a candidate."""
    decisions = dict(leader_election.DECISIONS)
    decisions[leader_election.Reason.BROKERS] = lambda p, candidates: None
    patch(leader_election, "DECISIONS", decisions)


def ephemeral_znodes_stay() -> None:
    """ZooKeeper keeps the znodes of a session that has ended."""

    def end_session(self: Any, session: Any) -> None:
        self.sessions.pop(session.id, None)

    patch(ZooKeeper, "end_session", end_session)


def old_controllers_are_obeyed() -> None:
    """Requests of a controller that was replaced are applied."""
    patch(ControllerRequestHandler, "check", lambda self, controller_epoch, broker_epoch: None)


@needs("session-expiry", "cut-from-zookeeper", "lost-responses", workloads=("reassigned", "recreated"))
def old_controllers_write() -> None:
    """A controller that was replaced still writes the states of partitions."""

    async def write(store: Any, term: Any, operations: Any) -> None:
        await store.multi(list(operations))

    patch(partition_states, "write_fenced", write)


def isr_of_old_leaders_is_written() -> None:
    """The controller accepts the ISR of a leader that was replaced."""

    def decide(self: Any, broker_id: int, item: Any) -> Any:
        return replace(self._context.image.partition(item.tp), isr=item.isr)

    patch(IsrUpdates, "_decide", decide)


@needs("kill", "cut-from-brokers")
def leaders_come_from_outside_the_isr() -> None:
    """Without a live replica in sync, any other replica leads."""
    decisions = dict(leader_election.DECISIONS)
    decisions[leader_election.Reason.BROKERS] = leader_election.unclean
    decisions[leader_election.Reason.NEW_TERM] = leader_election.unclean
    patch(leader_election, "DECISIONS", decisions)


@needs("cut-link", "slow-disk", "cut-link-one-way", workloads=("reassigned",))
def preferred_leaders_need_not_be_in_sync() -> None:
    """A preferred replica leads as soon as it is alive."""

    def preferred(p: Any, candidates: Any) -> Any:
        first = p.replicas[0]
        return leader_election.next_state(p, first, p.isr) if first in candidates.alive else None

    decisions = dict(leader_election.DECISIONS)
    decisions[leader_election.Reason.PREFERRED] = preferred
    patch(leader_election, "DECISIONS", decisions)


@needs("resets", workloads=("limited",))
def acls_of_other_brokers_are_not_read() -> None:
    """A broker only uses the ACLs that it has read at startup, and those that it has changed itself."""

    async def apply(self: Any, notifications: Any) -> None:
        if notifications:
            return
        await original(self, notifications)

    original = AclStore._apply_notifications
    patch(AclStore, "_apply_notifications", apply)


BUGS = (
    acls_of_other_brokers_are_not_read,
    restarted_leaders_lead_on,
    dead_replicas_stay_in_the_isr,
    ephemeral_znodes_stay,
    old_controllers_are_obeyed,
    old_controllers_write,
    isr_of_old_leaders_is_written,
    leaders_come_from_outside_the_isr,
    preferred_leaders_need_not_be_in_sync,
)
