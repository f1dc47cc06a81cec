"""Groups: lists, descriptions (of all types but streams groups), deletion, removal of members."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from ottla.client.admin.driver import (
    AdminCall,
    AdminDriver,
    Errors,
    failure,
    results,
    to_brokers,
    to_coordinator_of,
    to_group_coordinators,
)
from ottla.client.admin.groups.group_descriptions import (
    CONSUMER,
    DEAD,
    GroupDescription,
    GroupListing,
    GroupType,
    classic_group,
    epoch_group,
)
from ottla.errors import GroupIdNotFoundError, KafkaError, UnsupportedVersionError
from ottla.protocol.messages import consumer_group_describe as consumer
from ottla.protocol.messages import describe_groups as classic
from ottla.protocol.messages import leave_group as leave
from ottla.protocol.messages import share_group_describe as share
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest

REMOVED_BY_ADMIN: Final = "member was removed by an admin"
NO_CONSUMER_GROUP: Final = (GroupIdNotFoundError, UnsupportedVersionError)
"""Errors of ConsumerGroupDescribe for a group that does not exist, and of brokers without consumer groups (KIP-848)."""


class MemberToRemove(NamedTuple):
    """A member to remove, identified by its member id or, if it is static, by its instance id."""

    member_id: str | None = None
    group_instance_id: str | None = None
    reason: str | None = None


class GroupsAdmin(AdminDriver):
    """Admin calls for groups."""

    async def list_groups(
        self,
        broker_ids: Iterable[int] | None = None,
        states_filter: Collection[str] = (),
        types_filter: Collection[str] = (),
        timeout_ms: float | None = None,
        *,
        protocol_types: Collection[str] | None = None,
        errors: Errors | None = None,
    ) -> list[GroupListing]:
        """Return the groups that `broker_ids` (None: all brokers) coordinate, sorted by id. The filters select groups
        in some states, of some types and of some protocol types; empty ones (None for protocol types) select all.

        Raises UnsupportedVersionError if a broker cannot filter by state (before Kafka 2.6) or by a type other than
        classic. The keys of `errors` are broker ids.
        """
        states, types = [str(s) for s in states_filter or ()], [str(t) for t in types_filter or ()]

        def request(version: int) -> ListGroupsRequest:
            if version < 4 and states:
                raise UnsupportedVersionError("the broker cannot filter groups by state")
            if version < 5 and set(types) - {GroupType.CLASSIC}:
                raise UnsupportedVersionError("the broker cannot filter groups by type")
            return ListGroupsRequest(states_filter=states, types_filter=types if version >= 5 else [])

        call: AdminCall[int, list[ListedGroup]] = AdminCall(
            lambda _: request,
            lambda response, _, broker: {
                broker: failure(response.error_code, f"broker {broker}") or list(response.groups)
            },
            to_brokers,
            of=ListGroupsRequest,
        )
        by_broker = await self.call_per_key(call, await self.broker_ids(broker_ids, timeout_ms), timeout_ms, errors)
        listings = {
            g.group_id: GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type)
            for groups in by_broker.values()
            for g in groups
            if protocol_types is None or g.protocol_type in protocol_types
        }
        return sorted(listings.values())

    async def list_consumer_groups(
        self,
        timeout_ms: float | None = None,
        states_filter: Collection[str] = (),
        types_filter: Collection[str] = (),
        *,
        errors: Errors | None = None,
    ) -> list[GroupListing]:
        """Return the consumer groups: of the classic protocol, of KIP-848, and groups that only have committed
        offsets.
        """
        groups = await self.list_groups(None, states_filter, types_filter, timeout_ms, errors=errors)
        others = (GroupType.SHARE, GroupType.STREAMS)
        return [g for g in groups if g.protocol_type in ("", CONSUMER) and g.group_type.lower() not in others]

    async def list_share_groups(
        self, timeout_ms: float | None = None, states_filter: Collection[str] = (), *, errors: Errors | None = None
    ) -> list[GroupListing]:
        """Return the share groups (KIP-932)."""
        return await self.list_groups(None, states_filter, (GroupType.SHARE,), timeout_ms, errors=errors)

    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        timeout_ms: float | None = None,
        include_authorized_operations: bool = False,
        *,
        errors: Errors | None = None,
    ) -> dict[str, GroupDescription]:
        """Return the descriptions of classic and consumer groups, by id. A group that does not exist, or that is of
        another type, is in the state Dead.
        """
        classic_call = _classic_call(include_authorized_operations)
        consumer_call = _epoch_call(consumer.ConsumerGroupDescribeRequest, include_authorized_operations)

        async def attempt(remaining: list[str]) -> dict[str, GroupDescription | KafkaError]:
            outcomes = await self.attempt(classic_call, remaining)
            dead = [g for g, outcome in outcomes.items() if _is_dead(outcome)]
            others = await self.attempt(consumer_call, dead) if dead else {}
            return outcomes | {
                g: outcome for g, outcome in others.items() if not isinstance(outcome, NO_CONSUMER_GROUP)
            }

        return await self.retry_per_key(group_ids, attempt, timeout_ms, errors)

    async def describe_groups(
        self,
        group_ids: Iterable[str],
        timeout_ms: float | None = None,
        include_authorized_operations: bool = False,
        *,
        group_coordinator_id: int | None = None,
        errors: Errors | None = None,
    ) -> dict[str, GroupDescription]:
        """Describe groups: kafka-python's name for `describe_consumer_groups`. Ignores `group_coordinator_id`."""
        return await self.describe_consumer_groups(group_ids, timeout_ms, include_authorized_operations, errors=errors)

    async def describe_classic_groups(
        self,
        group_ids: Iterable[str],
        timeout_ms: float | None = None,
        include_authorized_operations: bool = False,
        *,
        errors: Errors | None = None,
    ) -> dict[str, GroupDescription]:
        """Return the descriptions of classic groups, of consumers or others (such as Connect workers), by id. Raises
        GroupIdNotFoundError for a group that does not exist or is of another type.
        """
        call = _classic_call(include_authorized_operations)

        async def attempt(remaining: list[str]) -> dict[str, GroupDescription | KafkaError]:
            return {
                g: GroupIdNotFoundError(f"{g}: there is no classic group of this name")
                if _is_dead(outcome)
                else outcome
                for g, outcome in (await self.attempt(call, remaining)).items()
            }

        return await self.retry_per_key(group_ids, attempt, timeout_ms, errors)

    async def describe_share_groups(
        self,
        group_ids: Iterable[str],
        timeout_ms: float | None = None,
        include_authorized_operations: bool = False,
        *,
        errors: Errors | None = None,
    ) -> dict[str, GroupDescription]:
        """Return the descriptions of share groups (KIP-932), by id. Raises GroupIdNotFoundError for one that does not
        exist.
        """
        call = _epoch_call(share.ShareGroupDescribeRequest, include_authorized_operations)
        return await self.call_per_key(call, group_ids, timeout_ms, errors)

    async def delete_consumer_groups(
        self, group_ids: Iterable[str], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> None:
        """Delete groups and their offsets. Raises NonEmptyGroupError for a group with members, and
        GroupIdNotFoundError for one that does not exist.
        """
        call: AdminCall[str, None] = AdminCall(
            lambda groups: DeleteGroupsRequest(groups_names=groups),
            lambda response, *_: results(response.results, _group_id),
            to_group_coordinators,
        )
        await self.call_per_key(call, group_ids, timeout_ms, errors)

    async def delete_groups(
        self,
        group_ids: Iterable[str],
        timeout_ms: float | None = None,
        *,
        group_coordinator_id: int | None = None,
        errors: Errors | None = None,
    ) -> None:
        """Delete groups: kafka-python's name for `delete_consumer_groups`. Ignores `group_coordinator_id`."""
        await self.delete_consumer_groups(group_ids, timeout_ms, errors=errors)

    async def delete_share_groups(
        self, group_ids: Iterable[str], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> None:
        """Delete share groups without members."""
        await self.delete_consumer_groups(group_ids, timeout_ms, errors=errors)

    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: Iterable[MemberToRemove | str] | None = None,
        timeout_ms: float | None = None,
        reason: str = REMOVED_BY_ADMIN,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Remove members from a group (None: all). A string is the instance id of a static member.

        Raises UnknownMemberIdError for a member that the group does not have.
        """
        if members is None:
            description = (await self.describe_consumer_groups([group_id], timeout_ms))[group_id]
            leaving = [MemberToRemove(m.member_id, m.group_instance_id) for m in description.members]
        else:
            leaving = [MemberToRemove(None, m) if isinstance(m, str) else m for m in members]
        call: AdminCall[MemberToRemove, None] = AdminCall(
            lambda remaining: leave.LeaveGroupRequest(
                group_id=group_id, members=[_leaving(m, reason) for m in remaining]
            ),
            lambda response, remaining, _: {
                m: failure(r.error_code, f"{group_id}, member {m.group_instance_id or m.member_id}")
                for m, r in zip(remaining, response.members, strict=True)
            },
            to_coordinator_of(group_id),
            name=group_id,
        )
        await self.call_per_key(call, leaving, timeout_ms, errors)

    async def remove_group_members(
        self,
        group_id: str,
        members: Iterable[MemberToRemove | str],
        timeout_ms: float | None = None,
        *,
        group_coordinator_id: int | None = None,
        errors: Errors | None = None,
    ) -> None:
        """Remove members: kafka-python's name for `remove_members_from_consumer_group`. Ignores
        `group_coordinator_id`.
        """
        await self.remove_members_from_consumer_group(group_id, members, timeout_ms, errors=errors)


def _group_id(group: Any) -> str:
    return str(group.group_id)


def _is_dead(outcome: GroupDescription | KafkaError) -> bool:
    return isinstance(outcome, GroupDescription) and outcome.state == DEAD


def _classic_call(operations: bool) -> AdminCall[str, GroupDescription]:
    def outcome(group: classic.DescribedGroup, broker: int) -> GroupDescription | KafkaError:
        is_unknown = group.error_code == GroupIdNotFoundError.code
        error = None if is_unknown else failure(group.error_code, group.group_id, group.error_message)
        return error or classic_group(group, broker)

    return AdminCall(
        lambda groups: classic.DescribeGroupsRequest(groups=groups, include_authorized_operations=operations),
        lambda response, _, broker: {group.group_id: outcome(group, broker) for group in response.groups},
        to_group_coordinators,
    )


def _epoch_call(request: type[Any], operations: bool) -> AdminCall[str, GroupDescription]:
    """Return the call that describes groups with epochs (consumer groups of KIP-848, or share groups)."""
    return AdminCall(
        lambda groups: request(group_ids=groups, include_authorized_operations=operations),
        lambda response, _, broker: results(response.groups, _group_id, lambda group: epoch_group(group, broker)),
        to_group_coordinators,
    )


def _leaving(member: MemberToRemove, reason: str) -> leave.MemberIdentity:
    return leave.MemberIdentity(
        member_id="" if member.group_instance_id is not None else member.member_id or "",
        group_instance_id=member.group_instance_id,
        reason=member.reason or reason,
    )
