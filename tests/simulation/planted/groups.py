"""Bugs of the group coordinator."""

from __future__ import annotations

from typing import Any

from tests.simulation.planted.patching import imported, needs, patch

from ottla.coordinator.group.classic import classic_groups, rebalance
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.common import group_update
from ottla.coordinator.group.consumer import consumer_group, consumer_group_update
from ottla.coordinator.group.group_runtime import GroupRuntime


def old_generations_commit() -> None:
    """Members of an earlier generation may heartbeat and commit."""
    patch(ClassicGroup, "check_generation", lambda self, generation: None)
    patch(consumer_group, "_check_epoch", lambda member, epoch, *, transactional=False: None)


def offsets_are_visible_before_the_commit() -> None:
    """Offsets in a transaction count before it is committed."""
    patch(GroupRuntime, "_replay_pending", lambda self, transaction, key, value: self.replay(key, value))
    original = GroupRuntime._end_transaction

    def end(self: Any, transaction: Any, commit: bool) -> Any:
        return original(self, transaction, True)

    patch(GroupRuntime, "_end_transaction", end)


@needs("kill", "isolation")
def members_get_partitions_that_others_hold() -> None:
    """A member of a consumer group need not wait until another one has revoked a partition (KIP-848)."""
    original = group_update.reconcile

    def reconcile(member: Any, epoch: int, target: Any, is_free: Any, owned: Any) -> Any:
        return original(member, epoch, target, lambda _: True, owned)

    patch(consumer_group_update, "reconcile", reconcile)


def the_classic_assignment_is_given_to_all() -> None:
    """Every member of a classic group gets the assignment of the first one."""
    original = imported(classic_groups, "sync_response")

    def sync_response(group: Any, member: Any, *arguments: Any) -> Any:
        response = original(group, member, *arguments)
        first = next(iter(group.members.values()))
        response.assignment = first.assignment
        return response

    patch(classic_groups, "sync_response", sync_response)
    patch(rebalance, "sync_response", sync_response)


def members_do_not_time_out() -> None:
    """A failed member keeps its partitions."""
    patch(GroupRuntime, "_on_deadline", lambda self, group_id: None)


@needs("kill")
def committed_offsets_are_not_loaded() -> None:
    """The next coordinator does not load the offsets of its groups."""
    original = GroupRuntime.replay

    def replay(self: Any, key: bytes, value: bytes | None) -> None:
        if int.from_bytes(key[:2], "big") > 1:
            original(self, key, value)

    patch(GroupRuntime, "replay", replay)


BUGS = (
    old_generations_commit,
    offsets_are_visible_before_the_commit,
    members_get_partitions_that_others_hold,
    the_classic_assignment_is_given_to_all,
    members_do_not_time_out,
    committed_offsets_are_not_loaded,
)
