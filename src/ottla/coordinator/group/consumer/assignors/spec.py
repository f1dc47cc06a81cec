"""The interface of assignors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.coordinator.group.common.consumer_member import Assignment


class MemberSpec(NamedTuple):
    """A member: the topics it subscribes to, and its current target assignment."""

    topics: frozenset[UUID]
    assigned: Assignment
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, MemberSpec], Mapping[UUID, int]], dict[str, Assignment]]
"""Returns the assignment by member id, from members by id and numbers of partitions by topic id. All subscribed topics
exist; the same input gives the same output.
"""
