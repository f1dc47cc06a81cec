"""Base of the updates of consumer and streams groups, and the reconciliation of a member with its target assignment.

The group itself changes only when the records are replayed, so a change that cannot be written has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Generic, Protocol, Self, TypeVar

from ottla.cluster.image.cluster_image import ClusterImage
from ottla.coordinator.group.common.consumer_member import NOTHING, MemberState, ModernMember
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.errors import FencedMemberEpochError


class CopiedGroup(Protocol):
    """The interface of a group that an update can copy."""

    def copy(self) -> Self:
        """Return a copy that an update may change."""
        ...


G = TypeVar("G", bound=CopiedGroup)
M = TypeVar("M", bound=ModernMember)


class GroupUpdate(Generic[G]):
    """An update of a group: the changed group and the records that describe the changes.

    `group` is copied at the first change only, because most heartbeats change nothing.
    """

    def __init__(self, group: G, image: ClusterImage, now_ms: int, before: Iterable[CoordinatorRecord] = ()) -> None:
        self.original = group
        self.group = group
        self.records = list(before)
        self._image = image
        self._now_ms = now_ms

    def _write(self, *new: CoordinatorRecord) -> None:
        if self.group is self.original:
            self.group = self.original.copy()
        self.records += new


def reconcile(
    member: M,
    target_epoch: int,
    target: frozenset[Any],
    is_free: Callable[[Any], bool],
    owned: frozenset[Any] | None,
) -> M:
    """Return the member after its next reconciliation step; the same object if nothing changes.

    `is_free`: whether the other members let the member have a partition or task now. `owned`: the partitions or tasks
    that the member reports to have; None if it does not report. Raises FencedMemberEpochError if
    the state of the member is unknown, unless it reports that it has nothing. Kafka's `CurrentAssignmentBuilder`, for
    consumer and streams groups.
    """
    state: Any = member
    match state.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return member
        case MemberState.STABLE | MemberState.UNRELEASED:
            return _next(member, member.epoch, target_epoch, target, is_free, owned)
        case MemberState.UNREVOKED:
            if owned is None or owned & state.revoking:
                return member
            # The epoch is incremented so that commits for revoked partitions are rejected.
            return _next(member, member.epoch + 1, target_epoch, target, is_free, owned)
        case _:
            if owned is None or owned:
                raise FencedMemberEpochError(
                    "This broker does not know the member's state. It must give up its partitions and rejoin."
                )
            return _next(member, target_epoch, target_epoch, target, is_free, owned)


def _next(
    member: M,
    epoch: int,
    target_epoch: int,
    target: frozenset[Any],
    is_free: Callable[[Any], bool],
    owned: frozenset[Any] | None,
) -> M:
    now: Any = member
    retained = now.assigned & target
    revoking = now.assigned - retained
    if revoking and (owned is None or owned & revoking):
        return _moved(member, epoch, MemberState.UNREVOKED, retained, revoking)
    missing = target - retained
    free = frozenset(filter(is_free, missing))
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED
    return _moved(member, target_epoch, state, retained | free, NOTHING)


def _moved(member: M, epoch: int, state: MemberState, assigned: frozenset[Any], revoking: frozenset[Any]) -> M:
    now: Any = member
    if (epoch, state, assigned, revoking) == (now.epoch, now.state, now.assigned, now.revoking):
        return member
    moved: M = replace(now, epoch=epoch, previous_epoch=now.epoch, state=state, assigned=assigned, revoking=revoking)
    return moved
