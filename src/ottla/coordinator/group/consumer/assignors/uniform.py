"""The uniform assignor: spreads partitions evenly over members, which keep those they have if possible.

If all members subscribe to the same topics, their numbers of partitions differ by one at most. Otherwise, no move of
one partition to another subscriber would make the numbers more equal, unless that takes more than MAX_ROUNDS rounds of
moves. Racks are ignored, as in Kafka.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from ottla.coordinator.group.common.consumer_member import Assignment
from ottla.coordinator.group.consumer.assignors.spec import MemberSpec
from ottla.model import TopicIdPartition

Shares = dict[str, set[TopicIdPartition]]

MAX_ROUNDS: Final = 16
"""Maximum number of times that the partitions of all topics are balanced, as in Kafka.

Members that each share a topic with the next one would otherwise take thousands of rounds, which block the broker.
"""


def assign(members: Mapping[str, MemberSpec], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    if not members:
        return {}
    same = len({spec.topics for spec in members.values()}) == 1
    shares = _same_topics(members, partitions) if same else _other_topics(members, partitions)
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _same_topics(members: Mapping[str, MemberSpec], partitions: Mapping[UUID, int]) -> Shares:
    free = {p for t in next(iter(members.values())).topics for p in _partitions(t, partitions)}
    low, extra = divmod(len(free), len(members))
    shares: Shares = {}
    # if the division has a remainder, members that have the most partitions keep one more
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
    readers = {t: [m for m, spec in members.items() if t in spec.topics] for t in partitions}
    owners = _retained(members, partitions)
    sizes = dict.fromkeys(members, 0)
    for owner in owners.values():
        sizes[owner] += 1
    # topics with few readers are assigned first
    by_readers = sorted((t for t in partitions if readers[t]), key=lambda t: (len(readers[t]), t.int))
    for topic_id in by_readers:
        least = _LeastLoaded(readers[topic_id], sizes)
        for partition in _partitions(topic_id, partitions):
            if partition not in owners:
                owners[partition] = least.assign()
    for _ in range(MAX_ROUNDS):
        if not sum(_balance(t, partitions[t], owners, _LeastLoaded(readers[t], sizes)) for t in by_readers):
            break
    shares: Shares = {member_id: set() for member_id in members}
    for partition, owner in owners.items():
        shares[owner].add(partition)
    return shares


class _LeastLoaded:
    """Finds the subscriber of one topic that has the fewest partitions. `sizes`: numbers of partitions by member id."""

    def __init__(self, readers: list[str], sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self._heap = [(sizes[m], m) for m in readers]
        heapq.heapify(self._heap)

    def assign(self) -> str:
        """Return the subscriber with the fewest partitions, and count one partition more for it."""
        size, member_id = self._heap[0]
        self.sizes[member_id] = size + 1
        heapq.heapreplace(self._heap, (size + 1, member_id))
        self._skip_old()
        return member_id

    @property
    def size(self) -> int:
        return self._heap[0][0]

    def unassign(self, member_id: str) -> None:
        self.sizes[member_id] -= 1
        heapq.heappush(self._heap, (self.sizes[member_id], member_id))

    def _skip_old(self) -> None:
        while self._heap[0][0] != self.sizes[self._heap[0][1]]:
            heapq.heappop(self._heap)


def _balance(topic_id: UUID, count: int, owners: dict[TopicIdPartition, str], least: _LeastLoaded) -> bool:
    """Move partitions of a topic to subscribers with at least two fewer. Return whether any was moved."""
    moved = False
    for index in range(count):
        partition = TopicIdPartition(topic_id, index)
        owner = owners[partition]
        if least.sizes[owner] > least.size + 1:
            owners[partition] = least.assign()
            least.unassign(owner)
            moved = True
    return moved


def _retained(members: Mapping[str, MemberSpec], partitions: Mapping[UUID, int]) -> dict[TopicIdPartition, str]:
    return {
        partition: member_id
        for member_id, spec in members.items()
        for partition in spec.assigned
        if partition.topic_id in spec.topics and partition.partition < partitions[partition.topic_id]
    }


def _partitions(topic_id: UUID, sizes: Mapping[UUID, int]) -> list[TopicIdPartition]:
    return [TopicIdPartition(topic_id, p) for p in range(sizes[topic_id])]


def _order(partition: TopicIdPartition) -> tuple[int, int]:
    """Return a sort key that puts partition 0 of all topics first, then partition 1, so that a member gets partitions
    of many topics.
    """
    return partition.partition, partition.topic_id.int


def _ordered(partitions: Assignment | set[TopicIdPartition]) -> list[TopicIdPartition]:
    return sorted(partitions, key=_order)
