"""What an assignor is given and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.coordinator.group.common.consumer_member import Assignment


class MemberSpec(NamedTuple):
    """A member: the topics it subscribed to, and what it was to read so far."""

    topics: frozenset[UUID]
    assigned: Assignment
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, MemberSpec], Mapping[UUID, int]], dict[str, Assignment]]
"""From members by id and the number of partitions by topic to what each member is to read. All subscribed topics are
known; the same input gives the same output."""
