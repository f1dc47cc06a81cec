"""The uniform assignor: everybody reads as many partitions as everybody else, and keeps what it has where it can.

Where all members read the same topics, their shares differ by one at the most. Otherwise no single partition could
move to another of its readers and make two shares more alike. Racks are left alone, as in Kafka.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from uuid import UUID

from ottla.coordinator.assignors.spec import MemberSpec
from ottla.coordinator.consumer_member import Assignment, TopicIdPartition

Shares = dict[str, set[TopicIdPartition]]


def assign(members: Mapping[str, MemberSpec], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """Share all partitions out."""
    if not members:
        return {}
    same = len({spec.topics for spec in members.values()}) == 1
    shares = _same_topics(members, partitions) if same else _other_topics(members, partitions)
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _same_topics(members: Mapping[str, MemberSpec], partitions: Mapping[UUID, int]) -> Shares:
    free = {TopicIdPartition(t, p) for t in next(iter(members.values())).topics for p in range(partitions[t])}
    low, extra = divmod(len(free), len(members))
    shares: Shares = {}
    # who has more than the others may keep one more of it
    for member_id in sorted(members, key=lambda m: (-len(members[m].assigned), m)):
        had = _ordered(members[member_id].assigned & free)
        more = extra > 0 and len(had) > low
        extra -= more
        shares[member_id] = set(had[: low + more])
        free -= shares[member_id]
    heap = [(len(share), member_id) for member_id, share in shares.items()]
    heapq.heapify(heap)
    for partition in _ordered(free):
        size, member_id = heap[0]
        shares[member_id].add(partition)
        heapq.heapreplace(heap, (size + 1, member_id))
    return shares


def _other_topics(members: Mapping[str, MemberSpec], partitions: Mapping[UUID, int]) -> Shares:
    readers = {t: sorted(m for m, spec in members.items() if t in spec.topics) for t in partitions}
    owners = _kept(members, partitions)
    sizes = dict.fromkeys(members, 0)
    for owner in owners.values():
        sizes[owner] += 1
    whole = [TopicIdPartition(t, p) for t, count in partitions.items() if readers[t] for p in range(count)]
    # what few can read is placed first
    for partition in sorted(set(whole) - owners.keys(), key=lambda p: (len(readers[p.topic_id]), *_order(p))):
        least = min(readers[partition.topic_id], key=lambda m: (sizes[m], m))
        owners[partition] = least
        sizes[least] += 1
    _level(_ordered(owners), owners, sizes, readers)
    shares: Shares = {member_id: set() for member_id in members}
    for partition, owner in owners.items():
        shares[owner].add(partition)
    return shares


def _kept(members: Mapping[str, MemberSpec], partitions: Mapping[UUID, int]) -> dict[TopicIdPartition, str]:
    return {
        partition: member_id
        for member_id, spec in members.items()
        for partition in spec.assigned
        if partition.topic_id in spec.topics and partition.partition < partitions[partition.topic_id]
    }


def _level(
    ordered: list[TopicIdPartition],
    owners: dict[TopicIdPartition, str],
    sizes: dict[str, int],
    readers: Mapping[UUID, list[str]],
) -> None:
    """Move partitions one by one to readers with less, until none is left that helps.

    Each move makes the sum of the squares smaller, so it ends.
    """
    moved = True
    while moved:
        moved = False
        for partition in ordered:
            owner = owners[partition]
            least = min(readers[partition.topic_id], key=lambda m: (sizes[m], m))
            if sizes[owner] > sizes[least] + 1:
                owners[partition] = least
                sizes[owner] -= 1
                sizes[least] += 1
                moved = True


def _order(partition: TopicIdPartition) -> tuple[int, int]:
    """First partitions of all topics, then second ones: a share is spread over the topics."""
    return partition.partition, partition.topic_id.int


def _ordered(partitions: Assignment | set[TopicIdPartition] | dict[TopicIdPartition, str]) -> list[TopicIdPartition]:
    return sorted(partitions, key=_order)
