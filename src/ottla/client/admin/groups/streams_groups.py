"""Streams groups (KIP-1071): lists, descriptions with topology and tasks, deletion, committed offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.driver import AdminCall, Errors, results, to_group_coordinators
from ottla.client.admin.groups.group_descriptions import GroupDescription, GroupListing, GroupMember, GroupType
from ottla.client.admin.groups.group_offsets import Committed, GroupOffsetsAdmin
from ottla.client.admin.groups.groups import GroupsAdmin
from ottla.client.admin.security.acls import operations_of
from ottla.model import ACLOperation, OffsetAndMetadata, TopicPartition
from ottla.protocol.messages import streams_group_describe as m

Tasks = dict[str, tuple[int, ...]]
"""Partition numbers by subtopology id."""


class StreamsTasks(NamedTuple):
    """The tasks of a member: active, standby and warm-up."""

    active: Tasks
    standby: Tasks
    warmup: Tasks


class StreamsGroupMember(NamedTuple):
    """A member: one stream thread. `process_id` identifies the instance of the application that it belongs to;
    `endpoint` is that instance's application.server (None: not set).
    """

    member_id: str
    member_epoch: int
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    assignment: StreamsTasks
    target_assignment: StreamsTasks
    is_classic: bool = False


class StreamsInternalTopic(NamedTuple):
    """A repartition or changelog topic.

    `partitions` is 0 if the application does not set their number and the broker has not computed it yet.
    `replication_factor` is 0 for the broker's default.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class StreamsSubtopology(NamedTuple):
    """A subtopology: processors that are connected without a topic between them."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: Mapping[str, StreamsInternalTopic]
    repartition_source_topics: Mapping[str, StreamsInternalTopic]

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all topics that the subtopology reads."""
        return (*self.source_topics, *self.repartition_source_topics)


class StreamsGroupDescription(NamedTuple):
    """A streams group with its topology and members. `assignor` is None if the broker does not report it (before Kafka
    4.4).
    """

    group_id: str
    state: str
    group_epoch: int
    target_assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]
    members: tuple[StreamsGroupMember, ...]
    coordinator_id: int = -1
    authorized_operations: frozenset[ACLOperation] | None = None
    assignor: str | None = None

    def partitions_of(self, member: StreamsGroupMember) -> tuple[TopicPartition, ...]:
        """Return the partitions of a member's active tasks: of each source topic, the one with the task's number.

        If the source topics of a subtopology have different numbers of partitions, some of these may not exist.
        """
        sources = {subtopology.subtopology_id: subtopology.sources for subtopology in self.subtopologies}
        return tuple(
            TopicPartition(topic, partition)
            for subtopology_id, partitions in member.assignment.active.items()
            for topic in sources.get(subtopology_id, ())
            for partition in partitions
        )

    def as_group(self) -> GroupDescription:
        """Convert to the description that other types of groups have: members have partitions instead of tasks."""
        members = tuple(
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                self.partitions_of(member),
                member_epoch=member.member_epoch,
                rack_id=member.rack_id,
            )
            for member in self.members
        )
        return GroupDescription(
            self.group_id,
            self.state,
            GroupType.STREAMS,
            self.assignor or "",
            members,
            GroupType.STREAMS,
            self.coordinator_id,
            self.group_epoch,
            self.target_assignment_epoch,
            self.authorized_operations,
        )


class StreamsGroupsAdmin(GroupsAdmin, GroupOffsetsAdmin):
    """Admin calls for streams groups."""

    async def list_streams_groups(
        self, timeout_ms: float | None = None, states_filter: Collection[str] = (), *, errors: Errors | None = None
    ) -> list[GroupListing]:
        """Return the streams groups (KIP-1071)."""
        return await self.list_groups(None, states_filter, (GroupType.STREAMS,), timeout_ms, errors=errors)

    async def describe_streams_groups(
        self,
        group_ids: Iterable[str],
        timeout_ms: float | None = None,
        include_authorized_operations: bool = False,
        *,
        errors: Errors | None = None,
    ) -> dict[str, StreamsGroupDescription]:
        """Return the descriptions of streams groups, by id. Raises GroupIdNotFoundError for one that does not exist."""
        call: AdminCall[str, StreamsGroupDescription] = AdminCall(
            lambda groups: m.StreamsGroupDescribeRequest(
                group_ids=groups, include_authorized_operations=include_authorized_operations
            ),
            lambda response, _, broker: results(
                response.groups, lambda group: str(group.group_id), lambda group: _description(group, broker)
            ),
            to_group_coordinators,
        )
        return await self.call_per_key(call, group_ids, timeout_ms, errors)

    async def delete_streams_groups(
        self, group_ids: Iterable[str], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> None:
        """Delete streams groups without members, and their offsets. Their internal topics are not deleted."""
        await self.delete_consumer_groups(group_ids, timeout_ms, errors=errors)

    async def list_streams_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
        require_stable: bool = False,
        *,
        errors: Errors | None = None,
    ) -> Committed:
        """Return the committed offsets of a streams group; the same as `list_consumer_group_offsets`."""
        return await self.list_consumer_group_offsets(group_id, partitions, timeout_ms, require_stable, errors=errors)

    async def alter_streams_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Commit offsets for a streams group without members. Raises UnknownMemberIdError if it has members."""
        await self.alter_consumer_group_offsets(group_id, offsets, timeout_ms, errors=errors)

    async def delete_streams_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Delete the committed offsets of partitions. Raises GroupSubscribedToTopicError if a member is subscribed to
        the topic of one of them.
        """
        await self.delete_consumer_group_offsets(group_id, partitions, timeout_ms, errors=errors)


def _description(group: m.DescribedGroup, broker: int) -> StreamsGroupDescription:
    topology = group.topology
    return StreamsGroupDescription(
        group.group_id,
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        -1 if topology is None else topology.epoch,
        tuple(map(_subtopology, (topology.subtopologies or ()) if topology is not None else ())),
        tuple(map(_member, group.members)),
        broker,
        operations_of(group.authorized_operations),
        group.assignor_name,
    )


def _subtopology(subtopology: m.Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        subtopology.subtopology_id,
        tuple(subtopology.source_topics),
        tuple(subtopology.repartition_sink_topics),
        {topic.name: _topic(topic) for topic in subtopology.state_changelog_topics},
        {topic.name: _topic(topic) for topic in subtopology.repartition_source_topics},
    )


def _topic(topic: m.TopicInfo) -> StreamsInternalTopic:
    configs = {config.key: config.value for config in topic.topic_configs}
    return StreamsInternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)


def _member(member: m.Member) -> StreamsGroupMember:
    endpoint = member.user_endpoint
    return StreamsGroupMember(
        member.member_id,
        member.member_epoch,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.topology_epoch,
        member.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {tag.key: tag.value for tag in member.client_tags},
        _tasks(member.assignment),
        _tasks(member.target_assignment),
        member.is_classic,
    )


def _tasks(assignment: m.Assignment) -> StreamsTasks:
    lists = (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    return StreamsTasks(*({t.subtopology_id: tuple(t.partitions) for t in tasks} for tasks in lists))
