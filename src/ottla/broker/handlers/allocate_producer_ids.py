"""AllocateProducerIds: brokers of Apache Kafka take their producer ids from the controller (KIP-730). Between brokers.

The controller answers it. Ours take them from the store by themselves, from the same node.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import BrokerIdNotRegisteredError, NotControllerError, StaleBrokerEpochError
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


async def handle(request: AllocateProducerIdsRequest, context: RequestContext) -> AllocateProducerIdsResponse:
    """Take a block for a broker."""
    if not context.broker.controller.is_active:
        raise NotControllerError
    broker = context.broker.image.brokers.get(request.broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredError
    if request.broker_epoch != broker.epoch:
        raise StaleBrokerEpochError
    block = await context.broker.producer_ids.next_block(broker.id)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))
