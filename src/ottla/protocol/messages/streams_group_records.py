"""Keys and values of a streams group's records in `__consumer_offsets`. A key begins with the number of its type."""

from __future__ import annotations

from typing import Final

from ottla.protocol import fields as f
from ottla.protocol.message import Data, Struct

METADATA_KEY: Final = 17
MEMBER_KEY: Final = 19
TARGET_METADATA_KEY: Final = 20
TARGET_MEMBER_KEY: Final = 21
CURRENT_MEMBER_KEY: Final = 22
TOPOLOGY_KEY: Final = 23


class StreamsGroupMetadataKey(Data, versions="0"):
    """Key of a group, of its target assignment's epoch, and of its topology (17, 20 and 23)."""

    group_id: str = f.string("0")


class StreamsGroupMemberMetadataKey(Data, versions="0"):
    """Key of a member, of its target and of its current assignment (19, 21 and 22)."""

    group_id: str = f.string("0")
    member_id: str = f.string("0")


class LastAssignmentConfig(Struct):
    """A config of the assignor, with the value that the last assignment used."""

    key: str = f.string("0+")
    value: str = f.string("0+")


class StreamsGroupMetadataValue(Data, versions="0", flexible="0+"):
    """A group's epoch, a hash of its topics, the topology epoch whose topics have been validated (-1: none), and the
    assignor's configs.
    """

    epoch: int = f.int32("0+")
    metadata_hash: int = f.int64("0+")
    validated_topology_epoch: int = f.int32("0+", default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = f.array(
        LastAssignmentConfig, "0+", nullable="0+", tag=1
    )


class Endpoint(Struct):
    """The address of an instance for interactive queries."""

    host: str = f.string("0+")
    port: int = f.uint16("0+")


class KeyValue(Struct):
    """A tag of a client."""

    key: str = f.string("0+")
    value: str = f.string("0+")


class StreamsGroupMemberMetadataValue(Data, versions="0", flexible="0+"):
    """A member's client, topology epoch and other settings, from its heartbeats."""

    instance_id: str | None = f.string("0+", nullable="0+")
    rack_id: str | None = f.string("0+", nullable="0+")
    client_id: str = f.string("0+")
    client_host: str = f.string("0+")
    rebalance_timeout_ms: int = f.int32("0+", default=-1)
    topology_epoch: int = f.int32("0+")
    process_id: str = f.string("0+")
    user_endpoint: Endpoint | None = f.struct(Endpoint, "0+", nullable="0+")
    client_tags: list[KeyValue] = f.array(KeyValue, "0+")


class StreamsGroupTargetAssignmentMetadataValue(Data, versions="0", flexible="0+"):
    """The group epoch that the target assignment is for, and when it was computed."""

    assignment_epoch: int = f.int32("0+")
    assignment_timestamp: int = f.int64("0+", tag=0, ignorable=True)


class TargetTaskIds(Struct):
    """Tasks of one subtopology, by their partitions."""

    subtopology_id: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class StreamsGroupTargetAssignmentMemberValue(Data, versions="0", flexible="0+"):
    """A member's target assignment."""

    active_tasks: list[TargetTaskIds] = f.array(TargetTaskIds, "0+")
    standby_tasks: list[TargetTaskIds] = f.array(TargetTaskIds, "0+")
    warmup_tasks: list[TargetTaskIds] = f.array(TargetTaskIds, "0+")


class CurrentTaskIds(Struct):
    """Tasks of one subtopology; active ones have the epochs in which the member received them (Kafka 4.2 and later)."""

    subtopology_id: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")
    assignment_epochs: list[int] | None = f.array(f.int32(), "0+", nullable="0+", tag=0)


class StreamsGroupCurrentMemberAssignmentValue(Data, versions="0", flexible="0+"):
    """A member's current assignment."""

    member_epoch: int = f.int32("0+")
    previous_member_epoch: int = f.int32("0+")
    state: int = f.int8("0+")
    active_tasks: list[CurrentTaskIds] = f.array(CurrentTaskIds, "0+")
    standby_tasks: list[CurrentTaskIds] = f.array(CurrentTaskIds, "0+")
    warmup_tasks: list[CurrentTaskIds] = f.array(CurrentTaskIds, "0+")
    active_tasks_pending_revocation: list[CurrentTaskIds] = f.array(CurrentTaskIds, "0+")
    standby_tasks_pending_revocation: list[CurrentTaskIds] = f.array(CurrentTaskIds, "0+")
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = f.array(CurrentTaskIds, "0+")


class CopartitionGroup(Struct):
    """Topics that must have the same number of partitions, as indexes into the lists of their subtopology."""

    source_topics: list[int] = f.array(f.int16(), "0+")
    source_topic_regex: list[int] = f.array(f.int16(), "0+")
    repartition_source_topics: list[int] = f.array(f.int16(), "0+")


class TopicConfig(Struct):
    """A config of an internal topic."""

    key: str = f.string("0+")
    value: str = f.string("0+")


class TopicInfo(Struct):
    """An internal topic; 0 partitions or replicas leave the number to the broker."""

    name: str = f.string("0+")
    partitions: int = f.int32("0+")
    replication_factor: int = f.int16("0+")
    topic_configs: list[TopicConfig] = f.array(TopicConfig, "0+")


class Subtopology(Struct):
    """A connected part of a topology."""

    subtopology_id: str = f.string("0+")
    source_topics: list[str] = f.array(f.string(), "0+")
    source_topic_regex: list[str] = f.array(f.string(), "0+")
    state_changelog_topics: list[TopicInfo] = f.array(TopicInfo, "0+")
    repartition_sink_topics: list[str] = f.array(f.string(), "0+")
    repartition_source_topics: list[TopicInfo] = f.array(TopicInfo, "0+")
    copartition_groups: list[CopartitionGroup] = f.array(CopartitionGroup, "0+")


class StreamsGroupTopologyValue(Data, versions="0", flexible="0+"):
    """The topology of a streams group."""

    epoch: int = f.int32("0+")
    subtopologies: list[Subtopology] = f.array(Subtopology, "0+")
