"""InitProducerId: a producer id for an idempotent producer; id and epoch for a transactional one.

An idempotent producer gets a new id with each request. A transactional producer gets the next epoch of its
transactional id, which fences the previous producer and aborts its open transaction; if the epochs are exhausted, it
gets a new producer id. If it sends its id and epoch (from version 3 on, KIP-360), a fenced producer is rejected, and a
repeated request gets the same epoch again. Up to version 3, clients get INVALID_PRODUCER_EPOCH instead of
PRODUCER_FENCED.

Left out on purpose: keeping prepared transactions (version 6, KIP-939), which Apache Kafka rejects as well.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.transaction_verification import known_errors_only
from ottla.errors import ConcurrentTransactionsError, InvalidRequestError
from ottla.model import ACLOperation, ProducerIdAndEpoch
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.security.acl import ResourceType

FENCED_SINCE = 4
"""The first version whose clients know PRODUCER_FENCED."""


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    _authorize(request, context)
    expected = _expected(request)
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=await context.broker.producer_ids.next_id(), producer_epoch=0)
    is_open = context.broker.transactions.is_ongoing(request.transactional_id)
    with known_errors_only(context.version, FENCED_SINCE):
        try:
            producer = await context.broker.transactions.init_producer(
                request.transactional_id,
                request.transaction_timeout_ms,
                expected,
                two_phase=request.enable_2pc,
                keep_prepared=request.keep_prepared_txn,
            )
        except ConcurrentTransactionsError:
            if is_open:  # a producer after a crash, or forceTerminateTransaction
                context.log_change("Aborting the open transaction of transactional_id=%s", request.transactional_id)
            raise
    timeout_ms = request.transaction_timeout_ms
    context.log_producer(request.transactional_id, producer.id, producer.epoch, timeout_ms)
    return InitProducerIdResponse(producer_id=producer.id, producer_epoch=producer.epoch)


def _authorize(request: InitProducerIdRequest, context: RequestContext) -> None:
    """Raise an error if the client is not authorized. For an idempotent producer, WRITE on any topic is enough."""
    name = request.transactional_id
    if name is not None:
        context.require(ACLOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
        if request.enable_2pc:
            context.require(ACLOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, name)
    elif not context.allows(ACLOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER) and not context.allows_some(
        ACLOperation.WRITE, ResourceType.TOPIC
    ):
        raise context.deny(ACLOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)


def _expected(request: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise InvalidRequestError("producer id and epoch must be sent together")
    return (
        None
        if request.producer_id == NO_PRODUCER_ID
        else ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    )
