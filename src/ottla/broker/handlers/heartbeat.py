"""Heartbeat: renew the session of a member that uses the classic protocol.

REBALANCE_IN_PROGRESS makes the member join again.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.model import ACLOperation
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.security.acl import ResourceType


def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    context.broker.groups.check(request.group_id)
    context.broker.groups.groups.heartbeat(request)
    return HeartbeatResponse()
