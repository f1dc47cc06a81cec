"""The interface of assignors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.coordinator.group.common.consumer_member import Assignment


class MemberSpec(NamedTuple):
    """A member as an assignor sees it: the topics it subscribes to, and its current target assignment."""

    topics: frozenset[UUID]
    assigned: Assignment
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, MemberSpec], Mapping[UUID, int]], dict[str, Assignment]]
"""A function that computes the assignments by member id, from members by id and partition counts by topic id.

All subscribed topics exist. It must be deterministic.
"""
