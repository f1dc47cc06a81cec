"""JoinGroup: become a member of a classic group. Served in all versions; the decisions are in `coordinator.groups`."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.acl import ResourceType
from ottla.broker.services import Call
from ottla.coordinator.groups import Client
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
    client = Client(call.client_id, "/" + call.connection.peer.rpartition(":")[0])
    runtime.carry_out(request.group_id, runtime.groups.join(request, call.version, client, token))
    return token
