"""Adds the current leader to errors such as NOT_LEADER_OR_FOLLOWER, so that clients need no metadata request
(KIP-951).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from ottla.broker.request_context import RequestContext
from ottla.cluster.image.cluster_image import NO_LEADER
from ottla.errors import FencedLeaderEpochError, NotLeaderOrFollowerError
from ottla.model import Node, TopicPartition

CODES = frozenset({NotLeaderOrFollowerError.code, FencedLeaderEpochError.code})
"""The codes of errors to which the current leader is added."""

L = TypeVar("L")


class PartitionErrorFields(Protocol[L]):
    """A partition of a response to Produce or Fetch."""

    error_code: int
    current_leader: L | None


def add_current_leaders(
    context: RequestContext,
    answers: Iterable[tuple[TopicPartition, PartitionErrorFields[L]]],
    leader_and_epoch: Callable[[int, int], L],
) -> list[Node]:
    """Add the current leader to the results of failed partitions. Return the leaders' nodes for the response."""
    image, leaders = context.broker.image, set()
    for tp, answer in answers:
        partition = image.partition(tp) if answer.error_code in CODES else None
        if partition is not None and partition.leader not in (NO_LEADER, context.broker.broker_id):
            answer.current_leader = leader_and_epoch(partition.leader, partition.leader_epoch)
            leaders.add(partition.leader)
    listener = context.connection.listener.name
    return [image.brokers[leader].node(listener) for leader in sorted(leaders) if leader in image.brokers]
