"""What a broker is to its partitions, and whom that concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.replication.partition import Partition


class LeadershipListener(Protocol):
    """Told, on the loop's thread, which partitions this broker leads."""

    def on_leader(self, partition: Partition) -> None:
        """It leads this partition, now or in a new epoch."""

    def on_resigned(self, tp: TopicPartition) -> None:
        """It leads this partition no longer: it follows, it is closed, or nobody leads it."""


class FetcherManager(Protocol):
    """What fetches the partitions that this broker follows."""

    def add(self, partition: Partition) -> None:
        """Fetch it from the leader that its image names; also called when that changes."""

    def remove(self, tp: TopicPartition) -> None:
        """Fetch it no more."""
