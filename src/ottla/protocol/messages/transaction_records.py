"""Keys and values of the records in `__transaction_state`.

Key and value begin with their version in 2 bytes each (`protocol.versioned`). A record without a value
deletes the key.
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Data, Struct


class TransactionLogKey(Data, versions="0"):
    """Key of a transactional id's state."""

    transactional_id: str = f.string("0+")


class PartitionsSchema(Struct):
    """The partitions of one topic that are in the transaction."""

    topic: str = f.string("0+")
    partition_ids: list[int] = f.array(f.int32(), "0+")


class TransactionLogValue(Data, versions="0-1", flexible="1+"):
    """The state of a transactional id.

    - version 1 is flexible, and adds the previous and next producer id, and the client's transaction version (KIP-890)
    """

    producer_id: int = f.int64("0+")
    previous_producer_id: int = f.int64("1+", default=-1, tag=0)
    next_producer_id: int = f.int64("1+", default=-1, tag=1)
    producer_epoch: int = f.int16("0+")
    next_producer_epoch: int = f.int16("1+", default=-1, tag=3)
    transaction_timeout_ms: int = f.int32("0+")
    # The number of the state in Kafka's table.
    transaction_status: int = f.int8("0+")
    # None in the state Empty.
    transaction_partitions: list[PartitionsSchema] | None = f.array(PartitionsSchema, "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int = f.int64("0+")
    transaction_start_timestamp_ms: int = f.int64("0+")
    client_transaction_version: int = f.int16("1+", tag=2)
