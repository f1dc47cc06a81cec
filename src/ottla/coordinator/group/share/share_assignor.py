"""The `simple` assignor: partitions go round the members that read their topic, and members go round partitions.

With more members than partitions, several read one; with more partitions, one reads several. Every member
of a topic has something to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from ottla.coordinator.group.common.consumer_member import Assignment, TopicIdPartition

NAME = "simple"


def assign(topics: Mapping[str, frozenset[UUID]], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """From topics by member and numbers of partitions by topic to what each member reads."""
    shares: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in topics}
    turn = 0
    for topic_id in sorted(partitions, key=lambda t: t.int):
        readers = sorted(m for m, topic_ids in topics.items() if topic_id in topic_ids)
        if not readers or not partitions[topic_id]:
            continue
        for n in range(max(len(readers), partitions[topic_id])):
            # each topic begins with another member, so that the first ones do not get all that is left over
            reader = readers[(turn + n) % len(readers)]
            shares[reader].add(TopicIdPartition(topic_id, n % partitions[topic_id]))
        turn += partitions[topic_id]
    return {member_id: frozenset(share) for member_id, share in shares.items()}
