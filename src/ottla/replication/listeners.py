"""What a broker is to its partitions, and whom that concerns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.cluster.image.cluster_image import PartitionImage
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.replication.partition import Partition


class LeadershipListener(Protocol):
    """Told, on the loop's thread, which partitions this broker leads."""

    def led(self, partition: Partition) -> None:
        """It leads this partition, now or in a new epoch."""

    def resigned(self, tp: TopicPartition) -> None:
        """It leads this partition no longer: it follows, it is closed, or nobody leads it."""


class Followers(Protocol):
    """What fetches the partitions that this broker follows."""

    def follow(self, partition: Partition) -> None:
        """Fetch it from the leader that its image names; also called when that changes."""

    def leave(self, tp: TopicPartition) -> None:
        """Fetch it no more."""


class IsrChanges(Protocol):
    """The leader's way to the controller, which alone writes who is in sync."""

    async def propose(
        self, tp: TopicPartition, image: PartitionImage, isr: tuple[int, ...], epochs: Mapping[int, int]
    ) -> PartitionImage:
        """Ask for this ISR in place of that of `image`; the state that the controller has written.

        `epochs`: in which registrations its members have fetched.

        Raises KafkaError where it has not: FencedLeaderEpoch, InvalidUpdateVersion, IneligibleReplica and others.
        """
