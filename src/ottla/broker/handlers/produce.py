"""Produce: append the client's batches as they are, and answer when `acks` is met.

The bytes go from the request's frame to the file without a copy, after every record in them was checked
(`storage.validation`); those of versions 0 to 2 (message formats 0 and 1) are made into batches first. `acks=0` has no
answer: when such a request fails, the connection is closed, which is the only way to tell the client. Internal topics
refuse clients' batches.

A partition takes part in a producer's transaction before its first batch is taken. From version 12 on the broker makes
it join with that batch; older producers add it by AddPartitionsToTxn, and the broker looks whether they did (KIP-890).

A client has to be allowed to write to the topic, and, for transactional batches, to use the transactional id: where it
may not, nothing of the request is taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from typing import NamedTuple

from ottla.broker import leader_discovery, transaction_verification
from ottla.broker.request_context import RequestContext
from ottla.broker.transaction_verification import ClientCapabilities, TransactionalWriter, VerificationResult
from ottla.coordinator.runtime.coordinator_log import Producer
from ottla.errors import (
    CorruptMessageError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    InvalidTxnStateError,
    KafkaError,
    NotEnoughReplicasError,
    OutOfOrderSequenceNumberError,
    RequestTimedOutError,
    TransactionalIdAuthorizationFailedError,
    UnknownProducerIdError,
    UnknownTopicIdError,
    UnsupportedCompressionTypeError,
    code_of,
)
from ottla.model import INTERNAL_TOPICS, ACLOperation, TopicPartition
from ottla.net.server.connection import CloseConnectionError
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.wire import RecordData
from ottla.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    PRODUCER_ID_POSITION,
    TRANSACTIONAL_MASK,
    BatchHeader,
    read_header,
)
from ottla.records.compression import NONE, ZSTD
from ottla.records.legacy_message_set import magic_of, to_batches
from ottla.replication.partition import ALL_REPLICAS, Partition
from ottla.replication.partitions import wait_all
from ottla.security.acl import ResourceType
from ottla.storage.log import Appended
from ottla.storage.validation import InvalidRecordsError, InvalidTimestampsError, single_batch

BATCHES_SINCE = 3
"""The version from which clients send batches of format 2, one per partition."""
LEADERS_SINCE = 10
ABORTABLE_SINCE = 11
ZSTD_SINCE = 7
JOINS_SINCE = 12
TOPIC_IDS_SINCE = 13
OLD_FORMAT_FACTOR = 4
"""Old messages are converted one by one: so many times max.message.bytes of them at most, decompressed."""
COMPRESSED_AT_ONCE = 4
"""Batches of a request that are decompressed before other clients have their turn."""
NOT_ASKED = VerificationResult()
"""Nobody else had to be asked."""
CONFIRM_SECONDS = 2.0
"""How long a leader may take to prove that it still leads, before a producer is told to look for another."""


class Wait(NamedTuple):
    """A partition's response that is complete when `future` is; it fails with what the producer is told instead."""

    response: PartitionProduceResponse
    topic_partition: TopicPartition
    header: BatchHeader
    future: asyncio.Future[None]
    failure: KafkaError | None = None
    """What the producer is told in any case, once it is certain that this broker leads."""


Waits = list[Wait]


def handle(
    request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append to each partition; wait where an append is not safe yet."""
    if request.acks not in (ALL_REPLICAS, 0, 1):
        return _nothing_taken(request, InvalidRequiredAcksError())
    newest = _highest_producer_id(request)
    if newest >= context.broker.producer_ids.end:
        return _verify_and_take(newest, request, context)
    return _append_authorized(request, context)


async def _verify_and_take(newest: int, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    """Take the batches if their producer ids are allocated; another broker may have done that a moment ago."""
    if not await context.broker.producer_ids.is_allocated(newest):
        return _nothing_taken(request, UnknownProducerIdError(f"producer id {newest} was never allocated"))
    answer = _append_authorized(request, context)
    return await answer if isinstance(answer, Awaitable) else answer


def _append_authorized(
    request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append to each partition; wait where an append is not safe yet."""
    if context.broker.authorizer is not None and not _may_be_transactional(request, context):
        return _nothing_taken(request, TransactionalIdAuthorizationFailedError())
    if request.transactional_id is None:
        return _append_all(request, context, NOT_ASKED)
    if context.version >= JOINS_SINCE or transaction_verification.is_remote(context.broker, request.transactional_id):
        return _join_and_append(request, context)
    return _append_all(request, context, NOT_ASKED)


def _highest_producer_id(request: ProduceRequest) -> int:
    batches = (data.records for topic in request.topic_data for data in topic.partition_data)
    return max(map(_producer_id, batches), default=NO_PRODUCER_ID)


def _producer_id(records: RecordData | None) -> int:
    """Of the first batch; -1 without one, and for older formats, which have none."""
    if records is None or len(records) < HEADER_BYTES or records[MAGIC_POSITION] != MAGIC:
        return NO_PRODUCER_ID
    return int.from_bytes(records[PRODUCER_ID_POSITION : PRODUCER_ID_POSITION + 8], "big", signed=True)


def _may_be_transactional(request: ProduceRequest, context: RequestContext) -> bool:
    """Whether the client may use the transactional id, as far as any batch does."""
    if not any(_has_transactional(data.records) for topic in request.topic_data for data in topic.partition_data):
        return True
    name = request.transactional_id
    return (
        name is not None
        and context.authorization_error(ACLOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name) is None
    )


def _has_transactional(records: RecordData | None) -> bool:
    """Whether any batch is transactional; up to version 2, there may be several."""
    if records is None:
        return False
    position = 0
    while position + HEADER_BYTES <= len(records):
        batch = records[position:]
        if magic_of(batch) == MAGIC and _is_transactional(batch):
            return True
        position += LOG_OVERHEAD + max(0, int.from_bytes(batch[8:LOG_OVERHEAD], "big", signed=True))
    return False


async def _join_and_append(request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    answer = _append_all(request, context, await _join(request, context))
    return await answer if isinstance(answer, Awaitable) else answer


async def _join(request: ProduceRequest, context: RequestContext) -> VerificationResult:
    """Have the partitions of transactional batches join the transaction."""
    written: dict[Producer, dict[TopicPartition, int]] = {}
    for tp, header in _transactional(request, context):
        producer = Producer(header.producer_id, header.producer_epoch)
        written.setdefault(producer, {})[tp] = header.base_sequence
    admission = VerificationResult()
    for producer, sequences in written.items():
        writer = TransactionalWriter(request.transactional_id or "", producer)
        await transaction_verification.add_or_verify(context.broker, writer, sequences, _rules(context), admission)
    return admission


def _transactional(request: ProduceRequest, context: RequestContext) -> Iterator[tuple[TopicPartition, BatchHeader]]:
    """The partitions led here that transactional batches are for, those left out that are in the log already."""
    for topic in request.topic_data:
        name = _name(topic, context)
        if name is None or not context.allows(ACLOperation.WRITE, ResourceType.TOPIC, name):
            continue
        for data in topic.partition_data:
            records = data.records
            partition = context.broker.partitions.get_leader(TopicPartition(name, data.index))
            if records is None or partition is None or not _is_transactional(records):
                continue
            header = _header(records)
            if header is not None and partition.log.producers.duplicate_of(header) is None:
                yield partition.topic_partition, header


def _append_all(
    request: ProduceRequest, context: RequestContext, admission: VerificationResult
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append everything; transactional batches only where their partitions take part."""
    if _compressed_batches(request) > COMPRESSED_AT_ONCE:
        return _append_in_turns(request, context, admission)
    waits: Waits = []
    response = ProduceResponse(
        responses=[_append_topic(topic, request, context, waits, admission) for topic in request.topic_data]
    )
    return _answer(response, waits, request, context)


def _compressed_batches(request: ProduceRequest) -> int:
    return sum(_is_compressed(data.records) for topic in request.topic_data for data in topic.partition_data)


def _is_compressed(records: RecordData | None) -> bool:
    """Whether a batch is compressed; one of an old format, which is converted record by record, counts as such."""
    if records is None or len(records) <= MAGIC_POSITION:
        return False
    return magic_of(records) < MAGIC or _codec(records) != NONE


async def _append_in_turns(
    request: ProduceRequest, context: RequestContext, admission: VerificationResult
) -> ProduceResponse | None:
    """Append to one partition after the other; others get their turn while batches are decompressed.

    A batch of 2 kB may decompress to message.max.decompressed.bytes, and a request has room for thousands of them.
    The connection takes no other request meanwhile, so that a producer's batches stay in order.
    """
    waits: Waits = []
    response = ProduceResponse()
    for topic in request.topic_data:
        answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        response.responses.append(answer)
        for data in topic.partition_data:
            one = TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])
            answer.partition_responses += _append_topic(one, request, context, waits, admission).partition_responses
            if _is_compressed(data.records):
                await asyncio.sleep(0)
    answered = _answer(response, waits, request, context)
    return await answered if isinstance(answered, Awaitable) else answered


def _answer(
    response: ProduceResponse, waits: Waits, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.acks == 0:
        if any(p.error_code for topic in response.responses for p in topic.partition_responses):
            raise CloseConnectionError("a batch was refused that was sent with acks=0")
        return None
    return _when_safe(response, waits, request, context) if waits else _with_leaders(response, request, context)


async def _when_safe(
    response: ProduceResponse, waits: Waits, request: ProduceRequest, context: RequestContext
) -> ProduceResponse:
    timeout_ms = request.timeout_ms
    await wait_all([wait.future for wait in waits], timeout_ms)
    for wait in waits:
        error = wait.future.exception() if wait.future.done() else RequestTimedOutError()
        error = error or wait.failure
        if error is not None:
            wait.response.error_code = code_of(error)
            wait.response.error_message = str(error)
            wait.response.base_offset = -1
            if isinstance(error, KafkaError):
                context.broker.partitions.rejected_batches.add(wait.topic_partition, wait.header, error)
    return _with_leaders(response, request, context)


def _with_leaders(response: ProduceResponse, request: ProduceRequest, context: RequestContext) -> ProduceResponse:
    """Tell who leads instead of this broker (KIP-951)."""
    if context.version < LEADERS_SINCE:
        return response
    failed = (
        (TopicPartition(_name(data, context) or "", answer.index), answer)
        for data, topic in zip(request.topic_data, response.responses, strict=True)
        for answer in topic.partition_responses
        if answer.error_code
    )
    response.node_endpoints = [
        NodeEndpoint(node_id=n.id, host=n.host, port=n.port, rack=n.rack)
        for n in leader_discovery.add_current_leaders(
            context, failed, lambda i, epoch: LeaderIdAndEpoch(leader_id=i, leader_epoch=epoch)
        )
    ]
    return response


def _name(topic: TopicProduceData, context: RequestContext) -> str | None:
    return context.broker.image.names.get(topic.topic_id) if context.version >= TOPIC_IDS_SINCE else topic.name


def _append_topic(
    topic: TopicProduceData,
    request: ProduceRequest,
    context: RequestContext,
    waits: Waits,
    admission: VerificationResult,
) -> TopicProduceResponse:
    answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
    try:
        name = _permitted(topic, context)
    except KafkaError as error:
        answer.partition_responses = [_failed(data.index, error) for data in topic.partition_data]
        return answer
    for data in topic.partition_data:
        try:
            answer.partition_responses.append(_append(name, data, request, context, waits, admission))
        except KafkaError as error:
            answer.partition_responses.append(_failed(data.index, error))
            header = _header(data.records)
            if header is not None:
                context.broker.partitions.rejected_batches.add(TopicPartition(name, data.index), header, error)
    return answer


def _header(records: RecordData | None) -> BatchHeader | None:
    """The header of a batch of format 2; None for anything else."""
    if records is None or len(records) < HEADER_BYTES or magic_of(records) != MAGIC:
        return None
    try:
        return read_header(records)
    except CorruptMessageError:
        return None


def _permitted(topic: TopicProduceData, context: RequestContext) -> str:
    """The topic's name, if there is one and the client may write to it."""
    name = _name(topic, context)
    if name is None:
        raise UnknownTopicIdError
    context.require(ACLOperation.WRITE, ResourceType.TOPIC, name)
    return name


def _failed(partition: int, error: KafkaError) -> PartitionProduceResponse:
    """Why a partition's batch was not appended, and because of which records."""
    records = error.records if isinstance(error, InvalidRecordsError | InvalidTimestampsError) else []
    return PartitionProduceResponse(
        index=partition,
        error_code=code_of(error),
        base_offset=-1,
        record_errors=[BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=why) for i, why in records],
        error_message=error.message,
    )


def _append(
    name: str,
    data: PartitionProduceData,
    request: ProduceRequest,
    context: RequestContext,
    waits: Waits,
    admission: VerificationResult,
) -> PartitionProduceResponse:
    broker = context.broker
    partition = broker.partitions.leader(broker.image, TopicPartition(name, data.index))
    if name in INTERNAL_TOPICS:
        raise InvalidTopicError(f"topic {name} is written by the broker only")
    records = data.records if data.records is not None else memoryview(b"")
    if context.version < BATCHES_SINCE and len(records) > MAGIC_POSITION and records[MAGIC_POSITION] != MAGIC:
        records = memoryview(to_batches(records, OLD_FORMAT_FACTOR * partition.log.config.max_message_bytes))
    else:
        records = single_batch(records)
        if context.version < ZSTD_SINCE and _codec(records) == ZSTD:
            raise UnsupportedCompressionTypeError(f"zstd needs version {ZSTD_SINCE} of this request")
    if _is_transactional(records):
        _check_transaction(request, records, partition, context, admission)
    try:
        appended = _append_in_order(partition, records, request.acks, context)
    except OutOfOrderSequenceNumberError as error:
        # librdkafka ends for good if the batch that is first in its order gets this from a broker that does not lead
        confirmed = partition.leader_replica.confirm(CONFIRM_SECONDS) if request.acks else None
        if confirmed is None:
            raise
        failed = _failed(data.index, error)
        waits.append(Wait(failed, partition.topic_partition, read_header(records), confirmed, error))
        return failed
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=appended.log_start_offset,
    )
    if request.acks:
        safe = partition.when_committed(appended.last_offset + 1, request.acks)
        if safe is not None:
            waits.append(Wait(answer, partition.topic_partition, appended.header, safe))
    return answer


def _append_in_order(partition: Partition, records: RecordData, acks: int, context: RequestContext) -> Appended:
    """Append, unless an earlier batch of the producer was rejected and has to come first."""
    rejected = context.broker.partitions.rejected_batches
    if rejected and (header := _header(records)) is not None:
        rejected.check(partition.topic_partition, header, partition.log.producers)
    return partition.append(records, acks)


def _codec(records: RecordData) -> int:
    return int(records[ATTRIBUTES_POSITION + 1]) & CODEC_MASK if len(records) >= HEADER_BYTES else NONE


def _is_transactional(records: RecordData) -> bool:
    return len(records) >= HEADER_BYTES and bool(records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_MASK)


def _rules(context: RequestContext) -> ClientCapabilities:
    return ClientCapabilities(
        context.version >= JOINS_SINCE, context.version >= ABORTABLE_SINCE, NotEnoughReplicasError
    )


def _check_transaction(
    request: ProduceRequest,
    records: RecordData,
    partition: Partition,
    context: RequestContext,
    admission: VerificationResult,
) -> None:
    if request.transactional_id is None:
        raise InvalidTxnStateError("a transactional batch in a request without a transactional id")
    header = read_header(records)
    if partition.log.producers.duplicate_of(header) is not None:
        return  # answered with where it lies already
    writer = TransactionalWriter(request.transactional_id, Producer(header.producer_id, header.producer_epoch))
    transaction_verification.ensure_verified(
        context.broker, writer, partition, _rules(context), header.base_sequence, admission
    )


def _nothing_taken(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    if request.acks == 0:
        raise CloseConnectionError(f"a request with acks=0 was refused: {error}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=p.index, error_code=code_of(error), base_offset=-1)
                    for p in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
