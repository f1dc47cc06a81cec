"""ElectLeaders: elect preferred leaders, or unclean leaders of partitions that have none.

Requires ALTER on the cluster.

An authorization error is also in every partition's result, because version 0 has no other field for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from ottla import errors
from ottla.broker.request_context import RequestContext
from ottla.cluster.controller.leader_election import Reason
from ottla.cluster.image.cluster_image import NO_LEADER
from ottla.logs import listed
from ottla.model import ACLOperation, TopicPartition
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.security.acl import ResourceType

PREFERRED, UNCLEAN = 0, 1


def handle(
    request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse | Awaitable[ElectLeadersResponse]:
    """Elect leaders. The response to a request for all partitions leaves out those that need no election."""
    authorization_error = context.authorization_error(ACLOperation.ALTER, ResourceType.CLUSTER)
    if authorization_error is not None:
        return _failed(request, authorization_error)
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise errors.InvalidRequestError(f"unknown election type {request.election_type}")
    return _elect(request, context)


def _failed(request: ElectLeadersRequest, error: errors.KafkaError) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(topic=topic.topic, partition_result=[_result(index, error) for index in topic.partitions])
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=errors.code_of(error), replica_election_results=results)


async def _elect(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    requested = [(topic, list(partitions)) for topic, partitions in _requested(request, context)]
    needed = {tp: _why_not_needed(tp, request.election_type, context) for tp in _named(requested)}
    reason = Reason.PREFERRED if request.election_type == PREFERRED else Reason.UNCLEAN
    elected = await context.broker.controller.elect(reason, [tp for tp, error in needed.items() if error is None])
    if elected:
        context.log_change("Elected %s leaders of %s", reason.name.lower(), listed(list(elected)))
    results = []
    for topic, partitions in requested:
        partition_results = []
        for index in partitions:
            tp = TopicPartition(topic, index)
            error = needed[tp] if tp not in elected else None
            if error is None and (tp not in elected or elected[tp].leader == NO_LEADER):
                error = _why_not_elected(tp, reason, context)
            partition_results.append(_result(index, error))
        if request.topic_partitions is None:
            partition_results = [
                result for result in partition_results if result.error_code != errors.ElectionNotNeededError.code
            ]
        if partition_results:
            results.append(ReplicaElectionResult(topic=topic, partition_result=partition_results))
    return ElectLeadersResponse(replica_election_results=results)


def _named(topics: Iterable[tuple[str, Iterable[int]]]) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic, partitions in topics for index in partitions]


def _requested(request: ElectLeadersRequest, context: RequestContext) -> Iterable[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        return [(name, range(len(topic.partitions))) for name, topic in context.broker.image.topics.items()]
    return [(entry.topic, entry.partitions) for entry in request.topic_partitions]


def _result(index: int, error: errors.KafkaError | None) -> PartitionResult:
    if error is None:
        return PartitionResult(partition_id=index, error_message=None)
    return PartitionResult(partition_id=index, error_code=errors.code_of(error), error_message=error.message)


def _why_not_needed(tp: TopicPartition, election_type: int, context: RequestContext) -> errors.KafkaError | None:
    partition = context.broker.image.partition(tp)
    if partition is None:
        return errors.UnknownTopicOrPartitionError("The partition does not exist.")
    if election_type == UNCLEAN:
        return (
            None
            if partition.leader == NO_LEADER
            else errors.ElectionNotNeededError("the partition already has a leader")
        )
    if partition.leader == partition.replicas[0]:
        return errors.ElectionNotNeededError("the preferred replica already is the leader")
    return None


def _why_not_elected(tp: TopicPartition, reason: Reason, context: RequestContext) -> errors.KafkaError:
    if reason is Reason.UNCLEAN:
        return errors.EligibleLeadersNotAvailableError()
    partition = context.broker.image.partition(tp)
    first = "?" if partition is None else partition.replicas[0]
    return errors.PreferredLeaderNotAvailableError(f"broker {first} is not alive or not in sync")
