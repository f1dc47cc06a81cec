"""JoinGroup: join a group by the classic protocol.

The logic is in `coordinator.group.classic.classic_groups`; for consumer groups, in `coordinator.group.classic_members`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from ottla.broker.request_context import RequestContext
from ottla.broker.security.topic_visibility import client_of
from ottla.errors import InvalidRequestError
from ottla.model import ACLOperation
from ottla.protocol.message import Response
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.security.acl import ResourceType


def handle(request: JoinGroupRequest, context: RequestContext) -> Awaitable[Response]:
    """Pass the request to the coordinator.

    During a rebalance of a classic group, the response may have to wait until all members have joined or the rebalance
    times out.
    """
    context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    check_size((protocol.metadata for protocol in request.protocols), context)
    runtime = context.broker.groups
    if request.group_id:
        runtime.check(request.group_id)
    token = runtime.response_future()
    runtime.execute(request.group_id, runtime.groups.join(request, context.version, client_of(context), token))
    return token


def check_size(parts: Iterable[bytes], context: RequestContext) -> None:
    """Raise InvalidRequestError if the data of members is too large for a record of the group.

    Otherwise the data would fill memory until the record is rejected.
    """
    size, most = sum(map(len, parts)), context.broker.config.message_max_bytes
    if size > most:
        raise InvalidRequestError(f"a member's data has {size} bytes, more than message.max.bytes={most}")
