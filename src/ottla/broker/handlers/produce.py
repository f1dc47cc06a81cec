"""Produce: append the client's batches as they are, and answer when `acks` is met.

Served in all versions. The bytes go from the request's frame to the file without being looked into beyond their headers
and checksum; those of versions 0 to 2 (message formats 0 and 1) are made into batches first. `acks=0` has no answer:
when such a request fails, the connection is closed, which is the only way to tell the client. Internal topics refuse
clients' batches.

Left out on purpose: transactional batches are refused until the transaction coordinator is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.broker.services import Call
from ottla.cluster.metadata import INTERNAL_TOPICS
from ottla.errors import (
    InvalidRequiredAcksError,
    InvalidTopicError,
    InvalidTxnStateError,
    KafkaError,
    RequestTimedOutError,
    UnknownTopicIdError,
    code_of,
)
from ottla.model import TopicPartition
from ottla.net.connection import HangupError
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, MAGIC, TRANSACTIONAL_MASK
from ottla.records.message_set import magic_of, to_batches
from ottla.replication.partition import ALL_REPLICAS
from ottla.replication.partitions import wait_all

BATCHES_SINCE = 3
"""The version from which clients send batches of format 2."""
Waits = list[tuple[PartitionProduceResponse, "asyncio.Future[None]"]]


def handle(request: ProduceRequest, call: Call) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append to each partition; wait where an append is not safe yet."""
    if request.acks not in (ALL_REPLICAS, 0, 1):
        return _refused(request, InvalidRequiredAcksError())
    waits: Waits = []
    response = ProduceResponse(
        responses=[_append_topic(topic, request.acks, call, waits) for topic in request.topic_data]
    )
    if request.acks == 0:
        if any(p.error_code for topic in response.responses for p in topic.partition_responses):
            raise HangupError("a batch was refused that was sent with acks=0")
        return None
    return _when_safe(response, waits, request.timeout_ms) if waits else response


async def _when_safe(response: ProduceResponse, waits: Waits, timeout_ms: int) -> ProduceResponse:
    await wait_all([future for _, future in waits], timeout_ms)
    for answer, future in waits:
        error = future.exception() if future.done() else RequestTimedOutError()
        if error is not None:
            answer.error_code = code_of(error)
            answer.base_offset = -1
    return response


def _append_topic(topic: TopicProduceData, acks: int, call: Call, waits: Waits) -> TopicProduceResponse:
    name: str | None = topic.name
    if call.version >= 13:
        name = call.services.image.names.get(topic.topic_id)
    answers = []
    for data in topic.partition_data:
        try:
            if name is None:
                raise UnknownTopicIdError
            answers.append(_append(name, data, acks, call, waits))
        except KafkaError as error:
            answers.append(
                PartitionProduceResponse(
                    index=data.index, error_code=code_of(error), base_offset=-1, error_message=error.message
                )
            )
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


def _append(name: str, data: PartitionProduceData, acks: int, call: Call, waits: Waits) -> PartitionProduceResponse:
    services = call.services
    partition = services.partitions.leader(services.image, TopicPartition(name, data.index))
    if name in INTERNAL_TOPICS:
        raise InvalidTopicError(f"topic {name} is written by the broker only")
    records = data.records if data.records is not None else memoryview(b"")
    if call.version < BATCHES_SINCE and len(records) and magic_of(records) < MAGIC:
        records = memoryview(to_batches(records))
    if len(records) >= HEADER_BYTES and records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_MASK:
        # without a coordinator nobody would ever end the transaction, and read_committed would wait for it for ever
        raise InvalidTxnStateError("transactions are not served by this version")
    appended = partition.append(records, acks)
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=appended.log_start_offset,
    )
    if acks:
        safe = partition.safe(appended.last_offset + 1)
        if safe is not None:
            waits.append((answer, safe))
    return answer


def _refused(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
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
