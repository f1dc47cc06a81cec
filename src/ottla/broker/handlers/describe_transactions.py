"""DescribeTransactions: the state of transactional ids that this broker coordinates.

Topics for which the client lacks DESCRIBE are left out.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import InvalidRequestError, KafkaError, TransactionalIdNotFoundError, code_of
from ottla.model import ACLOperation
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.security.acl import ResourceType


def handle(request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=[_describe(i, context) for i in request.transactional_ids])


def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    try:
        context.require(ACLOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        if not transactional_id:
            raise InvalidRequestError
        transaction = context.broker.transactions.get(transactional_id)
        if transaction is None:
            raise TransactionalIdNotFoundError
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=code_of(error))
    hidden = context.unauthorized(ACLOperation.DESCRIBE, ResourceType.TOPIC, transaction.topics)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=t, partitions=p) for t, p in transaction.topics.items() if t not in hidden],
    )
