"""The `simple` assignor of share groups: partitions and members are assigned to each other in turn.

If there are more members than partitions, several members read the same partition. If there are more partitions, some
members read several. Every subscriber of a topic gets at least one of its partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from ottla.coordinator.group.common.consumer_member import Assignment
from ottla.model import TopicIdPartition

NAME = "simple"


def assign(topics: Mapping[str, frozenset[UUID]], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """Return the assignment by member id. `topics`: the subscribed topic ids by member id; `partitions`: the number of
    partitions by topic id.
    """
    shares: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in topics}
    turn = 0
    for topic_id in sorted(partitions, key=lambda t: t.int):
        readers = sorted(m for m, topic_ids in topics.items() if topic_id in topic_ids)
        if not readers or not partitions[topic_id]:
            continue
        for n in range(max(len(readers), partitions[topic_id])):
            # each topic starts with another member, so that the remainders do not all go to the first members
            reader = readers[(turn + n) % len(readers)]
            shares[reader].add(TopicIdPartition(topic_id, n % partitions[topic_id]))
        turn += partitions[topic_id]
    return {member_id: frozenset(share) for member_id, share in shares.items()}
