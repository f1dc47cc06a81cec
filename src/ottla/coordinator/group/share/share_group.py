"""One share group: its members, and the partitions that each one reads. Several members may read the same partition.

No member has to revoke a partition before another one gets it, so a member reaches its target with its next heartbeat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ottla.cluster.image.cluster_image import ClusterImage
from ottla.coordinator.group.common.consumer_member import NOTHING, Assignment, SubscribedMember
from ottla.coordinator.group.common.consumer_topics import sizes_of
from ottla.coordinator.group.common.group import Committer
from ottla.coordinator.group.common.modern_group import SubscribedGroup
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.errors import FencedMemberEpochError, GroupIdNotFoundError
from ottla.model import TopicIdPartition


class ShareGroupState(StrEnum):
    """The states, with Kafka's names."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ShareMember(SubscribedMember):
    """A member of a share group. Immutable."""

    @property
    def description(self) -> tuple[object, ...]:
        """The fields of a ShareGroupMemberMetadata record."""
        return self.rack_id, self.client_id, self.client_host, self.topics

    def check_epoch(self, epoch: int) -> None:
        """Raise FencedMemberEpochError unless `epoch` is the current or the previous one.

        The previous one is accepted because the response with the current one may be lost.
        """
        if epoch not in (self.epoch, self.previous_epoch):
            raise FencedMemberEpochError(
                f"The share group member has epoch {epoch}, not the one known by the group coordinator ({self.epoch}). "
                "The member must abandon all its partitions and rejoin."
            )


@dataclass(slots=True)
class ShareGroup(SubscribedGroup[ShareMember]):
    """A share group. `deadlines` and `evaluated_topics` are not in the log."""

    TYPE = "share"

    deadlines: dict[str, float] = field(default_factory=dict)
    """The times when the sessions of members expire, in seconds of the clock's `monotonic`."""
    evaluated_topics: object = None
    """The topics of the cluster image for which the metadata hash was last computed and had not changed."""
    initialized: Assignment = NOTHING
    """The partitions that are recorded to have a state at their share coordinators."""

    def uninitialized(self, image: ClusterImage) -> list[TopicIdPartition]:
        """Return the partitions of subscribed topics that are not in `initialized`."""
        names = frozenset().union(*(member.topics for member in self.members.values()))
        subscribed = (TopicIdPartition(t, n) for t, size in sizes_of(names, image).items() for n in range(size))
        return [tip for tip in subscribed if tip not in self.initialized]

    @property
    def state_name(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def check_commit(self, committer: Committer, version: int, now: float) -> None:
        """Raise GroupIdNotFoundError: share groups have no committed offsets."""
        raise GroupIdNotFoundError(f"Group {self.id} is not a consumer group.")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Do nothing: a fetch of offsets returns none, which is not an error."""

    def check_offset_delete(self) -> None:
        """Raise GroupIdNotFoundError: share groups have no committed offsets."""
        raise GroupIdNotFoundError(f"Group {self.id} is not a consumer group.")

    def retained_since(self, commit_ms: int) -> int | None:
        return None  # there are no offsets to expire

    def next_deadline(self) -> float:
        return min(self.deadlines.values(), default=NEVER)
