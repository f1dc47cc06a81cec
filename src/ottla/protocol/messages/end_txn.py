"""EndTxn (key 26): commit or abort a transaction (KIP-98).

- since 1, throttling follows the response (KIP-219); 2 may answer PRODUCER_FENCED; 3 is flexible;
  4 may answer TRANSACTION_ABORTABLE (KIP-890)
- 5 returns the producer id and epoch for the next transaction
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class EndTxnRequest(Request["EndTxnResponse"], api_key=26, versions="0-5", flexible="3+"):
    """The transaction and how it ends."""

    transactional_id: str = f.string("0+")
    producer_id: int = f.int64("0+")
    producer_epoch: int = f.int16("0+")
    committed: bool = f.boolean("0+")


class EndTxnResponse(Response, api_key=26, versions="0-5", flexible="3+"):
    """The error code, and from version 5 on the producer id and epoch for the next transaction."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    # Id and epoch for the next transaction; -1 after an error.
    producer_id: int = f.int64("5+", default=-1, ignorable=True)
    producer_epoch: int = f.int16("5+", default=-1, ignorable=True)
