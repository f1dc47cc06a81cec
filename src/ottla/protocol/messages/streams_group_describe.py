"""StreamsGroupDescribe (key 89): state, epochs, topology and members of streams groups (KIP-1071).

- version 1 adds the name of the assignor, and a description of the topology by its nodes if the broker stores it
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class StreamsGroupDescribeRequest(Request["StreamsGroupDescribeResponse"], api_key=89, versions="0-1", flexible="0+"):
    """The ids of the groups to describe."""

    group_ids: list[str] = f.array(f.string(), "0+")
    include_authorized_operations: bool = f.boolean("0+")
    include_topology_description: bool = f.boolean("1+")


class KeyValue(Struct):
    """A config of a topic, or a tag of a client."""

    key: str = f.string("0+")
    value: str = f.string("0+")


class TopicInfo(Struct):
    """An internal topic; `partitions` is 0 if their number is not known."""

    name: str = f.string("0+")
    partitions: int = f.int32("0+")
    replication_factor: int = f.int16("0+")
    topic_configs: list[KeyValue] = f.array(KeyValue, "0+")


class Subtopology(Struct):
    """A connected part of a topology."""

    subtopology_id: str = f.string("0+")
    source_topics: list[str] = f.array(f.string(), "0+")
    repartition_sink_topics: list[str] = f.array(f.string(), "0+")
    state_changelog_topics: list[TopicInfo] = f.array(TopicInfo, "0+")
    repartition_source_topics: list[TopicInfo] = f.array(TopicInfo, "0+")


class Topology(Struct):
    """The topology of a group: its epoch and its subtopologies."""

    epoch: int = f.int32("0+")
    subtopologies: list[Subtopology] | None = f.array(Subtopology, "0+", nullable="0+", default=None)


class Endpoint(Struct):
    """The address of an instance for interactive queries (application.server)."""

    host: str = f.string("0+")
    port: int = f.uint16("0+")


class TaskOffset(Struct):
    """The sum of the offsets of a task's changelogs."""

    subtopology_id: str = f.string("0+")
    partition: int = f.int32("0+")
    offset: int = f.int64("0+")


class TaskIds(Struct):
    """Tasks of one subtopology, by their partitions."""

    subtopology_id: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class Assignment(Struct):
    """A member's active, standby and warm-up tasks."""

    active_tasks: list[TaskIds] = f.array(TaskIds, "0+")
    standby_tasks: list[TaskIds] = f.array(TaskIds, "0+")
    warmup_tasks: list[TaskIds] = f.array(TaskIds, "0+")


class Member(Struct):
    """One member: its client, process, endpoint and tags, the offsets of its tasks, and its assignments."""

    member_id: str = f.string("0+")
    member_epoch: int = f.int32("0+")
    instance_id: str | None = f.string("0+", nullable="0+", default=None)
    rack_id: str | None = f.string("0+", nullable="0+", default=None)
    client_id: str = f.string("0+")
    client_host: str = f.string("0+")
    topology_epoch: int = f.int32("0+")
    process_id: str = f.string("0+")
    user_endpoint: Endpoint | None = f.struct(Endpoint, "0+", nullable="0+")
    client_tags: list[KeyValue] = f.array(KeyValue, "0+")
    task_offsets: list[TaskOffset] = f.array(TaskOffset, "0+")
    task_end_offsets: list[TaskOffset] = f.array(TaskOffset, "0+")
    assignment: Assignment = f.struct(Assignment, "0+")
    target_assignment: Assignment = f.struct(Assignment, "0+")
    is_classic: bool = f.boolean("0+")


class TopologyDescriptionNode(Struct):
    """A source, processor or sink."""

    name: str = f.string("1+")
    node_type: int = f.int8("1+")
    source_topics: list[str] = f.array(f.string(), "1+")
    sink_topic: str | None = f.string("1+", nullable="1+", default=None)
    stores: list[str] = f.array(f.string(), "1+")
    successors: list[str] = f.array(f.string(), "1+")


class TopologyDescriptionSubtopology(Struct):
    """The nodes of a subtopology."""

    subtopology_id: str = f.string("1+")
    nodes: list[TopologyDescriptionNode] = f.array(TopologyDescriptionNode, "1+")


class TopologyDescriptionGlobalStore(Struct):
    """A global store: its source and the processor that updates it."""

    source: TopologyDescriptionNode = f.struct(TopologyDescriptionNode, "1+")
    processor: TopologyDescriptionNode = f.struct(TopologyDescriptionNode, "1+")


class TopologyDescription(Struct):
    """A topology, described by the nodes of its subtopologies and global stores."""

    subtopologies: list[TopologyDescriptionSubtopology] = f.array(TopologyDescriptionSubtopology, "1+")
    global_stores: list[TopologyDescriptionGlobalStore] = f.array(TopologyDescriptionGlobalStore, "1+")


class DescribedGroup(Struct):
    """One group: its state, epochs, topology and members, or an error."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    group_id: str = f.string("0+")
    group_state: str = f.string("0+")
    group_epoch: int = f.int32("0+")
    assignment_epoch: int = f.int32("0+")
    topology: Topology | None = f.struct(Topology, "0+", nullable="0+")
    members: list[Member] = f.array(Member, "0+")
    authorized_operations: int = f.int32("0+", default=-0x8000_0000)
    topology_description: TopologyDescription | None = f.struct(TopologyDescription, "1+", nullable="1+")
    topology_description_status: int = f.int8("1+")
    assignor_name: str | None = f.string("1+", nullable="1+", default=None, ignorable=True)


class StreamsGroupDescribeResponse(Response, api_key=89, versions="0-1", flexible="0+"):
    """The described groups, one for each requested id."""

    throttle_time_ms: int = f.int32("0+")
    groups: list[DescribedGroup] = f.array(DescribedGroup, "0+")
