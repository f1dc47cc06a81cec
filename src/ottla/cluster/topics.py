"""What a topic may be called, and where its replicas go: decisions without I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from ottla.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    TopicAlreadyExistsError,
)

MAX_NAME_LENGTH = 249
"""So that the directory name `topic-partition` stays below 255."""
MAX_PARTITIONS = 10_000
"""Of one topic: each has files and memory, so a slip of a finger must not take the broker down."""
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: str) -> None:
    """Raise InvalidTopicError for a name that Kafka does not allow."""
    if not name:
        raise InvalidTopicError("the topic name is empty")
    if name in (".", ".."):
        raise InvalidTopicError(f"the topic name may not be {name!r}")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopicError(f"the topic name has {len(name)} characters; {MAX_NAME_LENGTH} are allowed")
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicError(f"the topic name {name!r} may have letters, digits, '.', '_' and '-' only")


def check_collision(name: str, existing: Iterable[str]) -> None:
    """Refuse `a_b` beside `a.b`: metric names write both the same way."""
    folded = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == folded:
            raise InvalidTopicError(f"topic {name} collides with the existing topic {other} ('.' and '_' count as one)")
    if name in set(existing):
        raise TopicAlreadyExistsError(f"Topic '{name}' already exists.")


def place(partitions: int, replication_factor: int, brokers: Sequence[int], first: int = 0) -> list[tuple[int, ...]]:
    """Spread replicas over the brokers: leaders in turn, followers on the ones after with a growing shift."""
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidPartitionsError(f"the number of partitions must be at least 1 and at most {MAX_PARTITIONS}")
    if not 1 <= replication_factor <= len(brokers):
        raise InvalidReplicationFactorError(
            f"replication factor {replication_factor} cannot be had: {len(brokers)} broker(s) are available"
        )
    ordered = sorted(brokers)
    n = len(ordered)
    placed = []
    for p in range(partitions):
        lead = (first + p) % n
        shift = p // n
        others = [(lead + 1 + (shift + r) % (n - 1)) % n for r in range(replication_factor - 1)]
        placed.append((ordered[lead], *(ordered[i] for i in others)))
    return placed


def given(assignment: Mapping[int, Sequence[int]], brokers: Iterable[int], first: int = 0) -> list[tuple[int, ...]]:
    """Check an assignment that a client chose: partitions count on from `first`, replicas are known and differ."""
    known = set(brokers)
    if sorted(assignment) != list(range(first, first + len(assignment))):
        raise InvalidReplicaAssignmentError("the partitions of an assignment must be numbered without a gap")
    widths = {len(replicas) for replicas in assignment.values()}
    if len(widths) != 1 or 0 in widths:
        raise InvalidReplicaAssignmentError("every partition needs the same number of replicas, at least one")
    for p, replicas in assignment.items():
        if len(set(replicas)) < len(replicas):
            raise InvalidReplicaAssignmentError(f"partition {p} names a broker twice")
        if not set(replicas) <= known:
            raise InvalidReplicaAssignmentError(f"partition {p} names a broker that is not there")
    return [tuple(assignment[p]) for p in sorted(assignment)]
