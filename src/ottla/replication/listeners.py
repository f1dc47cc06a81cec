"""Interfaces between the partitions of a broker and those that act on their roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.replication.partition import Partition


class LeadershipListener(Protocol):
    """Acts on partitions that this broker leads. Called on the event loop."""

    def on_leader(self, partition: Partition) -> None:
        """Act on a partition that this broker leads, now or in a new epoch."""

    def on_resigned(self, tp: TopicPartition) -> None:
        """Act on a partition that this broker no longer leads: it follows, the partition is closed, or has no
        leader.
        """


class FetcherManager(Protocol):
    """Fetches the partitions that this broker follows."""

    def add(self, partition: Partition) -> None:
        """Fetch a partition from the leader that its image names; also called when that changes."""

    def remove(self, tp: TopicPartition) -> None:
        """Stop fetching a partition."""
