"""LeaderAndIsr (key 4): the controller makes a broker leader or follower of partitions. Between brokers.

- version 1 adds whether replicas are new; 2 groups the partitions by topic and carries the broker's epoch (KIP-380)
- 3 adds reassignments (KIP-455); 4 is flexible; 5 adds topic ids, and whether all partitions are listed (KIP-516)
- 6 adds whether a leader was elected uncleanly (KIP-704); 7 is also sent by a controller without ZooKeeper (KIP-866)
"""

from __future__ import annotations

import uuid

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class LeaderAndIsrPartitionState(Struct):
    """The leader, the ISR and the replicas of a partition."""

    topic_name: str = f.string("0-1", ignorable=True)
    partition_index: int = f.int32("0+")
    # That of the controller that decided this state, not of the one that sends it.
    controller_epoch: int = f.int32("0+")
    leader: int = f.int32("0+")
    leader_epoch: int = f.int32("0+")
    isr: list[int] = f.array(f.int32(), "0+")
    # The version of the partition's znode.
    partition_epoch: int = f.int32("0+")
    replicas: list[int] = f.array(f.int32(), "0+")
    adding_replicas: list[int] = f.array(f.int32(), "3+", ignorable=True)
    removing_replicas: list[int] = f.array(f.int32(), "3+", ignorable=True)
    # The replica has just been created: its broker may make the log although a directory is offline.
    is_new: bool = f.boolean("1+", ignorable=True)
    leader_recovery_state: int = f.int8("6+")


class LeaderAndIsrTopicState(Struct):
    """The partitions of one topic."""

    topic_name: str = f.string("2+")
    topic_id: uuid.UUID = f.uuid("5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = f.array(LeaderAndIsrPartitionState, "2+")


class LeaderAndIsrLiveLeader(Struct):
    """The id and address of a broker that leads one of the partitions."""

    broker_id: int = f.int32("0+")
    host_name: str = f.string("0+")
    port: int = f.int32("0+")


class LeaderAndIsrRequest(Request["LeaderAndIsrResponse"], api_key=4, versions="0-7", flexible="4+"):
    """The states of partitions, and the brokers that lead them."""

    controller_id: int = f.int32("0+")
    is_kraft_controller: bool = f.boolean("7+")
    controller_epoch: int = f.int32("0+")
    broker_epoch: int = f.int64("2+", default=-1, ignorable=True)
    # 0: unknown; 1: what has changed; 2: every partition of the broker.
    type: int = f.int8("5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = f.array(LeaderAndIsrPartitionState, "0-1")
    topic_states: list[LeaderAndIsrTopicState] = f.array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = f.array(LeaderAndIsrLiveLeader, "0+")


class LeaderAndIsrPartitionError(Struct):
    """The outcome of one partition."""

    topic_name: str = f.string("0-4", ignorable=True)
    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")


class LeaderAndIsrTopicError(Struct):
    """The outcomes of one topic's partitions."""

    topic_id: uuid.UUID = f.uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = f.array(LeaderAndIsrPartitionError, "5+")


class LeaderAndIsrResponse(Response, api_key=4, versions="0-7", flexible="4+"):
    """The outcome of each partition."""

    error_code: int = f.int16("0+")
    partition_errors: list[LeaderAndIsrPartitionError] = f.array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = f.array(LeaderAndIsrTopicError, "5+")
