"""The interface of assignors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.coordinator.group.common.consumer_member import Assignment


class MemberSpec(NamedTuple):
    """A member as an assignor sees it: its subscribed topics, its current target assignment, and its instance id."""

    topics: frozenset[UUID]
    assigned: Assignment
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, MemberSpec], Mapping[UUID, int]], dict[str, Assignment]]
"""A function that computes the assignments by member id, from members by id and partition counts by topic id.

The counts include all topics that the members subscribe to. The function must be deterministic.
"""
