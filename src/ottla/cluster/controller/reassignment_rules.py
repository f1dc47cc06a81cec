"""The state transitions of a reassignment (KIP-455), without I/O.

After `start`, the replicas are those of the target, followed by those to be removed. When all target replicas are in
sync, `complete` removes the other replicas; if one of these leads, a target replica becomes the leader. Until then,
`cancel` restores the original replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ottla.cluster.controller.leader_election import Candidates, reassigned
from ottla.cluster.image.cluster_image import NO_LEADER, PartitionImage, TopicImage
from ottla.cluster.store import znodes
from ottla.errors import InvalidReplicaAssignmentError


def validate(
    p: PartitionImage, target: Sequence[int], alive: Collection[int], cordoned: Collection[int] = ()
) -> tuple[int, ...]:
    """Return the target. Raises InvalidReplicaAssignmentError if it is invalid.

    New replicas must be on brokers that are alive, because they have to fetch the log, and not cordoned. Existing
    replicas may be down; the reassignment is completed when they are in sync again.
    """
    if not target:
        raise InvalidReplicaAssignmentError("Empty replica list specified in partition reassignment.")
    if len(set(target)) < len(target):
        raise InvalidReplicaAssignmentError(
            f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
        )
    if any(broker < 0 for broker in target):
        raise InvalidReplicaAssignmentError(f"Invalid broker id in replica list: {list(target)}")
    missing = [broker for broker in target if broker not in alive and broker not in origin_of(p)]
    if missing:
        raise InvalidReplicaAssignmentError(f"Replica assignment has brokers that are not alive: {missing}")
    check_not_cordoned([broker for broker in target if broker not in p.replicas], cordoned)
    return tuple(target)


def check_not_cordoned(replicas: Iterable[int], cordoned: Collection[int]) -> None:
    """Raise InvalidReplicaAssignmentError if one of the new replicas is on a cordoned broker (KIP-1066)."""
    excluded = [broker for broker in replicas if broker in cordoned]
    if excluded:
        raise InvalidReplicaAssignmentError(
            f"Replica assignment has brokers whose log directories are all cordoned: {excluded}"
        )


def is_reassigning(p: PartitionImage) -> bool:
    return bool(p.adding or p.removing)


def target_of(p: PartitionImage) -> tuple[int, ...]:
    """Return the replicas after the reassignment."""
    return tuple(r for r in p.replicas if r not in p.removing)


def origin_of(p: PartitionImage) -> tuple[int, ...]:
    """Return the replicas before the reassignment."""
    return tuple(r for r in p.replicas if r not in p.adding)


def start(p: PartitionImage, target: tuple[int, ...], candidates: Candidates) -> PartitionImage | None:
    """Return the state that starts a reassignment to `target`, or changes the target of one in progress.

    Return None if nothing changes.

    Raises InvalidReplicaAssignmentError if the only in-sync replicas, or the only ones that could lead, are those of an
    earlier target, which would be deleted.
    """
    origin = origin_of(p)
    adding = tuple(r for r in target if r not in origin)
    removing = tuple(r for r in origin if r not in target)
    replicas = (*target, *removing)
    if (replicas, adding, removing) == (p.replicas, p.adding, p.removing):
        return None
    # replicas of an earlier target that are not in the new one are no longer in sync
    isr = tuple(r for r in p.isr if r in replicas)
    leader = p.leader
    if leader not in (*replicas, NO_LEADER):
        leader = next((r for r in replicas if r in isr and r in candidates.alive), NO_LEADER)
    if not isr or (leader == NO_LEADER != p.leader):
        raise InvalidReplicaAssignmentError(
            f"None of {list(replicas)} is in sync; {list(p.isr)} must stay until one is."
        )
    placed = replace(p, replicas=replicas, adding=adding, removing=removing)
    return replace(placed, leader=leader, isr=isr, leader_epoch=p.leader_epoch + 1)


def cancel(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Return the state with the original replicas.

    Return None if none of them is in sync, or another replica leads and none of them can replace it.
    """
    return _finish(replace(p, removing=p.adding, adding=p.removing), origin_of(p), candidates)


def complete(p: PartitionImage, candidates: Candidates) -> PartitionImage | None:
    """Return the state with the target replicas only.

    Return None if there is no reassignment, not all target replicas are in sync, or another replica leads and none of
    them can replace it.
    """
    target = target_of(p)
    return _finish(p, target, candidates) if is_reassigning(p) and set(target) <= set(p.isr) else None


def _finish(p: PartitionImage, replicas: tuple[int, ...], candidates: Candidates) -> PartitionImage | None:
    led = reassigned(p, candidates) or p
    if led.leader not in replicas and led.leader >= 0:
        return None
    isr = tuple(r for r in led.isr if r in replicas)
    if not isr:
        return None
    return replace(led, replicas=replicas, adding=(), removing=(), isr=isr, leader_epoch=p.leader_epoch + 1)


def layout(topic: TopicImage, changed: Mapping[int, PartitionImage]) -> tuple[PartitionImage, ...]:
    return tuple(changed.get(index, p) for index, p in enumerate(topic.partitions))


def topic_value(topic: TopicImage) -> bytes:
    """Return the value of the topic's znode, which includes the replicas being added and removed."""
    reassigning = [(i, p) for i, p in enumerate(topic.partitions) if is_reassigning(p)]
    adding, removing = {i: p.adding for i, p in reassigning}, {i: p.removing for i, p in reassigning}
    return znodes.topic_value(topic.id, [p.replicas for p in topic.partitions], adding, removing)
