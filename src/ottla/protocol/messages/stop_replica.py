"""StopReplica (key 5): the controller stops or deletes replicas of a broker. Between brokers.

- version 1 groups the partitions by topic and carries the broker's epoch (KIP-380); 2 is flexible
- 3 adds the leader epoch and whether to delete, per partition (KIP-570)
- 4 is also sent by a controller without ZooKeeper (KIP-866)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class StopReplicaPartitionV0(Struct):
    """A partition whose replica is stopped (version 0)."""

    topic_name: str = f.string("0")
    partition_index: int = f.int32("0")


class StopReplicaTopicV1(Struct):
    """The partitions of one topic (versions 1 and 2)."""

    name: str = f.string("1-2")
    partition_indexes: list[int] = f.array(f.int32(), "1-2")


class StopReplicaPartitionState(Struct):
    """A partition whose replica is stopped, and whether it is deleted (from version 3)."""

    partition_index: int = f.int32("3+")
    leader_epoch: int = f.int32("3+", default=-1)
    delete_partition: bool = f.boolean("3+")


class StopReplicaTopicState(Struct):
    """The partitions of one topic (from version 3)."""

    topic_name: str = f.string("3+")
    partition_states: list[StopReplicaPartitionState] = f.array(StopReplicaPartitionState, "3+")


class StopReplicaRequest(Request["StopReplicaResponse"], api_key=5, versions="0-4", flexible="2+"):
    """The replicas to stop, and whether to delete them."""

    controller_id: int = f.int32("0+")
    is_kraft_controller: bool = f.boolean("4+")
    controller_epoch: int = f.int32("0+")
    broker_epoch: int = f.int64("1+", default=-1, ignorable=True)
    # Of all partitions up to version 2; later each has its own.
    delete_partitions: bool = f.boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = f.array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = f.array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = f.array(StopReplicaTopicState, "3+")


class StopReplicaPartitionError(Struct):
    """The outcome of one partition."""

    topic_name: str = f.string("0+")
    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")


class StopReplicaResponse(Response, api_key=5, versions="0-4", flexible="2+"):
    """The outcome of each partition."""

    error_code: int = f.int16("0+")
    partition_errors: list[StopReplicaPartitionError] = f.array(StopReplicaPartitionError, "0+")
