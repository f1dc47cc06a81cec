"""Groups of every kind (classic, consumer, share): listed, described, forgotten; members sent away."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from ottla.client.admin.driver import GROUP, AdminCalls, Errors, check, failure
from ottla.client.admin.group_descriptions import (
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
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

REMOVED_BY_ADMIN: Final = "member was removed by an admin"


class MemberToRemove(NamedTuple):
    """A member to send away: by its own id, or a static one by its instance id."""

    member_id: str | None = None
    group_instance_id: str | None = None
    reason: str | None = None


class GroupsAdmin(AdminCalls):
    """Calls about groups."""

    # Lists

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
        """The groups of brokers (of all of them), in some states (of brokers from 2.6 on), of some types (3.7)."""
        states, types = [str(s) for s in states_filter or ()], [str(t) for t in types_filter or ()]

        def request(version: int) -> ListGroupsRequest:
            if version < 4 and states:
                raise UnsupportedVersionError("the broker does not select groups by their state")
            if version < 5 and set(types) - {GroupType.CLASSIC}:
                raise UnsupportedVersionError("the broker does not select groups by their type")
            return ListGroupsRequest(states_filter=states, types_filter=types if version >= 5 else [])

        async def attempt(left: list[int]) -> dict[int, list[ListedGroup] | KafkaError]:
            answers = await self.ask_each(dict.fromkeys(left, request), ListGroupsRequest)
            return {node: _listed(node, answer) for node, answer in answers.items()}

        brokers = list(broker_ids) if broker_ids is not None else await self.retried(self._broker_ids, timeout_ms)
        found = await self.settled(brokers, attempt, timeout_ms, errors)
        listings = {
            g.group_id: GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type)
            for groups in found.values()
            for g in groups
            if protocol_types is None or g.protocol_type in protocol_types
        }
        return sorted(listings.values())

    async def _broker_ids(self) -> list[int]:
        return list(await self.nodes())

    async def list_consumer_groups(
        self,
        timeout_ms: float | None = None,
        states_filter: Collection[str] = (),
        types_filter: Collection[str] = (),
        *,
        errors: Errors | None = None,
    ) -> list[GroupListing]:
        """The groups of consumers, classic and KIP-848, and those that only keep offsets."""
        found = await self.list_groups(None, states_filter, types_filter, timeout_ms, errors=errors)
        return [g for g in found if g.protocol_type in ("", CONSUMER) and g.group_type != GroupType.SHARE]

    async def list_share_groups(
        self, timeout_ms: float | None = None, states_filter: Collection[str] = (), *, errors: Errors | None = None
    ) -> list[GroupListing]:
        """The share groups (KIP-932)."""
        return await self.list_groups(None, states_filter, (GroupType.SHARE,), timeout_ms, errors=errors)

    # Descriptions

    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        timeout_ms: float | None = None,
        include_authorized_operations: bool = False,
        *,
        errors: Errors | None = None,
    ) -> dict[str, GroupDescription]:
        """Consumers' groups with their members, by id. A group that does not exist is in the state Dead."""

        async def attempt(left: list[str]) -> dict[str, GroupDescription | KafkaError]:
            found = await self._describe_classic(left, include_authorized_operations)
            dead = [g for g, told in found.items() if isinstance(told, GroupDescription) and told.state == DEAD]
            others = await self._described(
                dead,
                consumer.ConsumerGroupDescribeRequest(
                    group_ids=[], include_authorized_operations=include_authorized_operations
                ),
            )
            return found | {g: told for g, told in others.items() if isinstance(told, GroupDescription)}

        return await self.settled(group_ids, attempt, timeout_ms, errors)

    async def describe_groups(
        self,
        group_ids: Iterable[str],
        timeout_ms: float | None = None,
        include_authorized_operations: bool = False,
        *,
        group_coordinator_id: int | None = None,
        errors: Errors | None = None,
    ) -> dict[str, GroupDescription]:
        """kafka-python's name for describe_consumer_groups. The coordinator is looked up, whichever is given."""
        return await self.describe_consumer_groups(group_ids, timeout_ms, include_authorized_operations, errors=errors)

    async def describe_classic_groups(
        self,
        group_ids: Iterable[str],
        timeout_ms: float | None = None,
        include_authorized_operations: bool = False,
        *,
        errors: Errors | None = None,
    ) -> dict[str, GroupDescription]:
        """Groups of the classic protocol, of consumers or others (Connect…). Raises GroupIdNotFoundError."""

        async def attempt(left: list[str]) -> dict[str, GroupDescription | KafkaError]:
            found = await self._describe_classic(left, include_authorized_operations)
            return {
                g: GroupIdNotFoundError(f"{g}: there is no classic group of this name")
                if isinstance(told, GroupDescription) and told.state == DEAD
                else told
                for g, told in found.items()
            }

        return await self.settled(group_ids, attempt, timeout_ms, errors)

    async def describe_share_groups(
        self,
        group_ids: Iterable[str],
        timeout_ms: float | None = None,
        include_authorized_operations: bool = False,
        *,
        errors: Errors | None = None,
    ) -> dict[str, GroupDescription]:
        """Share groups (KIP-932). Raises GroupIdNotFoundError."""

        async def attempt(left: list[str]) -> dict[str, GroupDescription | KafkaError]:
            request = share.ShareGroupDescribeRequest(
                group_ids=[], include_authorized_operations=include_authorized_operations
            )
            return await self._described(left, request)

        return await self.settled(group_ids, attempt, timeout_ms, errors)

    async def _describe_classic(self, groups: list[str], operations: bool) -> dict[str, GroupDescription | KafkaError]:
        def request(some: list[str]) -> classic.DescribeGroupsRequest:
            return classic.DescribeGroupsRequest(groups=some, include_authorized_operations=operations)

        def one(node: int, group: classic.DescribedGroup) -> GroupDescription | KafkaError:
            unknown = group.error_code == GroupIdNotFoundError.code
            error = None if unknown else failure(group.error_code, group.group_id, group.error_message)
            return error or classic_group(group, node)

        return await self.ask_for(
            await self.by_coordinator(groups),
            request,
            lambda node, answer: {group.group_id: one(node, group) for group in answer.groups},
        )

    async def _described(self, groups: list[str], request: Any) -> dict[str, GroupDescription | KafkaError]:
        """Groups of the kind that the request asks for."""
        kind, operations = type(request), request.include_authorized_operations

        def one(node: int, group: Any) -> GroupDescription | KafkaError:
            return failure(group.error_code, group.group_id, group.error_message) or epoch_group(group, node)

        return await self.ask_for(
            await self.by_coordinator(groups),
            lambda some: kind(group_ids=some, include_authorized_operations=operations),
            lambda node, answer: {group.group_id: one(node, group) for group in answer.groups},
        )

    # Ends

    async def delete_consumer_groups(
        self, group_ids: Iterable[str], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> None:
        """Forget groups without members, with their offsets. Raises NonEmptyGroupError, GroupIdNotFoundError…"""

        async def attempt(left: list[str]) -> dict[str, KafkaError | None]:
            return await self.ask_for(
                await self.by_coordinator(left),
                lambda some: DeleteGroupsRequest(groups_names=some),
                lambda _, answer: {
                    r.group_id: failure(r.error_code, r.group_id, r.error_message) for r in answer.results
                },
            )

        await self.settled(group_ids, attempt, timeout_ms, errors)

    async def delete_groups(
        self,
        group_ids: Iterable[str],
        timeout_ms: float | None = None,
        *,
        group_coordinator_id: int | None = None,
        errors: Errors | None = None,
    ) -> None:
        """kafka-python's name for delete_consumer_groups. The coordinator is looked up, whichever is given."""
        await self.delete_consumer_groups(group_ids, timeout_ms, errors=errors)

    async def delete_share_groups(
        self, group_ids: Iterable[str], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> None:
        """Forget share groups without members."""
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
        """Send members away (None: all of them): MemberToRemove, or instance ids of static members.

        Raises UnknownMemberIdError for one that the group does not have.
        """
        if members is None:
            described = (await self.describe_consumer_groups([group_id], timeout_ms))[group_id]
            wanted = [MemberToRemove(m.member_id, m.group_instance_id) for m in described.members]
        else:
            wanted = [MemberToRemove(None, m) if isinstance(m, str) else m for m in members]

        async def attempt(left: list[MemberToRemove]) -> dict[MemberToRemove, KafkaError | None]:
            by_node, missing = await self.by_coordinator([group_id], GROUP)
            for error in missing.values():
                raise error
            request = leave.LeaveGroupRequest(group_id=group_id, members=[_leaving(m, reason) for m in left])
            response = await self.connections.ask(next(iter(by_node)), request)
            check(response.error_code, group_id)
            return {
                member: failure(answer.error_code, f"{group_id}, member {member.group_instance_id or member.member_id}")
                for member, answer in zip(left, response.members, strict=True)
            }

        await self.settled(wanted, attempt, timeout_ms, errors)

    async def remove_group_members(
        self,
        group_id: str,
        members: Iterable[MemberToRemove | str],
        timeout_ms: float | None = None,
        *,
        group_coordinator_id: int | None = None,
        errors: Errors | None = None,
    ) -> None:
        """kafka-python's name for remove_members_from_consumer_group. The coordinator is looked up anyway."""
        await self.remove_members_from_consumer_group(group_id, members, timeout_ms, errors=errors)


def _listed(node: int, answer: ListGroupsResponse | KafkaError) -> list[ListedGroup] | KafkaError:
    if isinstance(answer, KafkaError):
        return answer
    return failure(answer.error_code, f"broker {node}") or list(answer.groups)


def _leaving(member: MemberToRemove, reason: str) -> leave.MemberIdentity:
    return leave.MemberIdentity(
        member_id="" if member.group_instance_id is not None else member.member_id or "",
        group_instance_id=member.group_instance_id,
        reason=member.reason or reason,
    )
