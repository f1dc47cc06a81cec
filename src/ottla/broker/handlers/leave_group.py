"""LeaveGroup: remove one member (up to version 2) or several members that use the classic protocol from a group."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.request_context import RequestContext
from ottla.model import ACLOperation
from ottla.protocol.message import Response
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.security.acl import ResourceType


def handle(request: LeaveGroupRequest, context: RequestContext) -> Awaitable[Response]:
    context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    runtime = context.broker.groups
    runtime.check(request.group_id)
    token = runtime.response_future()
    runtime.execute(request.group_id, runtime.groups.leave(request, context.version, token))
    return token
