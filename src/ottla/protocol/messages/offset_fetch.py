"""OffsetFetch (key 9): the committed offsets of groups.

- version 0 reads from the metadata store, 1 from `__consumer_offsets`
- 2 takes None for all partitions of the group and adds a top-level error
- 3 adds the throttle time; 5 leader epochs; 6 is flexible
- 7 can require stable offsets, which no open transaction may change (KIP-447)
- 8 selects several groups at once, in separate fields; 9 adds the member's epoch (KIP-848); 10 topic ids
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic (up to version 7)."""

    name: str = f.string("0-7")
    partition_indexes: list[int] = f.array(f.int32(), "0-7")


class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic (from version 8)."""

    name: str = f.string("8-9", ignorable=True)
    topic_id: UUID = f.uuid("10+", ignorable=True)
    partition_indexes: list[int] = f.array(f.int32(), "8+")


class OffsetFetchRequestGroup(Struct):
    """One group, and the topics whose offsets are requested (None for all topics)."""

    group_id: str = f.string("8+")
    member_id: str | None = f.string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = f.int32("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = f.array(OffsetFetchRequestTopics, "8+", nullable="8+")


class OffsetFetchRequest(Request["OffsetFetchResponse"], api_key=9, versions="0-10", flexible="6+"):
    """The groups, and the partitions whose offsets are requested; None for all partitions."""

    group_id: str = f.string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = f.array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = f.array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = f.boolean("7+")


class OffsetFetchResponsePartition(Struct):
    """The offset of one partition; -1 for none."""

    partition_index: int = f.int32("0-7")
    committed_offset: int = f.int64("0-7")
    committed_leader_epoch: int = f.int32("5-7", default=-1, ignorable=True)
    metadata: str | None = f.string("0-7", nullable="0-7")
    error_code: int = f.int16("0-7")


class OffsetFetchResponseTopic(Struct):
    """The partitions of one topic (up to version 7)."""

    name: str = f.string("0-7")
    partitions: list[OffsetFetchResponsePartition] = f.array(OffsetFetchResponsePartition, "0-7")


class OffsetFetchResponsePartitions(Struct):
    """The offset of one partition; -1 for none."""

    partition_index: int = f.int32("8+")
    committed_offset: int = f.int64("8+")
    committed_leader_epoch: int = f.int32("8+", default=-1, ignorable=True)
    metadata: str | None = f.string("8+", nullable="8+")
    error_code: int = f.int16("8+")


class OffsetFetchResponseTopics(Struct):
    """The partitions of one topic (from version 8)."""

    name: str = f.string("8-9", ignorable=True)
    topic_id: UUID = f.uuid("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = f.array(OffsetFetchResponsePartitions, "8+")


class OffsetFetchResponseGroup(Struct):
    """The offsets of one group, or an error code."""

    group_id: str = f.string("8+")
    topics: list[OffsetFetchResponseTopics] = f.array(OffsetFetchResponseTopics, "8+")
    error_code: int = f.int16("8+")


class OffsetFetchResponse(Response, api_key=9, versions="0-10", flexible="6+"):
    """The committed offsets: of one group up to version 7, of several groups from version 8 on."""

    throttle_time_ms: int = f.int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = f.array(OffsetFetchResponseTopic, "0-7")
    error_code: int = f.int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = f.array(OffsetFetchResponseGroup, "8+")
