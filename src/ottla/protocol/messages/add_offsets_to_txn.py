"""AddOffsetsToTxn (key 25): announce that a transaction will commit offsets of a group (KIP-98).

- since 1, throttling follows the response (KIP-219); 2 may answer PRODUCER_FENCED; 3 is flexible;
  4 may answer TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"], api_key=25, versions="0-4", flexible="3+"):
    """The transaction, and the group whose offsets will be committed in it."""

    transactional_id: str = f.string("0+")
    producer_id: int = f.int64("0+")
    producer_epoch: int = f.int16("0+")
    group_id: str = f.string("0+")


class AddOffsetsToTxnResponse(Response, api_key=25, versions="0-4", flexible="3+"):
    """The error code; 0 if offsets of the group may now be committed in the transaction."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
