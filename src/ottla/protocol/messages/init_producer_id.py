"""InitProducerId (key 22): a producer id for an idempotent producer, or the id and epoch of a transactional one.

- since 1, throttling follows the response (KIP-219); 2 is flexible; 3 lets a producer bump its own epoch (KIP-360)
- 4 may answer PRODUCER_FENCED; 5 may answer TRANSACTION_ABORTABLE (KIP-890); 6 adds two-phase commit (KIP-939)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class InitProducerIdRequest(Request["InitProducerIdResponse"], api_key=22, versions="0-6", flexible="2+"):
    """The transactional id, or None for an idempotent producer."""

    transactional_id: str | None = f.string("0+", nullable="0+")
    transaction_timeout_ms: int = f.int32("0+")
    # Id and epoch that the producer has; -1 at the first time.
    producer_id: int = f.int64("3+", default=-1)
    producer_epoch: int = f.int16("3+", default=-1)
    enable_2pc: bool = f.boolean("6+")
    keep_prepared_txn: bool = f.boolean("6+")


class InitProducerIdResponse(Response, api_key=22, versions="0-6", flexible="2+"):
    """The producer id and epoch to write with, or an error code."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    producer_id: int = f.int64("0+", default=-1)
    producer_epoch: int = f.int16("0+")
    ongoing_txn_producer_id: int = f.int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = f.int16("6+", default=-1)
