"""TxnOffsetCommit: store a group's offsets, which become visible when the transaction is committed.

From version 3 on, member and generation are checked (KIP-447). From 5 on, the broker adds the group's partition of
`__consumer_offsets` to the transaction, so AddOffsetsToTxn is not needed (KIP-890). From 6 on, topics are identified by
id.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla import errors
from ottla.broker import transaction_verification
from ottla.broker.offset_commit_checks import codes_of, fail
from ottla.broker.request_context import RequestContext
from ottla.broker.transaction_verification import ClientCapabilities, TransactionalWriter, VerificationResult
from ottla.coordinator.group.classic.records import CommittedOffset, offset_record
from ottla.coordinator.group.common.group import Committer
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.model import ACLOperation, ProducerIdAndEpoch, TopicPartition
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.records.batch import NO_SEQUENCE
from ottla.security.acl import ResourceType

LOADING_SINCE = 2
"""The first version whose clients know COORDINATOR_LOAD_IN_PROGRESS."""
ABORTABLE_SINCE = 4
JOINS_SINCE = 5
TOPIC_IDS_SINCE = 6


async def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    accepted: dict[TopicPartition, CoordinatorRecord] = {}
    try:
        context.require(ACLOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    except errors.KafkaError as error:
        return _all_failed(request, error)
    response = TxnOffsetCommitResponse(topics=[_topic(topic, request, context, accepted) for topic in request.topics])
    if accepted:
        try:
            await _commit(request, context, accepted)
        except errors.KafkaError as error:
            fail(response.topics, _for_version(error, context.version))
    return response


async def _commit(
    request: TxnOffsetCommitRequest, context: RequestContext, accepted: dict[TopicPartition, CoordinatorRecord]
) -> None:
    broker, runtime = context.broker, context.broker.groups
    if not request.group_id:
        raise errors.InvalidGroupIdError
    runtime.check(request.group_id)
    offsets = runtime.partition_of(request.group_id)
    writer = TransactionalWriter(
        request.transactional_id, ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    )
    rules = ClientCapabilities(
        joins=context.version >= JOINS_SINCE,
        abortable=context.version >= ABORTABLE_SINCE,
        retriable_error=errors.CoordinatorLoadInProgressError,
    )
    admission = VerificationResult()
    await transaction_verification.add_or_verify(broker, writer, {offsets: NO_SEQUENCE}, rules, admission)
    partition = broker.partitions.leader(broker.image, offsets)
    transaction_verification.ensure_verified(broker, writer, partition, rules, NO_SEQUENCE, admission)
    committer = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        transactional=True,
        partitions=accepted.keys(),
    )
    runtime.offsets.check_commit(request.group_id, committer, context.version)
    await runtime.append_pending(request.group_id, list(accepted.values()), writer.producer)


def _topic(
    topic: TxnOffsetCommitRequestTopic,
    request: TxnOffsetCommitRequest,
    context: RequestContext,
    accepted: dict[TopicPartition, CoordinatorRecord],
) -> TxnOffsetCommitResponseTopic:
    def accept(tp: TopicPartition, partition: TxnOffsetCommitRequestPartition) -> None:
        accepted[tp] = _record(tp, partition, request, context)

    return _response_topic(topic, codes_of(topic, context, TOPIC_IDS_SINCE, accept))


def _record(
    tp: TopicPartition,
    partition: TxnOffsetCommitRequestPartition,
    request: TxnOffsetCommitRequest,
    context: RequestContext,
) -> CoordinatorRecord:
    broker = context.broker
    committed = CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        broker.groups.offsets.checked_metadata(partition.committed_metadata),
        broker.clock.now_ms(),
    )
    return offset_record(request.group_id, tp, committed)


def _for_version(error: errors.KafkaError, version: int) -> errors.KafkaError:
    """Return the error, or one that clients of this version know instead."""
    if version < LOADING_SINCE and isinstance(error, errors.CoordinatorLoadInProgressError):
        return errors.CoordinatorNotAvailableError()
    return error


def _response_topic(
    topic: TxnOffsetCommitRequestTopic, codes: Iterable[tuple[int, int]]
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[TxnOffsetCommitResponsePartition(partition_index=i, error_code=code) for i, code in codes],
    )


def _all_failed(request: TxnOffsetCommitRequest, error: errors.KafkaError) -> TxnOffsetCommitResponse:
    response = TxnOffsetCommitResponse(
        topics=[_response_topic(topic, [(p.partition_index, 0) for p in topic.partitions]) for topic in request.topics]
    )
    fail(response.topics, error)
    return response
