"""AllocateProducerIds: allocate a block of producer ids to a broker of Apache Kafka (KIP-730). Between brokers.

Only the controller handles it. Ottla's brokers allocate their blocks from the same znode directly.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import BrokerIdNotRegisteredError, NotControllerError, StaleBrokerEpochError
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


async def handle(request: AllocateProducerIdsRequest, context: RequestContext) -> AllocateProducerIdsResponse:
    if not context.broker.controller.is_active:
        raise NotControllerError
    broker = context.broker.image.brokers.get(request.broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredError
    if request.broker_epoch != broker.epoch:
        raise StaleBrokerEpochError
    block = await context.broker.producer_ids.next_block(broker.id)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))
