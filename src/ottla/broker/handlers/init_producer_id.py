"""InitProducerId: a number for an idempotent producer. Served in all versions.

A producer that comes back with its id and epoch (from version 3) gets the epoch bumped, or a new id when the epochs
are used up (KIP-360).

Left out on purpose: transactional ids, until the transaction coordinator is there.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.services import Call
from ottla.errors import InvalidRequestError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

MAX_EPOCH = 2**15 - 2
"""The last epoch handed out; the one after it is kept for fencing."""


def handle(request: InitProducerIdRequest, call: Call) -> Awaitable[InitProducerIdResponse]:
    """Hand out a producer id, or bump the epoch of one."""
    if request.transactional_id == "":
        raise InvalidRequestError("an empty transactional id is not allowed")
    if request.transactional_id is not None:
        raise InvalidRequestError("transactions are not served by this version")
    return _answer(request, call)


async def _answer(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    if request.producer_id >= 0 and 0 <= request.producer_epoch < MAX_EPOCH:
        return InitProducerIdResponse(producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1)
    return InitProducerIdResponse(producer_id=await call.services.producer_ids.next_id(), producer_epoch=0)
