"""How a member comes from what it reads to its target assignment: it gives up first, then takes what is free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ottla.coordinator.group.common.consumer_member import (
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberState,
    TopicIdPartition,
)
from ottla.errors import FencedMemberEpochError


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    owners: Mapping[TopicIdPartition, str],
    owned: Assignment | None,
) -> ConsumerMember:
    """The member's next state, or the same where it has to wait.

    `owners` tells who holds a partition; `owned` is what the member says that it reads, None where it did not say.
    """
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return member
        case MemberState.STABLE | MemberState.UNRELEASED:
            return _next(member, member.epoch, target_epoch, target, owners, owned)
        case MemberState.UNREVOKED:
            if owned is None or owned & member.revoking:
                return member
            # One epoch on, so that what it commits from before is refused
            return _next(member, member.epoch + 1, target_epoch, target, owners, owned)
        case _:
            if owned is None or owned:
                raise FencedMemberEpochError(
                    "This broker does not know the member's state. It must give up its partitions and rejoin."
                )
            return _next(member, target_epoch, target_epoch, target, owners, owned)


def _next(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Assignment,
    owners: Mapping[TopicIdPartition, str],
    owned: Assignment | None,
) -> ConsumerMember:
    retained = member.assigned & target
    revoking = member.assigned - retained
    if revoking and (owned is None or owned & revoking):
        return _moved(member, epoch, MemberState.UNREVOKED, retained, revoking)
    missing = target - retained
    free = frozenset(p for p in missing if owners.get(p, member.id) == member.id)
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED
    return _moved(member, target_epoch, state, retained | free, NOTHING)


def _moved(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Assignment, revoking: Assignment
) -> ConsumerMember:
    now = (epoch, state, assigned, revoking)
    if now == (member.epoch, member.state, member.assigned, member.revoking):
        return member
    return replace(member, epoch=epoch, previous_epoch=member.epoch, state=state, assigned=assigned, revoking=revoking)
