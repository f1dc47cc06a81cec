"""SyncGroup: the leader of a classic group sends the assignment, and every member receives its part."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.handlers.join_group import check_size
from ottla.broker.request_context import RequestContext
from ottla.model import ACLOperation
from ottla.protocol.message import Response
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.security.acl import ResourceType


def handle(request: SyncGroupRequest, context: RequestContext) -> Awaitable[Response]:
    """Pass the request to the coordinator.

    During a rebalance of a classic group, the response may have to wait until the leader has sent the assignment.
    """
    context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    check_size((assigned.assignment for assigned in request.assignments), context)
    runtime = context.broker.groups
    runtime.check(request.group_id)
    token = runtime.response_future()
    runtime.execute(request.group_id, runtime.groups.sync(request, token))
    return token
