"""AddPartitionsToTxn: add partitions to a transaction before the first write to them.

Producers send versions 0 to 3. Brokers send version 4 and above, for several transactions at a time, to add
partitions or only to verify that they are in the transaction. Of each transaction, all partitions are added, or
none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ottla import errors
from ottla.broker.request_context import RequestContext
from ottla.broker.transaction_verification import known_errors_only
from ottla.coordinator.transaction.transaction import CLASSIC, EPOCH_PER_TRANSACTION
from ottla.model import INTERNAL_TOPICS, ACLOperation, ProducerIdAndEpoch, TopicPartition
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.security.acl import ResourceType

SEVERAL_SINCE = 4
"""The first version that brokers send."""

Codes = Mapping[TopicPartition, int]


async def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
    if context.version < SEVERAL_SINCE:
        only = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(await _transaction(only, context)))
    # concurrently, because each transaction waits for its replicas
    results = await asyncio.gather(*(_transaction(transaction, context) for transaction in request.transactions))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=_by_topic(codes))
            for transaction, codes in zip(request.transactions, results, strict=True)
        ]
    )


async def _transaction(transaction: AddPartitionsToTxnTransaction, context: RequestContext) -> Codes:
    partitions = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    try:
        unauthorized = _unauthorized_topics(transaction, context)
    except errors.KafkaError as error:
        return dict.fromkeys(partitions, errors.code_of(error))
    partition_errors = {
        tp: errors.code_of(reason)
        for tp in partitions
        if (reason := unauthorized.get(tp.topic) or _partition_error(tp, context))
    }
    if partition_errors:
        return {tp: partition_errors.get(tp, errors.code_of(errors.OperationNotAttemptedError())) for tp in partitions}
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    runtime = context.broker.transactions
    try:
        if transaction.verify_only:
            missing = runtime.missing(transaction.transactional_id, producer, partitions)
            return {tp: errors.code_of(errors.TransactionAbortableError()) if tp in missing else 0 for tp in partitions}
        version = EPOCH_PER_TRANSACTION if context.version >= SEVERAL_SINCE else CLASSIC
        with known_errors_only(context.version):
            await runtime.add_partitions(transaction.transactional_id, producer, partitions, version)
    except errors.KafkaError as error:
        return dict.fromkeys(partitions, errors.code_of(error))
    return dict.fromkeys(partitions, 0)


def _unauthorized_topics(
    transaction: AddPartitionsToTxnTransaction, context: RequestContext
) -> Mapping[str, errors.KafkaError]:
    """Return the errors of topics that the producer may not write to, by topic name.

    Raises TransactionalIdAuthorizationFailedError if it may not use the transactional id. Requests of brokers are not
    checked here.
    """
    if context.version >= SEVERAL_SINCE:
        return {}
    context.require(ACLOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id)
    return context.unauthorized_errors(
        ACLOperation.WRITE, ResourceType.TOPIC, (topic.name for topic in transaction.topics)
    )


def _partition_error(tp: TopicPartition, context: RequestContext) -> errors.KafkaError | None:
    if context.version < SEVERAL_SINCE and tp.topic in INTERNAL_TOPICS:
        return errors.TopicAuthorizationFailedError()
    return errors.UnknownTopicOrPartitionError() if context.broker.image.partition(tp) is None else None


def _by_topic(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for tp, code in codes.items():
        result = AddPartitionsToTxnPartitionResult(partition_index=tp.partition, partition_error_code=code)
        topics.setdefault(tp.topic, []).append(result)
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=results) for name, results in topics.items()]
