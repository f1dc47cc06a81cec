"""Base of the updates of consumer and streams groups, and the steps of a member to its target assignment.

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
    """A group that an update copies."""

    def copy(self) -> Self:
        """Return a copy to try a change on."""
        ...


G = TypeVar("G", bound=CopiedGroup)
M = TypeVar("M", bound=ModernMember)


class GroupUpdate(Generic[G]):
    """The group after the update. It is copied at the first change, as most heartbeats change nothing."""

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
    """Return the member's next state; the same if it has to wait.

    `is_free`: whether the member may get a partition or task now, as no other member holds it. `owned`: what the member
    reports that it has; None: no report. Kafka's `CurrentAssignmentBuilder`, of consumers and of streams.
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
            # one epoch more, so that commits for revoked partitions are rejected
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
