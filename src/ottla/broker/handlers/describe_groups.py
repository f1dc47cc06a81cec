"""DescribeGroups: state, members and assignments of classic groups.

For a group that does not exist or is not a classic group, the state is Dead. From version 6 on, the response also has
an error.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.security.authorized_operations import NOT_REQUESTED, on_group
from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState
from ottla.errors import GroupIdNotFoundError, KafkaError, code_of
from ottla.model import ACLOperation
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.security.acl import ResourceType

NOT_FOUND_SINCE = 6
NOT_CLASSIC = "Group %s is not a classic group."
"""The error message for groups of other types, for which there are other APIs."""


def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    with_operations = request.include_authorized_operations
    return DescribeGroupsResponse(groups=[_describe(group_id, with_operations, context) for group_id in request.groups])


def _describe(group_id: str, with_operations: bool, context: RequestContext) -> DescribedGroup:
    try:
        context.require(ACLOperation.DESCRIBE, ResourceType.GROUP, group_id)
        context.broker.groups.check(group_id)
    except KafkaError as error:
        return DescribedGroup(error_code=code_of(error), group_id=group_id)
    group = context.broker.groups.groups.by_id.get(group_id)
    if isinstance(group, ClassicGroup):
        return _described(group, on_group(context, group_id) if with_operations else NOT_REQUESTED)
    described = DescribedGroup(group_id=group_id, group_state=ClassicGroupState.DEAD)
    if context.version >= NOT_FOUND_SINCE:
        missing = GroupIdNotFoundError(f"Group {group_id} not found." if group is None else NOT_CLASSIC % group_id)
        described.error_code, described.error_message = code_of(missing), missing.message
    return described


def _described(group: ClassicGroup, operations: int) -> DescribedGroup:
    # protocol and assignments are not determined during a rebalance
    stable = group.state is ClassicGroupState.STABLE
    protocol = group.protocol if stable else None
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        authorized_operations=operations,
        members=[
            DescribedGroupMember(
                member_id=m.id,
                group_instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                member_metadata=m.protocols.get(protocol or "", b""),
                member_assignment=m.assignment if stable else b"",
            )
            for m in group.members.values()
        ],
    )
