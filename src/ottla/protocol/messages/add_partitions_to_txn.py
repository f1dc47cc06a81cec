"""AddPartitionsToTxn (key 24): announce that a transaction will write to these partitions (KIP-98).

Up to version 3, producers send it before the first batch for a partition. From 4 on, brokers send it to verify that a
batch's partition is in the transaction, or to add it, for several transactions at once, in separate fields (KIP-890).

- since 1, throttling follows the response (KIP-219); 2 may answer PRODUCER_FENCED; 3 is flexible;
  5 may answer TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class AddPartitionsToTxnTopic(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class AddPartitionsToTxnTransaction(Struct):
    """One transaction (from version 4)."""

    transactional_id: str = f.string("4+")
    producer_id: int = f.int64("4+")
    producer_epoch: int = f.int16("4+")
    verify_only: bool = f.boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = f.array(AddPartitionsToTxnTopic, "4+")


class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"], api_key=24, versions="0-5", flexible="3+"):
    """Transactions and their partitions."""

    transactions: list[AddPartitionsToTxnTransaction] = f.array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = f.string("0-3")
    v3_and_below_producer_id: int = f.int64("0-3")
    v3_and_below_producer_epoch: int = f.int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = f.array(AddPartitionsToTxnTopic, "0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    """The outcome of one partition."""

    partition_index: int = f.int32("0+")
    partition_error_code: int = f.int16("0+")


class AddPartitionsToTxnTopicResult(Struct):
    """The outcomes of one topic's partitions."""

    name: str = f.string("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = f.array(AddPartitionsToTxnPartitionResult, "0+")


class AddPartitionsToTxnResult(Struct):
    """The outcome of one transaction."""

    transactional_id: str = f.string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = f.array(AddPartitionsToTxnTopicResult, "4+")


class AddPartitionsToTxnResponse(Response, api_key=24, versions="0-5", flexible="3+"):
    """The outcome of each partition."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = f.array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = f.array(AddPartitionsToTxnTopicResult, "0-3")
