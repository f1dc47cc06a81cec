"""The range assignor: the partitions of each topic are divided into ranges, one per subscriber.

Topics with the same number of partitions and the same subscribers are divided alike, so that a member gets the same
partitions of each and can join them. The ranges are in the order of the members: static members come first, ordered by
instance id, which survives a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from ottla.coordinator.group.common.consumer_member import Assignment
from ottla.coordinator.group.consumer.assignors.spec import MemberSpec
from ottla.model import TopicIdPartition


def assign(members: Mapping[str, MemberSpec], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """Divide each topic into one range per subscriber.

    The first subscribers get one partition more if the division has a remainder. A range may be empty.
    """
    ordered = sorted(members, key=lambda m: (members[m].instance_id is None, members[m].instance_id or m))
    shares: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in members}
    for topic_id, count in partitions.items():
        readers = [m for m in ordered if topic_id in members[m].topics]
        start = 0
        for i, member_id in enumerate(readers):
            end = start + count // len(readers) + (i < count % len(readers))
            shares[member_id].update(TopicIdPartition(topic_id, p) for p in range(start, end))
            start = end
    return {member_id: frozenset(share) for member_id, share in shares.items()}
