"""Leader election: the choice of a partition's leader and ISR, with one rule for each reason (`DECISIONS`).

Without I/O. Each rule takes the partition's state and returns the next one, or None if nothing changes. A leader is
chosen from the replicas in their order, the first of which is preferred. It must be alive and in sync, since any other
leader loses acknowledged records. The exception is `unclean`, which the topic has to allow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from ottla.cluster.image.cluster_image import NO_LEADER, BrokerImage, PartitionImage


class Reason(Enum):
    """The reason for an election."""

    NEW_TERM = "new controller"
    """A new controller has read the states that its predecessor has left."""
    BROKERS = "brokers or disks changed"
    """Brokers have registered or left."""
    UNCLEAN = "unclean election requested"
    """As BROKERS, and a replica that is not in sync may lead if no other is alive."""
    PREFERRED = "preferred leader"
    """The preferred replica is to lead."""
    SHUTDOWN = "controlled shutdown"
    """Brokers are shutting down."""
    REASSIGNED = "reassigned"
    """The replicas have changed."""


class Candidates(NamedTuple):
    """The brokers that can be elected."""

    alive: Collection[int]
    shutting_down: Collection[int] = ()
    """The live brokers that are in their controlled shutdown."""
    brokers: Mapping[int, BrokerImage] = MappingProxyType({})
    """The live brokers, with their epochs: the zxids of their registrations (KIP-380)."""


Decision = Callable[[PartitionImage, Candidates], PartitionImage | None]


def next_state(p: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage | None:
    """Return the state with this leader and ISR in a new leader epoch; None if nothing changes."""
    if (leader, isr) == (p.leader, p.isr):
        return None
    return replace(p, leader=leader, isr=isr, leader_epoch=p.leader_epoch + 1)


def new_partition(replicas: tuple[int, ...], alive: Collection[int]) -> PartitionImage:
    """Return the state of a new partition: its first replica that is alive leads, and those that are alive are in
    sync.
    """
    alive_replicas = tuple(replica for replica in replicas if replica in alive)
    return PartitionImage(alive_replicas[0] if alive_replicas else NO_LEADER, 0, replicas, alive_replicas or replicas)


def on_broker_change(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Remove dead brokers from the ISR, and elect another leader if it is dead. The last in-sync replica stays in the
    ISR.
    """
    isr = tuple(r for r in p.isr if r in candidates.alive) or p.isr
    leader = p.leader if p.leader in candidates.alive else _first(p, [r for r in isr if r in candidates.alive])
    return next_state(p, leader, isr)


def on_new_term(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Elect like `on_broker_change`, but count a broker as dead if it has registered after the state was written.

    It has restarted, and no controller has noticed: the restart was quick, or the controller has died as well. With the
    power, it may have lost records that it has acknowledged. If no other in-sync replica is alive, it leads, in a new
    epoch.
    """
    restarted = {r for r in candidates.alive if 0 < p.modified < _epoch(r, candidates)}
    stayed = on_broker_change(p, candidates._replace(alive=[r for r in candidates.alive if r not in restarted]))
    if not restarted or (stayed or p).leader != NO_LEADER:
        return stayed
    after = on_broker_change(p, candidates) or p
    return replace(after, leader_epoch=p.leader_epoch + 1) if after != p or p.leader in restarted else None


def _epoch(broker: int, candidates: Candidates) -> int:
    image = candidates.brokers.get(broker)
    return 0 if image is None else image.epoch


def unclean(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Elect like `on_broker_change`, or an out-of-sync replica if no in-sync one is alive; records may be lost."""
    clean = on_broker_change(p, candidates)
    if (clean or p).leader != NO_LEADER:
        return clean
    leader = _first(p, [r for r in p.replicas if r in candidates.alive])
    return clean if leader == NO_LEADER else next_state(p, leader, (leader,))


def preferred(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Elect the preferred replica, if it is alive and in sync."""
    first = p.replicas[0]
    return next_state(p, first, p.isr) if first in candidates.alive and first in p.isr else None


def on_controlled_shutdown(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Remove brokers that shut down from the ISR, and elect other leaders. The last in-sync and the only replica
    stay.
    """
    if len(p.replicas) == 1:
        return None
    isr = tuple(r for r in p.isr if r not in candidates.shutting_down)
    if not isr:
        return None
    leader = p.leader
    if leader in candidates.shutting_down:
        leader = _first(p, [r for r in isr if r in candidates.alive])
    return None if leader == NO_LEADER else next_state(p, leader, isr)


def reassigned(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Elect one of the target replicas, if the leader is none of them."""
    target = [r for r in p.replicas if r not in p.removing]
    if p.leader in target and p.leader in candidates.alive:
        return None
    leader = next(
        (r for r in target if r in p.isr and r in candidates.alive and r not in candidates.shutting_down), NO_LEADER
    )
    return None if leader == NO_LEADER else next_state(p, leader, p.isr)


def _first(p: PartitionImage, among: Collection[int]) -> int:
    return next((replica for replica in p.replicas if replica in among), NO_LEADER)


DECISIONS: MappingProxyType[Reason, Decision] = MappingProxyType(
    {
        Reason.NEW_TERM: on_new_term,
        Reason.BROKERS: on_broker_change,
        Reason.UNCLEAN: unclean,
        Reason.PREFERRED: preferred,
        Reason.SHUTDOWN: on_controlled_shutdown,
        Reason.REASSIGNED: reassigned,
    }
)
