"""ShareGroupHeartbeat: join, stay in, or leave a share group (KIP-932).

The logic is in `coordinator.group.share`. Before the broker responds, it starts to create the states of partitions that
are new to the group.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.request_context import RequestContext
from ottla.broker.security.topic_visibility import check_subscription, client_of
from ottla.broker.sessions.share_state import initialize_subscribed
from ottla.errors import UnsupportedVersionError
from ottla.model import ACLOperation
from ottla.protocol.message import Response
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.security.acl import ResourceType


def handle(request: ShareGroupHeartbeatRequest, context: RequestContext) -> Awaitable[Response]:
    """Pass the request to the coordinator, which answers when its records are committed."""
    if "share" not in context.broker.config.group_coordinator_rebalance_protocols:
        raise UnsupportedVersionError("group.coordinator.rebalance.protocols does not allow share groups")
    context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    check_subscription(request.subscribed_topic_names, context)
    runtime = context.broker.groups
    if request.group_id:
        runtime.check(request.group_id)
    token = runtime.response_future()
    runtime.execute(request.group_id, runtime.groups.share_heartbeat(request, client_of(context), token))
    return _answer(request, token, context)


async def _answer(
    request: ShareGroupHeartbeatRequest, decided: Awaitable[Response], context: RequestContext
) -> Response:
    response = await decided
    if request.group_id:
        await initialize_subscribed(context.broker, request.group_id)
    return response
