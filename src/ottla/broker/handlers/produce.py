"""Produce: append the client's batches, and answer when `acks` is satisfied.

The batches are validated (`storage.validation`), then written from the request's frame to the file, without a copy of
the bytes if nothing has to be changed in them. Message sets of versions 0 to 2 (formats 0 and 1) are up-converted
first. With `acks=0` there is no response; if such a request fails, the broker closes the connection. Batches for
internal topics are rejected.

A partition must be in the producer's transaction before its first batch is appended. From version 12 on, the broker
adds the partition. Older producers send AddPartitionsToTxn, and the broker verifies that the partition was added
(KIP-890), unless transaction.partition.verification.enable is false.

Requires WRITE on the topic and, for transactional batches, on the transactional id. A request with
transactional batches fails as a whole without WRITE on the transactional id.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterator
from typing import NamedTuple

from ottla import errors
from ottla.broker import leader_discovery, transaction_verification
from ottla.broker.request_context import RequestContext
from ottla.broker.transaction_verification import ClientCapabilities, TransactionalWriter, VerificationResult
from ottla.model import INTERNAL_TOPICS, ACLOperation, ProducerIdAndEpoch, TopicPartition
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
from ottla.replication.partition import ALL_REPLICAS, Partition
from ottla.replication.partitions import wait_all
from ottla.security.acl import ResourceType
from ottla.storage.log import Appended
from ottla.storage.validation import (
    DeferredAppendError,
    InvalidRecordsError,
    InvalidTimestampsError,
    Prepared,
    single_batch,
)

BATCHES_SINCE = 3
"""The first version in which clients send batches of format 2, one per partition."""
LEADERS_SINCE = 10
ABORTABLE_SINCE = 11
ZSTD_SINCE = 7
JOINS_SINCE = 12
TOPIC_IDS_SINCE = 13
OLD_FORMAT_FACTOR = 4
"""Maximum decompressed size of messages that are up-converted, as a multiple of max.message.bytes."""
COMPRESSED_AT_ONCE = 4
"""Number of compressed batches in a request above which other requests are processed in between."""
NOT_VERIFIED = VerificationResult()
"""The result if nothing was added or verified before the append."""
INVALID_DATA = (
    errors.MessageTooLargeError,
    errors.CorruptMessageError,
    errors.InvalidRecordError,
    errors.InvalidTimestampError,
    errors.UnsupportedCompressionTypeError,
    errors.UnsupportedForMessageFormatError,
)
"""Errors of batches with data that the broker does not accept, for which the owner of the client has to act."""
LOGGED = (*INVALID_DATA, errors.NotEnoughReplicasError)
"""Errors that are logged: those of INVALID_DATA, and the lack of in-sync replicas, for which the operator has to act.
"""
CONFIRM_SECONDS = 2.0
"""Maximum time in seconds to confirm the leadership before the producer gets an error that only the leader may
return.
"""


class Wait(NamedTuple):
    """A partition's response, which has to wait for `future`. If the future fails or times out, the response gets an
    error.
    """

    response: PartitionProduceResponse
    topic_partition: TopicPartition
    header: BatchHeader
    future: asyncio.Future[None]
    next_offset: int = 0
    """The offset after the appended records."""
    failure: errors.KafkaError | None = None
    """An error to return once the leadership is confirmed; None if the append succeeded."""


class DeferredAppend(NamedTuple):
    """A batch that cannot be appended at once, and the position (`responses[place]`) of its response."""

    responses: list[PartitionProduceResponse]
    place: int
    data: PartitionProduceData
    records: RecordData
    partition: Partition


class Pending:
    """The appends of a request that are not complete yet: deferred ones, and those that are not committed yet."""

    __slots__ = ("admission", "deferred", "waits")

    def __init__(self, admission: VerificationResult) -> None:
        self.admission = admission
        self.waits: list[Wait] = []
        self.deferred: list[DeferredAppend] = []


def handle(
    request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append the batches to their partitions. Wait for appends that are not committed at once."""
    if request.acks not in (ALL_REPLICAS, 0, 1):
        return _reject_all(request, errors.InvalidRequiredAcksError())
    newest = _highest_producer_id(request)
    if newest >= context.broker.producer_ids.end:
        return _verify_and_append(newest, request, context)
    return _append_authorized(request, context)


async def _verify_and_append(newest: int, request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    """Append the batches if the highest of their producer ids has been allocated, possibly just now by another broker.

    Otherwise reject all batches with UNKNOWN_PRODUCER_ID. If the metadata store is unreachable, a plausible id is
    accepted.
    """
    if not await context.broker.producer_ids.is_allocated(newest):
        return _reject_all(request, errors.UnknownProducerIdError(f"producer id {newest} has not been allocated"))
    answer = _append_authorized(request, context)
    return await answer if isinstance(answer, Awaitable) else answer


def _append_authorized(
    request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append the batches if the client may use the transactional id."""
    if context.broker.authorizer is not None and not _may_be_transactional(request, context):
        return _reject_all(request, errors.TransactionalIdAuthorizationFailedError())
    if request.transactional_id is None:
        return _append_all(request, context, NOT_VERIFIED)
    if context.version >= JOINS_SINCE or transaction_verification.is_remote(context.broker, request.transactional_id):
        return _join_and_append(request, context)
    return _append_all(request, context, NOT_VERIFIED)


def _highest_producer_id(request: ProduceRequest) -> int:
    highest = NO_PRODUCER_ID
    for topic in request.topic_data:
        for data in topic.partition_data:
            highest = max(highest, _producer_id(data.records))
    return highest


def _producer_id(records: RecordData | None) -> int:
    """Return the producer id of the first batch; NO_PRODUCER_ID if it has none or an older format."""
    if records is None or len(records) < HEADER_BYTES or records[MAGIC_POSITION] != MAGIC:
        return NO_PRODUCER_ID
    return int.from_bytes(records[PRODUCER_ID_POSITION : PRODUCER_ID_POSITION + 8], "big", signed=True)


def _may_be_transactional(request: ProduceRequest, context: RequestContext) -> bool:
    """Return whether the client may use the transactional id; True if no batch is transactional."""
    if not any(_has_transactional(data.records) for topic in request.topic_data for data in topic.partition_data):
        return True
    name = request.transactional_id
    return (
        name is not None
        and context.authorization_error(ACLOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name) is None
    )


def _has_transactional(records: RecordData | None) -> bool:
    """Return whether any batch is transactional. Up to version 2, there may be several batches."""
    if records is None:
        return False
    position = 0
    while position + HEADER_BYTES <= len(records):
        batch = records[position:]
        if batch[MAGIC_POSITION] == MAGIC and _is_transactional(batch):
            return True
        position += LOG_OVERHEAD + max(0, int.from_bytes(batch[8:LOG_OVERHEAD], "big", signed=True))
    return False


async def _join_and_append(request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    answer = _append_all(request, context, await _join(request, context))
    return await answer if isinstance(answer, Awaitable) else answer


async def _join(request: ProduceRequest, context: RequestContext) -> VerificationResult:
    """Add the partitions of transactional batches to the transaction, or verify that they are in it."""
    written: dict[ProducerIdAndEpoch, dict[TopicPartition, int]] = {}
    for tp, header in _transactional(request, context):
        producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        written.setdefault(producer, {})[tp] = header.base_sequence
    admission = VerificationResult()
    for producer, sequences in written.items():
        writer = TransactionalWriter(request.transactional_id or "", producer)
        await transaction_verification.add_or_verify(context.broker, writer, sequences, _rules(context), admission)
    return admission


def _transactional(request: ProduceRequest, context: RequestContext) -> Iterator[tuple[TopicPartition, BatchHeader]]:
    """Yield partition and header of the transactional batches for partitions that this broker leads and the client may
    write to, except duplicates and corrupt batches.
    """
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
    """Append all batches. If many are compressed, other requests are processed in between."""
    if _compressed_batches(request) > COMPRESSED_AT_ONCE:
        return _append_in_turns(request, context, admission)
    pending = Pending(admission)
    response = ProduceResponse(
        responses=[_append_topic(topic, request, context, pending) for topic in request.topic_data]
    )
    return _answer(response, pending, request, context)


def _compressed_batches(request: ProduceRequest) -> int:
    count = 0
    for topic in request.topic_data:
        for data in topic.partition_data:
            count += _is_compressed(data.records)
    return count


def _is_compressed(records: RecordData | None) -> bool:
    """Return whether a batch is compressed.

    Batches of older formats count as compressed, because converting them takes as long.
    """
    if records is None or len(records) <= MAGIC_POSITION:
        return False
    return records[MAGIC_POSITION] < MAGIC or _codec(records) != NONE


async def _append_in_turns(
    request: ProduceRequest, context: RequestContext, admission: VerificationResult
) -> ProduceResponse | None:
    """Append the batches one after the other. Other requests are processed in between.

    A batch of 2 kB may decompress to message.max.decompressed.bytes, and a request may contain thousands of them. The
    connection processes no other request meanwhile, so a producer's batches stay in order.
    """
    pending = Pending(admission)
    response = ProduceResponse()
    for topic in request.topic_data:
        answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        response.responses.append(answer)
        for data in topic.partition_data:
            one = TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])
            answer.partition_responses += _append_topic(one, request, context, pending).partition_responses
            await _append_deferred(pending, request, context)
            if _is_compressed(data.records):
                await asyncio.sleep(0)
    answered = _answer(response, pending, request, context)
    return await answered if isinstance(answered, Awaitable) else answered


async def _append_deferred(pending: Pending, request: ProduceRequest, context: RequestContext) -> None:
    """Append the batches that workers have to validate, or that have to wait for the queue of writes.

    The connection processes no other request meanwhile.
    """
    for responses, place, data, records, partition in pending.deferred:
        try:
            prepared = await partition.prepare(records)
            await _wait_for_disk(partition, request.timeout_ms)
            responses[place] = _append_records(data, records, prepared, partition, request, context, pending)
        except errors.KafkaError as error:
            responses[place] = _rejected(partition.topic_partition, data, error, context)
    pending.deferred.clear()


async def _wait_for_disk(partition: Partition, timeout_ms: int) -> None:
    try:
        async with asyncio.timeout(max(timeout_ms, 0) / 1000):
            await partition.wait_for_disk()
    except TimeoutError:
        raise errors.RequestTimedOutError(
            f"the disk of {partition.topic_partition} has not caught up with its appends within timeout.ms={timeout_ms}"
        ) from None


async def _answer_deferred(
    response: ProduceResponse, pending: Pending, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | None:
    await _append_deferred(pending, request, context)
    answered = _answer(response, pending, request, context)
    return await answered if isinstance(answered, Awaitable) else answered


def _answer(
    response: ProduceResponse, pending: Pending, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if pending.deferred:
        return _answer_deferred(response, pending, request, context)
    if request.acks == 0:
        if any(p.error_code for topic in response.responses for p in topic.partition_responses):
            raise CloseConnectionError("a batch sent with acks=0 was rejected")
        return None
    waits = pending.waits
    return _when_safe(response, waits, request, context) if waits else _with_leaders(response, request, context)


async def _when_safe(
    response: ProduceResponse, waits: list[Wait], request: ProduceRequest, context: RequestContext
) -> ProduceResponse:
    timeout_ms = request.timeout_ms
    await wait_all([wait.future for wait in waits], timeout_ms)
    for wait in waits:
        error = _timed_out(wait, timeout_ms, context) if wait.future.cancelled() else wait.future.exception()
        error = error or wait.failure
        if error is not None:
            wait.response.error_code = errors.code_of(error)
            wait.response.error_message = str(error)
            wait.response.base_offset = -1
            if isinstance(error, errors.KafkaError):
                context.broker.partitions.rejected_batches.add(wait.topic_partition, wait.header, error)
        if wait.failure is not None:
            # the size only counts for batches that are too large
            context.broker.partitions.topic_stats.get(wait.topic_partition.topic).on_rejected(wait.failure, 0)
    return _with_leaders(response, request, context)


def _timed_out(wait: Wait, timeout_ms: int, context: RequestContext) -> errors.RequestTimedOutError:
    tp = wait.topic_partition
    if wait.failure is not None:
        return errors.RequestTimedOutError(
            f"the followers have not confirmed within timeout.ms={timeout_ms} that this broker leads {tp}, so that it "
            f"may reject the batch: {wait.failure.message}"
        )
    partition = context.broker.partitions.get(tp)
    reason = "the partition was removed" if partition is None else partition.uncommitted_reason(wait.next_offset)
    return errors.RequestTimedOutError(
        f"the records of {tp} are not committed within timeout.ms={timeout_ms}: {reason}"
    )


def _with_leaders(response: ProduceResponse, request: ProduceRequest, context: RequestContext) -> ProduceResponse:
    """Add the current leaders of partitions that this broker does not lead (KIP-951)."""
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
    pending: Pending,
) -> TopicProduceResponse:
    answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
    try:
        name = _permitted(topic, context)
    except errors.KafkaError as error:
        answer.partition_responses = [_failed(data.index, error) for data in topic.partition_data]
        return answer
    for data in topic.partition_data:
        try:
            partition, records = _checked(name, data, context)
            appended = _append_records(data, records, records, partition, request, context, pending)
        except DeferredAppendError:
            appended = PartitionProduceResponse(index=data.index)
            place = len(answer.partition_responses)
            pending.deferred.append(DeferredAppend(answer.partition_responses, place, data, records, partition))
        except errors.KafkaError as error:
            appended = _rejected(TopicPartition(name, data.index), data, error, context)
        answer.partition_responses.append(appended)
    return answer


def _rejected(
    tp: TopicPartition, data: PartitionProduceData, error: errors.KafkaError, context: RequestContext
) -> PartitionProduceResponse:
    """Record that a batch was rejected, and return the response for it.

    After a retriable error, later batches of an idempotent producer may be rejected too (see `RejectedBatches`).
    """
    header, partitions = _header(data.records), context.broker.partitions
    if header is not None:
        partitions.rejected_batches.add(tp, header, error)
    partitions.topic_stats.get(tp.topic).on_rejected(error, 0 if data.records is None else len(data.records))
    if isinstance(error, LOGGED):
        context.log_rejection(tp, error)
    return _failed(data.index, error)


def _header(records: RecordData | None) -> BatchHeader | None:
    """Return the header of a batch of format 2; None for older formats, and for incomplete or corrupt batches."""
    if records is None or len(records) < HEADER_BYTES or records[MAGIC_POSITION] != MAGIC:
        return None
    try:
        return read_header(records)
    except errors.CorruptMessageError:
        return None


def _permitted(topic: TopicProduceData, context: RequestContext) -> str:
    """Return the topic's name. Raises UnknownTopicIdError for an unknown topic id, and an authorization error if the
    client may not write to the topic. Whether a named topic exists is not checked here.
    """
    name = _name(topic, context)
    if name is None:
        raise errors.UnknownTopicIdError
    context.require(ACLOperation.WRITE, ResourceType.TOPIC, name)
    return name


def _failed(partition: int, error: errors.KafkaError) -> PartitionProduceResponse:
    """Return the response for a batch that was not appended, with the list of invalid records."""
    records = error.records if isinstance(error, InvalidRecordsError | InvalidTimestampsError) else []
    return PartitionProduceResponse(
        index=partition,
        error_code=errors.code_of(error),
        base_offset=-1,
        record_errors=[BatchIndexAndErrorMessage(batch_index=i, batch_index_error_message=why) for i, why in records],
        error_message=error.message,
    )


def _checked(
    name: str,
    data: PartitionProduceData,
    context: RequestContext,
) -> tuple[Partition, RecordData]:
    """Return the partition, and the batch to append; messages of older formats are converted to it.

    Raises an error if the batch may not be appended.
    """
    broker = context.broker
    partition = broker.partitions.leader(broker.image, TopicPartition(name, data.index))
    if name in INTERNAL_TOPICS:
        raise errors.InvalidTopicError(f"topic {name} is internal, clients cannot write to it")
    records = data.records if data.records is not None else memoryview(b"")
    if context.version < BATCHES_SINCE and len(records) > MAGIC_POSITION and records[MAGIC_POSITION] != MAGIC:
        from ottla.records.legacy_message_set import to_batches  # only old clients need it

        began = time.perf_counter()
        records = memoryview(to_batches(records, OLD_FORMAT_FACTOR * partition.log.config.max_message_bytes))
        partition.topic_stats.produce_conversions += 1
        topic_stats = broker.partitions.topic_stats
        topic_stats.produce_conversion_times.record(time.perf_counter() - began)
        topic_stats.produce_conversion_bytes += records.nbytes
    else:
        records = single_batch(records)
        if context.version < ZSTD_SINCE and _codec(records) == ZSTD:
            raise errors.UnsupportedCompressionTypeError(f"zstd requires version {ZSTD_SINCE} of Produce")
    return partition, records


def _append_records(
    data: PartitionProduceData,
    records: RecordData,
    prepared: RecordData | Prepared,
    partition: Partition,
    request: ProduceRequest,
    context: RequestContext,
    pending: Pending,
) -> PartitionProduceResponse:
    """Append a batch, and return the response for it.

    Raises DeferredAppendError if a worker has to validate the batch first, or it has to wait for the queue of writes,
    and a KafkaError if the batch is rejected, unless the leadership has to be confirmed before that.
    """
    if _is_transactional(
        records
    ):  # checked just before the append, because the transaction may end while a worker validates the batch
        _check_transaction(request, records, partition, context, pending.admission)
    try:
        appended = _append_in_order(partition, records, prepared, request.acks, context)
    except errors.OutOfOrderSequenceNumberError as error:
        # for librdkafka this error of its oldest batch is fatal, even if the broker is no longer the leader
        confirmed = partition.leader_replica.confirm(CONFIRM_SECONDS) if request.acks else None
        if confirmed is None:
            raise
        failed = _failed(data.index, error)
        pending.waits.append(Wait(failed, partition.topic_partition, read_header(records), confirmed, failure=error))
        return failed
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=appended.log_start_offset,
    )
    if request.acks:
        next_offset = appended.last_offset + 1
        safe = partition.when_committed(next_offset, request.acks)
        if safe is not None:
            pending.waits.append(Wait(answer, partition.topic_partition, appended.header, safe, next_offset))
    return answer


def _append_in_order(
    partition: Partition, records: RecordData, prepared: RecordData | Prepared, acks: int, context: RequestContext
) -> Appended:
    """Append a batch; raise the error of an earlier batch of the producer that was rejected and has to be sent again
    first, or NotEnoughReplicasError if earlier batches may have been sent to the previous leader.
    """
    rejected, is_new = context.broker.partitions.rejected_batches, partition.leader_replica.is_new
    if (rejected or is_new) and (header := _header(records)) is not None:
        rejected.check(partition.topic_partition, header, partition.log.producers)
        if is_new:
            partition.leader_replica.check_overtaking(header)
    return partition.append(prepared, acks, inline=True)


def _codec(records: RecordData) -> int:
    return int(records[ATTRIBUTES_POSITION + 1]) & CODEC_MASK if len(records) >= HEADER_BYTES else NONE


def _is_transactional(records: RecordData) -> bool:
    return len(records) >= HEADER_BYTES and bool(records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_MASK)


def _rules(context: RequestContext) -> ClientCapabilities:
    return ClientCapabilities(
        context.version >= JOINS_SINCE, context.version >= ABORTABLE_SINCE, errors.NotEnoughReplicasError
    )


def _check_transaction(
    request: ProduceRequest,
    records: RecordData,
    partition: Partition,
    context: RequestContext,
    admission: VerificationResult,
) -> None:
    if request.transactional_id is None:
        raise errors.InvalidTxnStateError("a transactional batch in a request without a transactional id")
    header = read_header(records)
    if partition.log.producers.duplicate_of(header) is not None:
        return  # a duplicate: the response has the offset of the first append
    writer = TransactionalWriter(
        request.transactional_id, ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
    )
    transaction_verification.ensure_verified(
        context.broker, writer, partition, _rules(context), header.base_sequence, admission
    )


def _reject_all(request: ProduceRequest, error: errors.KafkaError) -> ProduceResponse:
    if request.acks == 0:
        raise CloseConnectionError(f"a request with acks=0 failed: {error}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=p.index, error_code=errors.code_of(error), base_offset=-1)
                    for p in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
