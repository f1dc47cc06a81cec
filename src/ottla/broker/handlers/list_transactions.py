"""ListTransactions: the transactional ids that this broker coordinates.

They are filtered by state, producer id, duration (from version 1 on), and a pattern of the id (from version 2 on). Ids
for which the client lacks DESCRIBE are left out.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.coordinator.group.consumer import regex
from ottla.coordinator.transaction import transaction as transaction_module
from ottla.coordinator.transaction.transaction import Transaction
from ottla.errors import CoordinatorLoadInProgressError, code_of
from ottla.model import ACLOperation
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ottla.security.acl import ResourceType

ANY_AGE = -1


def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    states = {state.value for state in transaction_module.TransactionState}
    transactions = [
        t for t in context.broker.transactions.by_id.values() if _passes(t, request, context.broker.clock.now_ms())
    ]
    if request.transactional_id_pattern:
        matching = regex.matching(request.transactional_id_pattern, [t.id for t in transactions])
        transactions = [t for t in transactions if t.id in matching]
    hidden = context.unauthorized(ACLOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, [t.id for t in transactions])
    loading = context.broker.transactions.shards.are_loading
    return ListTransactionsResponse(
        error_code=code_of(CoordinatorLoadInProgressError()) if loading else 0,
        unknown_state_filters=[name for name in request.state_filters if name not in states],
        transaction_states=[
            TransactionState(transactional_id=t.id, producer_id=t.producer_id, transaction_state=t.state)
            for t in transactions
            if t.id not in hidden
        ],
    )


def _passes(transaction: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state not in request.state_filters:
        return False
    return request.duration_filter <= ANY_AGE or now_ms - transaction.start_ms > request.duration_filter
