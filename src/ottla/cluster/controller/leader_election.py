"""Leader election: the choice of a partition's leader and ISR, with one function for each reason (`DECISIONS`).

Each function takes a partition's state and returns the next one, or None if nothing changes; there is no I/O. A new
leader is the first replica in order that qualifies. It must be alive and in sync, because another one may lack
acknowledged records. The exception is `unclean`, for which the topic's configs have to allow it, or an administrator
has to request it (ElectLeaders).
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
    """A new controller has read the states of the last one."""
    BROKERS = "brokers or disks changed"
    """Brokers have registered or left, replicas are offline, or configs may now allow an unclean election."""
    UNCLEAN = "unclean election requested"
    """Like BROKERS, but an out-of-sync replica may become the leader if no in-sync one is alive, even if the topic's
    configs do not allow it.
    """
    PREFERRED = "preferred leader"
    """The preferred replica should become the leader."""
    SHUTDOWN = "controlled shutdown"
    """Brokers are shutting down."""
    REASSIGNED = "reassigned"
    """A reassignment has changed the replicas."""


class Candidates(NamedTuple):
    """The brokers that an election chooses from. `alive`: ids of live brokers on which the partition is not offline."""

    alive: Collection[int]
    shutting_down: Collection[int] = ()
    """The live brokers that are in their controlled shutdown."""
    brokers: Mapping[int, BrokerImage] = MappingProxyType({})
    """The live brokers by id, with their broker epochs (KIP-380)."""


Decision = Callable[[PartitionImage, Candidates], PartitionImage | None]


def next_state(p: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage | None:
    """Return the state with this leader and ISR in a new leader epoch; None if nothing changes."""
    if (leader, isr) == (p.leader, p.isr):
        return None
    return replace(p, leader=leader, isr=isr, leader_epoch=p.leader_epoch + 1)


def new_partition(replicas: tuple[int, ...], alive: Collection[int]) -> PartitionImage:
    """Return the state of a new partition.

    Its first live replica is the leader, and all live replicas are in the ISR. If none is alive, it has no leader, and
    all are in the ISR.
    """
    alive_replicas = tuple(replica for replica in replicas if replica in alive)
    return PartitionImage(alive_replicas[0] if alive_replicas else NO_LEADER, 0, replicas, alive_replicas or replicas)


def on_broker_change(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Remove dead brokers from the ISR, and elect another leader if the leader is dead.

    If all replicas in the ISR are dead, the ISR stays, and the partition has no leader.
    """
    isr = tuple(r for r in p.isr if r in candidates.alive) or p.isr
    leader = p.leader if p.leader in candidates.alive else _first(p, [r for r in isr if r in candidates.alive])
    return next_state(p, leader, isr)


def on_new_term(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Elect like `on_broker_change`, but treat a broker as dead if it has registered after the state was written.

    The zxids of ZooKeeper show that; in an SQLite store it is unknown.

    Such a broker has restarted without a controller noticing it: the restart was quick, or the controller has died,
    too. After a power failure, it may have lost acknowledged records. If no other in-sync replica is alive, it is
    elected nevertheless, with a new leader epoch.
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
    """Elect like `on_broker_change`.

    If no in-sync replica is alive, elect one that is out of sync; records may be lost.
    """
    clean = on_broker_change(p, candidates)
    if (clean or p).leader != NO_LEADER:
        return clean
    leader = _first(p, [r for r in p.replicas if r in candidates.alive])
    return clean if leader == NO_LEADER else next_state(p, leader, (leader,))


def preferred(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Elect the preferred replica. Return None if it is not alive or not in sync, or leads already."""
    first = p.replicas[0]
    return next_state(p, first, p.isr) if first in candidates.alive and first in p.isr else None


def on_controlled_shutdown(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Remove brokers that are shutting down from the ISR, and elect another leader if one of them leads.

    Return None if the partition has only one replica or no leader, or no other replica in the ISR can lead, or nothing
    changes.
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
    """Elect a live in-sync target replica if the leader is dead, or is not a target replica.

    Brokers that are shutting down are not elected. Return None if the leader can stay, or no replica can be elected.
    """
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
