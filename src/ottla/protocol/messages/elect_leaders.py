"""ElectLeaders (key 43): elect leaders of partitions (KIP-183, KIP-460).

- version 1 adds the type of election, and the error code of the whole response; 2 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class TopicPartitions(Struct):
    """The partitions of one topic."""

    topic: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class ElectLeadersRequest(Request["ElectLeadersResponse"], api_key=43, versions="0-2", flexible="2+"):
    """The partitions to elect leaders for; None for all. Type 0 elects the preferred replica. Type 1 (unclean) elects
    a replica that is not in sync if no in-sync replica is alive.
    """

    election_type: int = f.int8("1+")
    topic_partitions: list[TopicPartitions] | None = f.array(TopicPartitions, "0+", nullable="0+")
    timeout_ms: int = f.int32("0+", default=60000)


class PartitionResult(Struct):
    """The outcome of one partition."""

    partition_id: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")


class ReplicaElectionResult(Struct):
    """The outcomes of one topic's partitions."""

    topic: str = f.string("0+")
    partition_result: list[PartitionResult] = f.array(PartitionResult, "0+")


class ElectLeadersResponse(Response, api_key=43, versions="0-2", flexible="2+"):
    """The result of each partition. If all partitions are requested, those that need no election are left out."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("1+")
    replica_election_results: list[ReplicaElectionResult] = f.array(ReplicaElectionResult, "0+")
