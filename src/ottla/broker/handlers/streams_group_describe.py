"""StreamsGroupDescribe: state, epochs, topology, members and tasks of streams groups (KIP-1071).

Requires DESCRIBE on the group and on all topics of its topology. Version 1 has the assignor's name. A description of
the topology by nodes, for which Kafka needs a plugin, is never returned.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.request_context import RequestContext
from ottla.broker.security.authorized_operations import NOT_REQUESTED, on_group
from ottla.coordinator.group.streams import sticky_task_assignor
from ottla.coordinator.group.streams.streams_group import StreamsGroup, StreamsMember
from ottla.coordinator.group.streams.streams_topology import names
from ottla.coordinator.group.streams.tasks import NO_TASKS, TaskRole, Tasks, to_message
from ottla.errors import (
    KafkaError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
    code_of,
)
from ottla.model import ACLOperation
from ottla.protocol.messages import streams_group_describe as m
from ottla.protocol.messages.streams_group_records import Subtopology, TopicInfo
from ottla.security.acl import ResourceType


def handle(request: m.StreamsGroupDescribeRequest, context: RequestContext) -> m.StreamsGroupDescribeResponse:
    if "streams" not in context.broker.config.group_coordinator_rebalance_protocols:
        raise UnsupportedVersionError("group.coordinator.rebalance.protocols does not allow streams groups")
    with_operations = request.include_authorized_operations
    return m.StreamsGroupDescribeResponse(
        groups=[_describe(group_id, with_operations, context) for group_id in request.group_ids]
    )


def _describe(group_id: str, with_operations: bool, context: RequestContext) -> m.DescribedGroup:
    try:
        context.require(ACLOperation.DESCRIBE, ResourceType.GROUP, group_id)
        group = context.broker.groups.described(group_id, StreamsGroup)
        _check_described(group, context)
    except KafkaError as error:
        return m.DescribedGroup(group_id=group_id, error_code=code_of(error), error_message=error.message)
    return m.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[_member(member, group) for member in group.members.values()],
        authorized_operations=on_group(context, group_id) if with_operations else NOT_REQUESTED,
        assignor_name=sticky_task_assignor.NAME,
    )


def _check_described(group: StreamsGroup, context: RequestContext) -> None:
    if group.topology is None:
        return
    sinks = {name for s in group.topology.subtopologies.values() for name in s.repartition_sink_topics}
    if context.unauthorized(ACLOperation.DESCRIBE, ResourceType.TOPIC, sinks | group.topology.required_topics):
        raise TopicAuthorizationFailedError(
            "The described group uses topics that the client is not authorized to describe."
        )


def _topology(group: StreamsGroup) -> m.Topology | None:
    """Return the group's topology; None if it has none. Internal topics have their computed partition counts if tasks
    can be assigned.
    """
    topology, configured = group.topology, group.transient.configured
    if topology is None:
        return None
    sizes: dict[str, int] = {}
    if configured is not None and configured.topology is topology and configured.is_ready:
        sizes = {name: size for s in configured.subtopologies.values() for name, size in s.sizes.items()}
    ordered = sorted(topology.subtopologies.values(), key=lambda s: s.subtopology_id)
    return m.Topology(epoch=topology.epoch, subtopologies=[_subtopology(s, sizes) for s in ordered])


def _subtopology(subtopology: Subtopology, sizes: Mapping[str, int]) -> m.Subtopology:
    return m.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_topics(subtopology.state_changelog_topics, sizes),
        repartition_source_topics=_topics(subtopology.repartition_source_topics, sizes),
    )


def _topics(topics: list[TopicInfo], sizes: Mapping[str, int]) -> list[m.TopicInfo]:
    by_name = {topic.name: topic for topic in topics}
    return [
        m.TopicInfo(
            name=name,
            partitions=sizes.get(name, by_name[name].partitions),
            replication_factor=by_name[name].replication_factor,
            topic_configs=[m.KeyValue(key=c.key, value=c.value) for c in by_name[name].topic_configs],
        )
        for name in sorted(names(topics))
    ]


def _member(member: StreamsMember, group: StreamsGroup) -> m.Member:
    endpoint = member.user_endpoint
    return m.Member(
        member_id=member.id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else m.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[m.KeyValue(key=key, value=value) for key, value in member.client_tags],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.targets.get(member.id, NO_TASKS)),
    )


def _assignment(tasks: Tasks) -> m.Assignment:
    return m.Assignment(
        active_tasks=to_message(m.TaskIds, tasks, TaskRole.ACTIVE),
        standby_tasks=to_message(m.TaskIds, tasks, TaskRole.STANDBY),
        warmup_tasks=to_message(m.TaskIds, tasks, TaskRole.WARMUP),
    )
