"""ElectLeaders: let the preferred replica lead, or any replica where none in sync is left. Served in all versions."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.services import Call
from ottla.cluster.metadata import NO_LEADER
from ottla.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    KafkaError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    code_of,
)
from ottla.model import TopicPartition
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED, UNCLEAN = 0, 1


def handle(request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    """Look at each partition; of all partitions, those that need no election are not told."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise InvalidRequestError(f"there is no election type {request.election_type}")
    results = []
    for topic, partitions in _asked(request, call):
        found = [_elect(TopicPartition(topic, index), request.election_type, call) for index in partitions]
        if request.topic_partitions is None:
            found = [result for result in found if result.error_code != ElectionNotNeededError.code]
        if found:
            results.append(ReplicaElectionResult(topic=topic, partition_result=found))
    return ElectLeadersResponse(replica_election_results=results)


def _asked(request: ElectLeadersRequest, call: Call) -> Iterable[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        return [(name, range(len(topic.partitions))) for name, topic in call.services.image.topics.items()]
    return [(asked.topic, asked.partitions) for asked in request.topic_partitions]


def _elect(tp: TopicPartition, election_type: int, call: Call) -> PartitionResult:
    result = PartitionResult(partition_id=tp.partition, error_message=None)
    try:
        _check(tp, election_type, call)
    except KafkaError as error:
        result.error_code, result.error_message = code_of(error), error.message
    return result


def _check(tp: TopicPartition, election_type: int, call: Call) -> None:
    """Raise what Kafka answers. A broker by itself leads all that it has, so there is never anything to elect."""
    partition = call.services.image.partition(tp)
    if partition is None:
        raise UnknownTopicOrPartitionError("The partition does not exist.")
    led = partition.leader != NO_LEADER
    if election_type == UNCLEAN:
        raise ElectionNotNeededError("the partition has a leader") if led else EligibleLeadersNotAvailableError
    if partition.leader == partition.replicas[0]:
        raise ElectionNotNeededError("the preferred replica leads already")
    raise PreferredLeaderNotAvailableError(f"broker {partition.replicas[0]} is not there")
