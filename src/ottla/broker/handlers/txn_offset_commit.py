"""TxnOffsetCommit: keep how far a group has read, if the transaction commits. Served in all versions.

From version 3 on member and generation are checked (KIP-447); from 5 on the group's partition of `__consumer_offsets`
joins the transaction with it, without AddOffsetsToTxn (KIP-890); 6 names topics by id.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker import participation
from ottla.broker.participation import Admission, Rules, Writer
from ottla.broker.services import Call
from ottla.coordinator.any_group import Committer
from ottla.coordinator.effects import Record
from ottla.coordinator.records import Committed, offset_record
from ottla.coordinator.state_log import Producer
from ottla.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidGroupIdError,
    KafkaError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    code_of,
)
from ottla.model import TopicPartition
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.records.batch import NO_SEQUENCE

LOADING_SINCE = 2
"""The version that knows COORDINATOR_LOAD_IN_PROGRESS."""
ABORTABLE_SINCE = 4
JOINS_SINCE = 5
TOPIC_IDS_SINCE = 6


def handle(request: TxnOffsetCommitRequest, call: Call) -> Awaitable[TxnOffsetCommitResponse]:
    """Keep the offsets aside until the transaction ends."""
    return _answer(request, call)


async def _answer(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    accepted: list[Record] = []
    response = TxnOffsetCommitResponse(topics=[_topic(topic, request, call, accepted) for topic in request.topics])
    if accepted:
        try:
            await _commit(request, call, accepted)
        except KafkaError as error:
            _fail(response, error, call.version)
    return response


async def _commit(request: TxnOffsetCommitRequest, call: Call, accepted: list[Record]) -> None:
    services, runtime = call.services, call.services.groups
    if not request.group_id:
        raise InvalidGroupIdError
    runtime.check(request.group_id)
    offsets = runtime.partition_of(request.group_id)
    writer = Writer(request.transactional_id, Producer(request.producer_id, request.producer_epoch))
    rules = Rules(
        joins=call.version >= JOINS_SINCE,
        abortable=call.version >= ABORTABLE_SINCE,
        come_again=CoordinatorLoadInProgressError,
    )
    admission = Admission()
    await participation.join(services, writer, {offsets: NO_SEQUENCE}, rules, admission)
    partition = services.partitions.leader(services.image, offsets)
    participation.check(services, writer, partition, rules, NO_SEQUENCE, admission)
    who = Committer(
        request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, transactional=True
    )
    runtime.offsets.check_commit(request.group_id, who, call.version)
    await runtime.append_pending(request.group_id, accepted, writer.producer)


def _topic(
    topic: TxnOffsetCommitRequestTopic, request: TxnOffsetCommitRequest, call: Call, accepted: list[Record]
) -> TxnOffsetCommitResponseTopic:
    answers = []
    for partition in topic.partitions:
        answer = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
        try:
            accepted.append(_record(topic, partition, request, call))
        except KafkaError as error:
            answer.error_code = code_of(error)
        answers.append(answer)
    return TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)


def _record(
    topic: TxnOffsetCommitRequestTopic,
    partition: TxnOffsetCommitRequestPartition,
    request: TxnOffsetCommitRequest,
    call: Call,
) -> Record:
    services = call.services
    name = services.image.names.get(topic.topic_id) if call.version >= TOPIC_IDS_SINCE else topic.name
    if name is None:
        raise UnknownTopicIdError
    tp = TopicPartition(name, partition.partition_index)
    if services.image.partition(tp) is None:
        raise UnknownTopicOrPartitionError
    committed = Committed(
        partition.committed_offset,
        partition.committed_leader_epoch,
        services.groups.offsets.check(partition.committed_metadata),
        services.clock.now_ms(),
    )
    return offset_record(request.group_id, tp, committed)


def _fail(response: TxnOffsetCommitResponse, error: KafkaError, version: int) -> None:
    """Tell every partition that was not refused before."""
    if version < LOADING_SINCE and isinstance(error, CoordinatorLoadInProgressError):
        error = CoordinatorNotAvailableError()
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = partition.error_code or code_of(error)
