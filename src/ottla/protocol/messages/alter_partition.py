"""AlterPartition (key 56): a leader changes the ISR through the controller (KIP-497). Between brokers.

- version 1 adds whether an unclean leader has yet to recover (KIP-704); 2 names topics by their ids
- 3 adds the broker epochs of the ISR, so that a restarted broker is detected (KIP-903)
"""

from __future__ import annotations

import uuid

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class AlterPartitionBrokerState(Struct):
    """A replica in sync. Kafka's schema calls it BrokerState."""

    broker_id: int = f.int32("3+")
    broker_epoch: int = f.int64("3+", default=-1)


class AlterPartitionData(Struct):
    """The new ISR that a leader proposes for one partition."""

    partition_index: int = f.int32("0+")
    leader_epoch: int = f.int32("0+")
    new_isr: list[int] = f.array(f.int32(), "0-2")
    new_isr_with_epochs: list[AlterPartitionBrokerState] = f.array(AlterPartitionBrokerState, "3+")
    # 0: recovered; 1: an unclean leader has yet to recover.
    leader_recovery_state: int = f.int8("1+")
    # The version of the partition's znode that the proposal is based on.
    partition_epoch: int = f.int32("0+")


class AlterPartitionTopic(Struct):
    """The partitions of one topic."""

    topic_name: str = f.string("0-1", ignorable=True)
    topic_id: uuid.UUID = f.uuid("2+", ignorable=True)
    partitions: list[AlterPartitionData] = f.array(AlterPartitionData, "0+")


class AlterPartitionRequest(Request["AlterPartitionResponse"], api_key=56, versions="0-3", flexible="0+"):
    """The proposals of one leader."""

    broker_id: int = f.int32("0+")
    broker_epoch: int = f.int64("0+", default=-1)
    topics: list[AlterPartitionTopic] = f.array(AlterPartitionTopic, "0+")


class AlterPartitionResult(Struct):
    """The current state of one partition, or an error."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")
    leader_id: int = f.int32("0+")
    leader_epoch: int = f.int32("0+")
    isr: list[int] = f.array(f.int32(), "0+")
    leader_recovery_state: int = f.int8("1+", ignorable=True)
    partition_epoch: int = f.int32("0+")


class AlterPartitionTopicResult(Struct):
    """The partitions of one topic."""

    topic_name: str = f.string("0-1", ignorable=True)
    topic_id: uuid.UUID = f.uuid("2+", ignorable=True)
    partitions: list[AlterPartitionResult] = f.array(AlterPartitionResult, "0+")


class AlterPartitionResponse(Response, api_key=56, versions="0-3", flexible="0+"):
    """The outcome of each proposal."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    topics: list[AlterPartitionTopicResult] = f.array(AlterPartitionTopicResult, "0+")
