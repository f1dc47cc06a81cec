"""AddOffsetsToTxn: add a group's partition of `__consumer_offsets` to a transaction, before it commits offsets.

`__consumer_offsets` is created if it does not exist.
"""

from __future__ import annotations

from ottla.broker import topic_creation
from ottla.broker.request_context import RequestContext
from ottla.broker.transaction_verification import known_errors_only
from ottla.model import CONSUMER_OFFSETS, ACLOperation, ProducerIdAndEpoch
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.security.acl import ResourceType


async def handle(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    context.require(ACLOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    broker = context.broker
    await topic_creation.create_internal(broker, CONSUMER_OFFSETS)
    offsets = broker.groups.partition_of(request.group_id)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    with known_errors_only(context.version):
        await broker.transactions.add_partitions(request.transactional_id, producer, [offsets])
    return AddOffsetsToTxnResponse()
