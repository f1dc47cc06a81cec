"""AllocateProducerIds: brokers of Apache Kafka take their producer ids from the controller (KIP-730). Between brokers.

Served in all versions, by the controller. Ours take them from the store by themselves, from the same node.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.services import Call
from ottla.errors import BrokerIdNotRegisteredError, NotControllerError, StaleBrokerEpochError
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


def handle(request: AllocateProducerIdsRequest, call: Call) -> Awaitable[AllocateProducerIdsResponse]:
    """Take a block for a broker."""
    return _answer(request, call)


async def _answer(request: AllocateProducerIdsRequest, call: Call) -> AllocateProducerIdsResponse:
    if not call.services.controller.is_active:
        raise NotControllerError
    broker = call.services.image.brokers.get(request.broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredError
    if request.broker_epoch != broker.epoch:
        raise StaleBrokerEpochError
    block = await call.services.producer_ids.next_block(broker.id)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))
