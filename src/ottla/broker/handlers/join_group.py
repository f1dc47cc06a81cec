"""JoinGroup: become a member of a classic group. Served in all versions; the decisions are in `coordinator.groups`."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.acl import ResourceType
from ottla.broker.group_topics import client_of
from ottla.broker.services import Call
from ottla.model import ACLOperation
from ottla.protocol.message import Response
from ottla.protocol.messages.join_group import JoinGroupRequest


def handle(request: JoinGroupRequest, call: Call) -> Awaitable[Response]:
    """Answered when the rebalance is complete."""
    call.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    runtime = call.services.groups
    if request.group_id:
        runtime.check(request.group_id)
    token = runtime.token()
    runtime.carry_out(request.group_id, runtime.groups.join(request, call.version, client_of(call), token))
    return token
