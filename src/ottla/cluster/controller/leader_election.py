"""Who leads a partition, and who is in sync then: decisions without I/O, one for each reason to decide (`DECISIONS`).

Each takes the partition's state as it is and gives the state that is to be, or None where nothing changes. A leader is
chosen among the replicas in their order, the first of which is preferred; it must be alive and in sync, since anything
else loses acknowledged records. The exception is `unclean`, which the topic has to allow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from ottla.cluster.image.cluster_image import NO_LEADER, PartitionImage


class Reason(Enum):
    """Why a leader is looked for."""

    BROKERS = "brokers"
    """Brokers have come or gone."""
    UNCLEAN = "unclean"
    """As BROKERS, and a replica that is not in sync may lead where no other is there."""
    PREFERRED = "preferred"
    """The first replica is to lead."""
    SHUTDOWN = "controlled shutdown"
    """Brokers are about to go."""
    REASSIGNED = "reassigned"
    """The replicas are others now."""


class Candidates(NamedTuple):
    """Brokers as elections see them."""

    alive: Collection[int]
    shutting_down: Collection[int] = ()
    """Alive, in their controlled shutdown."""


Decision = Callable[[PartitionImage, Candidates], PartitionImage | None]


def next_state(p: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage | None:
    """The state with this leader and ISR, in an epoch of its own; None where it is the same."""
    if (leader, isr) == (p.leader, p.isr):
        return None
    return replace(p, leader=leader, isr=isr, leader_epoch=p.leader_epoch + 1)


def new_partition(replicas: tuple[int, ...], alive: Collection[int]) -> PartitionImage:
    """Led by the first of its replicas that is there; who is not has nothing to be in sync with."""
    there = tuple(replica for replica in replicas if replica in alive)
    return PartitionImage(there[0] if there else NO_LEADER, 0, replicas, there or replicas)


def on_broker_change(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Leave out of the ISR who is gone, and have another lead if the leader is. The last in sync is kept in mind."""
    isr = tuple(r for r in p.isr if r in candidates.alive) or p.isr
    leader = p.leader if p.leader in candidates.alive else _first(p, [r for r in isr if r in candidates.alive])
    return next_state(p, leader, isr)


def unclean(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """As `after_brokers`, but any replica may lead where nobody in sync is there: what only those had is lost."""
    clean = on_broker_change(p, candidates)
    if (clean or p).leader != NO_LEADER:
        return clean
    leader = _first(p, [r for r in p.replicas if r in candidates.alive])
    return clean if leader == NO_LEADER else next_state(p, leader, (leader,))


def preferred(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Have the first replica lead, where it is there and in sync."""
    first = p.replicas[0]
    return next_state(p, first, p.isr) if first in candidates.alive and first in p.isr else None


def on_controlled_shutdown(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Leave out who is leaving, and have another lead. Who is the last in sync, or the only replica, stays."""
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
    """Have one of the target's replicas lead, if the leader is none of them."""
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
        Reason.BROKERS: on_broker_change,
        Reason.UNCLEAN: unclean,
        Reason.PREFERRED: preferred,
        Reason.SHUTDOWN: on_controlled_shutdown,
        Reason.REASSIGNED: reassigned,
    }
)
"""The rule for each reason."""
