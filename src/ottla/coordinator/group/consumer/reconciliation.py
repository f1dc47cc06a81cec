"""Reconciliation of a member with its target assignment: revoke first, then take free partitions (KIP-848)."""

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
    """Return the member's next state; the same if it has to wait.

    `owners`: the members that hold partitions. `owned`: what the member reports that it reads; None: no report.
    """
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return member
        case MemberState.STABLE | MemberState.UNRELEASED:
            return _next(member, member.epoch, target_epoch, target, owners, owned)
        case MemberState.UNREVOKED:
            if owned is None or owned & member.revoking:
                return member
            # one epoch more, so that commits for revoked partitions are rejected
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
