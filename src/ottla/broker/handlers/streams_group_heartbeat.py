"""StreamsGroupHeartbeat: join, stay in, or leave a streams group (KIP-1071).

The logic is in `coordinator.group.streams`.

Requires READ on the group, and DESCRIBE on all topics of the topology that a joining member sends. Missing internal
topics are created if the client has CREATE on the cluster or the topics. If they cannot be created, the detail of
status MISSING_INTERNAL_TOPICS has the reason.

Left out on purpose: version 1 (Kafka 4.4), in which members report the offsets of their tasks. Newer clients then use
version 0, as with Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from ottla.broker import topic_creation
from ottla.broker.request_context import RequestContext
from ottla.broker.security.topic_visibility import check_subscription, client_of
from ottla.coordinator.group.streams.configured_topology import InternalTopic, StatusCode
from ottla.coordinator.group.streams.streams_topology import topics_of
from ottla.errors import (
    InvalidTopicError,
    StreamsInvalidTopologyError,
    UnsupportedVersionError,
)
from ottla.logs import listed
from ottla.model import INTERNAL_TOPICS, ACLOperation
from ottla.names import check_topic_name
from ottla.protocol.messages import streams_group_heartbeat as m
from ottla.security.acl import ResourceType

MAX_ERRORS = 3
"""Maximum number of topics whose errors are in a status."""


async def handle(request: m.StreamsGroupHeartbeatRequest, context: RequestContext) -> m.StreamsGroupHeartbeatResponse:
    """Pass the request to the coordinator, which answers when its records are committed.

    Then start to create missing internal topics.
    """
    if "streams" not in context.broker.config.group_coordinator_rebalance_protocols:
        raise UnsupportedVersionError("group.coordinator.rebalance.protocols does not allow streams groups")
    context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    if request.topology is not None:
        _check_topics(topics_of(request.topology), context)
    runtime = context.broker.groups
    if request.group_id:
        runtime.check(request.group_id)
    future = runtime.response_future()
    runtime.execute(request.group_id, runtime.groups.streams_heartbeat(request, client_of(context), future))
    response = await future
    assert isinstance(response, m.StreamsGroupHeartbeatResponse)
    if not response.error_code:
        _create_missing(request.group_id, response, context)
    return response


def _check_topics(names: list[str], context: RequestContext) -> None:
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        raise StreamsInvalidTopologyError(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        )
    invalid = [name for name in names if not _is_valid(name)]
    if invalid:
        raise StreamsInvalidTopologyError(f"Topic names {','.join(invalid)} are not valid topic names.")
    check_subscription(names, context)


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True


def _create_missing(group_id: str, response: m.StreamsGroupHeartbeatResponse, context: RequestContext) -> None:
    """Start to create the internal topics that are missing, if the client may create all of them.

    Add the reasons why topics cannot be created to the status.
    """
    groups = context.broker.groups.groups.streams
    missing = groups.missing_topics(group_id)
    if not missing:
        return
    forbidden = _forbidden(missing, context)
    if forbidden:
        _add_detail(response, f"Unauthorized to CREATE on topics {', '.join(forbidden)}.")
        return
    creation = context.broker.groups.streams_topics
    creation.create(
        {name: _creator(topic, context) for name, topic in missing.items()},
        retry_seconds=2 * groups.configs.heartbeat_interval_ms(group_id) / 1000,
    )
    failed = creation.errors(missing)
    if failed:
        reasons = [f"{name} ({error})" for name, error in failed.items()]
        _add_detail(response, f"Creation failed: {listed(reasons, MAX_ERRORS)}.")


def _forbidden(missing: Mapping[str, InternalTopic], context: RequestContext) -> list[str]:
    if context.allows(ACLOperation.CREATE, ResourceType.CLUSTER):
        return []
    return sorted(context.unauthorized(ACLOperation.CREATE, ResourceType.TOPIC, missing))


def _creator(topic: InternalTopic, context: RequestContext) -> Callable[[], Awaitable[object]]:
    return partial(_create, topic, context)


async def _create(topic: InternalTopic, context: RequestContext) -> None:
    broker = context.broker
    plan = topic_creation.plan(
        broker, topic.name, topic.partitions, topic.replication_factor, options=dict(topic.configs)
    )
    await topic_creation.create_anywhere(broker, plan, context.by)


def _add_detail(response: m.StreamsGroupHeartbeatResponse, detail: str) -> None:
    statuses = response.status or []
    for status in statuses:
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {detail}"
            return
    response.status = [
        *statuses,
        m.Status(status_code=StatusCode.MISSING_INTERNAL_TOPICS, status_detail=detail),
    ]
