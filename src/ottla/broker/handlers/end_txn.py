"""EndTxn: commit or abort a transaction.

The response is sent when the outcome is committed in `__transaction_state`. The markers are written afterwards; until
they are, requests for the next transaction may get CONCURRENT_TRANSACTIONS. From version 5 on, each transaction has its
own epoch (KIP-890).
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.transaction_verification import known_errors_only
from ottla.coordinator.transaction.transaction import CLASSIC, EPOCH_PER_TRANSACTION
from ottla.model import ACLOperation, ProducerIdAndEpoch
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.security.acl import ResourceType

BUMPS_SINCE = 5


async def handle(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    context.require(ACLOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    version = EPOCH_PER_TRANSACTION if context.version >= BUMPS_SINCE else CLASSIC
    with known_errors_only(context.version):
        following = await context.broker.transactions.end(
            request.transactional_id, producer, request.committed, version
        )
    return EndTxnResponse(producer_id=following.id, producer_epoch=following.epoch)
