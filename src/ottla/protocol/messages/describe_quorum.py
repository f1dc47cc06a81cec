"""DescribeQuorum (key 55): the progress of the members of Kafka's metadata quorum (KIP-595).

- version 1 adds times (KIP-836); 2 adds directories and addresses, and messages to errors (KIP-853)
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class PartitionRequest(Struct):
    """A partition of the metadata log, which has only partition 0."""

    partition_index: int = f.int32("0+")


class TopicRequest(Struct):
    """The metadata log, `__cluster_metadata`."""

    topic_name: str = f.string("0+")
    partitions: list[PartitionRequest] = f.array(PartitionRequest, "0+")


class DescribeQuorumRequest(Request["DescribeQuorumResponse"], api_key=55, versions="0-2", flexible="0+"):
    """The partition of the metadata log to describe."""

    topics: list[TopicRequest] = f.array(TopicRequest, "0+")


class ReplicaState(Struct):
    """The progress of one member. Times are in milliseconds, -1 if unknown."""

    replica_id: int = f.int32("0+")
    replica_directory_id: UUID = f.uuid("2+")
    log_end_offset: int = f.int64("0+")
    last_fetch_timestamp: int = f.int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = f.int64("1+", default=-1, ignorable=True)


class PartitionResponse(Struct):
    """The quorum of one partition."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("2+", nullable="2+", ignorable=True)
    leader_id: int = f.int32("0+")
    leader_epoch: int = f.int32("0+")
    high_watermark: int = f.int64("0+")
    current_voters: list[ReplicaState] = f.array(ReplicaState, "0+")
    observers: list[ReplicaState] = f.array(ReplicaState, "0+")


class TopicResponse(Struct):
    """The metadata log, with the quorum of its partition."""

    topic_name: str = f.string("0+")
    partitions: list[PartitionResponse] = f.array(PartitionResponse, "0+")


class Listener(Struct):
    """The address of one of a member's listeners."""

    name: str = f.string("2+")
    host: str = f.string("2+")
    port: int = f.uint16("2+")


class QuorumNode(Struct):
    """A member and its addresses."""

    node_id: int = f.int32("2+")
    listeners: list[Listener] = f.array(Listener, "2+")


class DescribeQuorumResponse(Response, api_key=55, versions="0-2", flexible="0+"):
    """The leader, voters and observers of the quorum, and from version 2 on the addresses of the voters."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("2+", nullable="2+", ignorable=True)
    topics: list[TopicResponse] = f.array(TopicResponse, "0+")
    nodes: list[QuorumNode] = f.array(QuorumNode, "2+")
