"""StreamsGroupHeartbeat (key 88): join a streams group (KIP-1071), stay in it, receive tasks, and leave.

A member of a streams group is a thread of Kafka Streams. It joins with the topology of its application; the broker
creates the internal topics and assigns tasks. A task is the part of a subtopology that reads one partition of each
of its source topics. Optional fields that have not changed since the last heartbeat are left out (None, or -1).

- version 1 widens the acceptable recovery lag to 8 bytes, and lets the broker request a description of the topology
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class KeyValue(Struct):
    """A config of a topic, or a tag of a client."""

    key: str = f.string("0+")
    value: str = f.string("0+")


class TopicInfo(Struct):
    """An internal topic; 0 partitions or replicas leave the number to the broker."""

    name: str = f.string("0+")
    partitions: int = f.int32("0+")
    replication_factor: int = f.int16("0+")
    topic_configs: list[KeyValue] = f.array(KeyValue, "0+")


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


class CopartitionGroup(Struct):
    """Topics that must have the same number of partitions, as indexes into the lists of their subtopology."""

    source_topics: list[int] = f.array(f.int16(), "0+")
    source_topic_regex: list[int] = f.array(f.int16(), "0+")
    repartition_source_topics: list[int] = f.array(f.int16(), "0+")


class Subtopology(Struct):
    """A connected part of a topology."""

    subtopology_id: str = f.string("0+")
    source_topics: list[str] = f.array(f.string(), "0+")
    source_topic_regex: list[str] = f.array(f.string(), "0+")
    state_changelog_topics: list[TopicInfo] = f.array(TopicInfo, "0+")
    repartition_sink_topics: list[str] = f.array(f.string(), "0+")
    repartition_source_topics: list[TopicInfo] = f.array(TopicInfo, "0+")
    copartition_groups: list[CopartitionGroup] = f.array(CopartitionGroup, "0+")


class Topology(Struct):
    """A topology; a newer one has a higher epoch."""

    epoch: int = f.int32("0+")
    subtopologies: list[Subtopology] = f.array(Subtopology, "0+")


class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"], api_key=88, versions="0-1", flexible="0+"):
    """A member's heartbeat: epoch 0 joins the group, -1 leaves it, -2 leaves as a static member that will return."""

    group_id: str = f.string("0+")
    member_id: str = f.string("0+")
    member_epoch: int = f.int32("0+")
    endpoint_information_epoch: int = f.int32("0+")
    instance_id: str | None = f.string("0+", nullable="0+", default=None)
    rack_id: str | None = f.string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = f.int32("0+", default=-1)
    topology: Topology | None = f.struct(Topology, "0+", nullable="0+")
    # The tasks that the member owns now. Other members get a revoked one only after it is missing here.
    active_tasks: list[TaskIds] | None = f.array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = f.array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = f.array(TaskIds, "0+", nullable="0+", default=None)
    process_id: str | None = f.string("0+", nullable="0+", default=None)
    user_endpoint: Endpoint | None = f.struct(Endpoint, "0+", nullable="0+")
    client_tags: list[KeyValue] | None = f.array(KeyValue, "0+", nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = f.array(TaskOffset, "0+", nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = f.array(TaskOffset, "0+", nullable="0+", default=None)
    shutdown_application: bool = f.boolean("0+")


class Status(Struct):
    """A status of the group or of the member, such as missing source topics.

    `status_code`: see `StatusCode` in `coordinator.group.streams.configured_topology`.
    """

    status_code: int = f.int8("0+")
    status_detail: str = f.string("0+")


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class EndpointToPartitions(Struct):
    """The partitions that the instance at an address reads."""

    user_endpoint: Endpoint = f.struct(Endpoint, "0+")
    active_partitions: list[TopicPartition] = f.array(TopicPartition, "0+")
    standby_partitions: list[TopicPartition] = f.array(TopicPartition, "0+")


class StreamsGroupHeartbeatResponse(Response, api_key=88, versions="0-1", flexible="0+"):
    """The member's epoch, and its tasks if they have changed, or the member may not have received them."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    member_id: str = f.string("0+")
    member_epoch: int = f.int32("0+")
    heartbeat_interval_ms: int = f.int32("0+")
    acceptable_recovery_lag_legacy: int = f.int32("0")
    task_offset_interval_ms: int = f.int32("0+")
    acceptable_recovery_lag: int = f.int64("1+", default=-1, ignorable=True)
    status: list[Status] | None = f.array(Status, "0+", nullable="0+")
    active_tasks: list[TaskIds] | None = f.array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = f.array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = f.array(TaskIds, "0+", nullable="0+", default=None)
    topology_description_required: bool = f.boolean("1+")
    endpoint_information_epoch: int = f.int32("0+")
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = f.array(
        EndpointToPartitions, "0+", nullable="0+", default=None
    )
