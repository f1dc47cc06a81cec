"""ConsumerGroupHeartbeat: join, stay in, or leave a consumer group (KIP-848).

The logic is in `coordinator.group.consumer`.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.request_context import RequestContext
from ottla.broker.security.topic_visibility import check_subscription, client_of
from ottla.errors import UnsupportedVersionError
from ottla.model import ACLOperation
from ottla.protocol.message import Response
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.security.acl import ResourceType


def handle(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> Awaitable[Response]:
    """Pass the request to the coordinator, which answers when its records are committed."""
    if "consumer" not in context.broker.config.group_coordinator_rebalance_protocols:
        raise UnsupportedVersionError("group.coordinator.rebalance.protocols does not allow the consumer protocol")
    context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    check_subscription(request.subscribed_topic_names, context)
    runtime = context.broker.groups
    if request.group_id:
        runtime.check(request.group_id)
    token = runtime.response_future()
    runtime.execute(
        request.group_id, runtime.groups.consumer_heartbeat(request, context.version, client_of(context), token)
    )
    return token
