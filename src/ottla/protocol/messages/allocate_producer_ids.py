"""AllocateProducerIds (key 67): a broker requests a block of producer ids from the controller (KIP-730). Between
brokers.
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"], api_key=67, versions="0", flexible="0+"):
    """The broker that needs producer ids."""

    broker_id: int = f.int32("0+")
    broker_epoch: int = f.int64("0+", default=-1)


class AllocateProducerIdsResponse(Response, api_key=67, versions="0", flexible="0+"):
    """The block of producer ids: the first one, and their number."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    producer_id_start: int = f.int64("0+")
    producer_id_len: int = f.int32("0+")
