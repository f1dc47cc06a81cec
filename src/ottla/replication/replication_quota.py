"""The bound on bytes for replicas that are moved or mended, so that clients keep their share (KIP-73).

Only replicas that the topic names in `leader.replication.throttled.replicas` (what a leader sends) or
`follower.replication.throttled.replicas` (what a follower fetches) count, and only while they are not in sync.
"""

from __future__ import annotations

ALL = "*"


class ReplicationQuota:
    """Bytes per second over everything that counts. What was taken too much is waited for, at the present rate."""

    __slots__ = ("_counted_with", "bytes_per_second", "free_at")

    def __init__(self) -> None:
        self.bytes_per_second = float("inf")
        """May change at any time."""
        self.free_at = 0.0
        """When there may be more, with the rate that was last asked or taken with."""
        self._counted_with = self.bytes_per_second

    def take(self, nbytes: int, now: float) -> None:
        """So many bytes have gone through."""
        self._follow_rate(now)
        self.free_at = max(self.free_at, now) + nbytes / self.bytes_per_second

    def is_exceeded(self, now: float) -> bool:
        """Whether there is to be nothing more for the moment."""
        self._follow_rate(now)
        return self.free_at > now

    def _follow_rate(self, now: float) -> None:
        """What is still waited for takes as long as the new rate says: who raises it wants to see more at once."""
        if self._counted_with != self.bytes_per_second:
            if self.free_at > now:
                self.free_at = now + (self.free_at - now) * (self._counted_with / self.bytes_per_second)
            self._counted_with = self.bytes_per_second


def is_throttled(option: str, partition: int, broker_id: int) -> bool:
    """Whether a topic's option, `partition:broker,…` or `*`, names this replica."""
    names = {name.strip() for name in option.split(",")}
    return ALL in names or f"{partition}:{broker_id}" in names
