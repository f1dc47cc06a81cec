"""OffsetCommit (key 8): commit offsets of a group.

- version 0 stores offsets in the metadata store
- 1 adds the member and generation, and a timestamp per partition, which 2 drops
- 2 to 4 take a retention time for all offsets; 3 adds the throttle time
- 5 leaves the retention to the broker (KIP-211); 6 adds the leader epoch of the last record read
- 7 adds static members; 8 is flexible; 9 also serves KIP-848 groups, with the member epoch in the
  field of the generation
- 10 names topics by id
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class OffsetCommitRequestPartition(Struct):
    """The next offset to read, and a text that is stored with it."""

    partition_index: int = f.int32("0+")
    committed_offset: int = f.int64("0+")
    committed_leader_epoch: int = f.int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = f.int64("1", default=-1)
    committed_metadata: str | None = f.string("0+", nullable="0+")


class OffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = f.string("0-9", ignorable=True)
    topic_id: UUID = f.uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = f.array(OffsetCommitRequestPartition, "0+")


class OffsetCommitRequest(Request["OffsetCommitResponse"], api_key=8, versions="0-10", flexible="8+"):
    """Offsets of one group, committed by a member, or with generation -1 and no member id by another client."""

    group_id: str = f.string("0+")
    generation_id_or_member_epoch: int = f.int32("1+", default=-1, ignorable=True)
    member_id: str = f.string("1+", ignorable=True)
    group_instance_id: str | None = f.string("7+", nullable="7+", default=None)
    retention_time_ms: int = f.int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = f.array(OffsetCommitRequestTopic, "0+")


class OffsetCommitResponsePartition(Struct):
    """The outcome of one partition."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")


class OffsetCommitResponseTopic(Struct):
    """The outcomes of one topic's partitions."""

    name: str = f.string("0-9", ignorable=True)
    topic_id: UUID = f.uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = f.array(OffsetCommitResponsePartition, "0+")


class OffsetCommitResponse(Response, api_key=8, versions="0-10", flexible="8+"):
    """The outcome of each partition."""

    throttle_time_ms: int = f.int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = f.array(OffsetCommitResponseTopic, "0+")
