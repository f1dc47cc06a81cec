"""Adds the current leader to errors such as NOT_LEADER_OR_FOLLOWER, so that clients need no metadata request
(KIP-951).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from ottla.broker.request_context import RequestContext
from ottla.cluster.image.cluster_image import NO_LEADER
from ottla.errors import FencedLeaderEpochError, NotLeaderOrFollowerError
from ottla.model import Node, TopicPartition
from ottla.protocol.messages import share_acknowledge, share_fetch

CODES = frozenset({NotLeaderOrFollowerError.code, FencedLeaderEpochError.code})
"""The codes of errors to which the current leader is added."""

L = TypeVar("L")


class PartitionErrorFields(Protocol[L]):
    """A partition of a response to Produce, Fetch, ShareFetch or ShareAcknowledge."""

    error_code: int
    current_leader: L | None


def add_current_leaders(
    context: RequestContext,
    answers: Iterable[tuple[TopicPartition, PartitionErrorFields[L]]],
    leader_and_epoch: Callable[[int, int], L],
) -> list[Node]:
    """Add the current leader to results with an error in CODES, if another broker is the leader.

    Return the leaders' nodes for the response.
    """
    image, leaders = context.broker.image, set()
    for tp, answer in answers:
        partition = image.partition(tp) if answer.error_code in CODES else None
        if partition is not None and partition.leader not in (NO_LEADER, context.broker.broker_id):
            answer.current_leader = leader_and_epoch(partition.leader, partition.leader_epoch)
            leaders.add(partition.leader)
    listener = context.connection.listener.name
    return [image.brokers[leader].node(listener) for leader in sorted(leaders) if leader in image.brokers]


def add_leaders_to_share_response(
    context: RequestContext, response: share_fetch.ShareFetchResponse | share_acknowledge.ShareAcknowledgeResponse
) -> None:
    """Add the current leaders to the results of failed partitions, and their nodes to the response.

    Without a leader to add, the fields are -1. Their default is 0, which clients would take for broker 0.
    """
    messages = share_fetch if isinstance(response, share_fetch.ShareFetchResponse) else share_acknowledge
    failed: list[tuple[TopicPartition, Any]] = [
        (TopicPartition(context.broker.image.names.get(topic.topic_id, ""), data.partition_index), data)
        for topic in response.responses
        for data in topic.partitions
        if data.error_code
    ]
    for _, data in failed:
        data.current_leader = messages.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    response.node_endpoints = [
        messages.NodeEndpoint(node_id=n.id, host=n.host, port=n.port, rack=n.rack)
        for n in add_current_leaders(
            context, failed, lambda i, epoch: messages.LeaderIdAndEpoch(leader_id=i, leader_epoch=epoch)
        )
    ]
