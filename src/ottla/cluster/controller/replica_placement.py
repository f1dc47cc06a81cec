"""Placement of replicas on brokers, and validation of new topics, without I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest

from ottla import errors
from ottla.cluster.controller.reassignment_rules import check_not_cordoned

MAX_PARTITIONS = 10_000
"""The maximum number of partitions per topic, so that a mistyped number does not exhaust the broker's files and
memory.
"""


def check_collision(name: str, existing: Collection[str]) -> None:
    """Raise TopicAlreadyExistsError if the topic exists, and InvalidTopicError if its name collides with another one.

    For example, `a_b` collides with `a.b`, because metrics use the same name for both.
    """
    if name in existing:
        raise errors.TopicAlreadyExistsError(f"Topic '{name}' already exists.")
    folded = name.replace(".", "_")
    if "_" not in folded:
        return  # no other name can collide with this one, so there is no need to check all topics
    for other in existing:
        if other != name and other.replace(".", "_") == folded:
            raise errors.InvalidTopicError(
                f"Topic '{name}' collides with existing topic '{other}': metrics do not distinguish '.' and '_'"
            )


def assign_replicas(
    partitions: int, replication_factor: int, racks: Mapping[int, str | None], first: int = 0
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, spread over brokers and racks.

    Leaders are placed round-robin. The followers come after the leader, with a gap that grows with each round.

    No rack gets a second replica of a partition while another rack has none (KIP-36). Brokers without a rack count as
    one rack. Raises InvalidPartitionsError or InvalidReplicationFactorError.
    """
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise errors.InvalidPartitionsError(f"the number of partitions must be at least 1 and at most {MAX_PARTITIONS}")
    if not 1 <= replication_factor <= len(racks):
        limit = f"larger than the number of available brokers, {len(racks)}" if replication_factor > 0 else "below 1"
        raise errors.InvalidReplicationFactorError(f"replication factor {replication_factor} is {limit}")
    ordered = _alternate_racks(racks)
    n = len(ordered)
    placed = []
    for p in range(partitions):
        lead, shift = (first + p) % n, p // n
        others = [ordered[(lead + 1 + (shift + r) % (n - 1)) % n] for r in range(n - 1)]
        placed.append(_spread_over_racks([ordered[lead], *others], replication_factor, racks))
    return placed


def assign_more_partitions(
    existing: Sequence[Sequence[int]], partitions: int, racks: Mapping[int, str | None]
) -> list[tuple[int, ...]]:
    """Return the replicas of the partitions to add to a topic so that it has `partitions` in total."""
    ordered = _alternate_racks(racks)
    leader = existing[0][0]
    first = ordered.index(leader) if leader in ordered else 0
    return assign_replicas(partitions, len(existing[0]), racks, first)[len(existing) :]


def _alternate_racks(racks: Mapping[int, str | None]) -> list[int]:
    by_rack: dict[str | None, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    rows = zip_longest(*(by_rack[rack] for rack in sorted(by_rack, key=str)))
    return [broker for row in rows for broker in row if broker is not None]


def _spread_over_racks(candidates: Sequence[int], count: int, racks: Mapping[int, str | None]) -> tuple[int, ...]:
    """Return the first `count` candidates, but take one of each rack before a second one of any rack."""
    chosen: list[int] = []
    left = list(candidates)
    while len(chosen) < count:
        used = Counter(racks[broker] for broker in chosen)
        best = min(left, key=lambda broker: used[racks[broker]])  # the first candidate whose rack has been used least
        chosen.append(best)
        left.remove(best)
    return tuple(chosen)


def validate_assignment(
    assignment: Mapping[int, Sequence[int]],
    brokers: Iterable[int],
    first: int = 0,
    *,
    cordoned: Collection[int] = (),
) -> list[tuple[int, ...]]:
    """Return a client's assignment as a list.

    Raises InvalidReplicaAssignmentError unless its partitions are consecutive from `first` on, all have the same number
    of replicas, at least one, and their brokers exist, are distinct and are not cordoned; InvalidPartitionsError if the
    topic would have more than MAX_PARTITIONS.
    """
    broker_ids = set(brokers)
    if first + len(assignment) > MAX_PARTITIONS:
        raise errors.InvalidPartitionsError(f"the number of partitions must be at least 1 and at most {MAX_PARTITIONS}")
    if sorted(assignment) != list(range(first, first + len(assignment))):
        raise errors.InvalidReplicaAssignmentError("the partitions of an assignment must be numbered consecutively")
    widths = {len(replicas) for replicas in assignment.values()}
    if len(widths) != 1 or 0 in widths:
        raise errors.InvalidReplicaAssignmentError(
            "every partition must have the same number of replicas, at least one"
        )
    for p, replicas in assignment.items():
        if len(set(replicas)) < len(replicas):
            raise errors.InvalidReplicaAssignmentError(f"the assignment of partition {p} has duplicate brokers")
        if not set(replicas) <= broker_ids:
            raise errors.InvalidReplicaAssignmentError(f"the assignment of partition {p} has an unknown broker")
        check_not_cordoned(replicas, cordoned)
    return [tuple(assignment[p]) for p in sorted(assignment)]
