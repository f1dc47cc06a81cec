"""DescribeTransactions (key 65): the state of transactional ids, from their coordinator (KIP-664)."""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"], api_key=65, versions="0", flexible="0+"):
    """The transactional ids to describe."""

    transactional_ids: list[str] = f.array(f.string(), "0+")


class TopicData(Struct):
    """The partitions of one topic that are in the transaction."""

    topic: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class TransactionState(Struct):
    """The state of one transactional id, or an error. `transaction_start_time_ms` is -1 in the state Empty."""

    error_code: int = f.int16("0+")
    transactional_id: str = f.string("0+")
    transaction_state: str = f.string("0+")
    transaction_timeout_ms: int = f.int32("0+")
    transaction_start_time_ms: int = f.int64("0+")
    producer_id: int = f.int64("0+")
    producer_epoch: int = f.int16("0+")
    topics: list[TopicData] = f.array(TopicData, "0+")


class DescribeTransactionsResponse(Response, api_key=65, versions="0", flexible="0+"):
    """The state of each transactional id."""

    throttle_time_ms: int = f.int32("0+")
    transaction_states: list[TransactionState] = f.array(TransactionState, "0+")
