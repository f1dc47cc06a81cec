"""DescribeProducers (key 61): the active producers of partitions, with their open transactions (KIP-664)."""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class TopicRequest(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partition_indexes: list[int] = f.array(f.int32(), "0+")


class DescribeProducersRequest(Request["DescribeProducersResponse"], api_key=61, versions="0", flexible="0+"):
    """The partitions whose producers are described."""

    topics: list[TopicRequest] = f.array(TopicRequest, "0+")


class ProducerState(Struct):
    """One producer. `current_txn_start_offset` is -1 if it has no open transaction."""

    producer_id: int = f.int64("0+")
    producer_epoch: int = f.int32("0+")
    last_sequence: int = f.int32("0+", default=-1)
    last_timestamp: int = f.int64("0+", default=-1)
    coordinator_epoch: int = f.int32("0+")
    current_txn_start_offset: int = f.int64("0+", default=-1)


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = f.array(ProducerState, "0+")


class TopicResponse(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partitions: list[PartitionResponse] = f.array(PartitionResponse, "0+")


class DescribeProducersResponse(Response, api_key=61, versions="0", flexible="0+"):
    """The producers of each partition."""

    throttle_time_ms: int = f.int32("0+")
    topics: list[TopicResponse] = f.array(TopicResponse, "0+")
