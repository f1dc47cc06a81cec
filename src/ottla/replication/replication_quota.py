"""The bound on bytes for replicas that are moved or mended, so that clients keep their share (KIP-73).

Only replicas that the topic names in `leader.replication.throttled.replicas` (what a leader sends) or
`follower.replication.throttled.replicas` (what a follower fetches) count, and only while they are not in sync.
"""

from __future__ import annotations

ALL = "*"


class ReplicationQuota:
    """Bytes per second over everything that counts. What was taken too much is waited for, at the present rate."""

    __slots__ = ("_applied_rate", "available_at", "bytes_per_second")

    def __init__(self) -> None:
        self.bytes_per_second = float("inf")
        """May change at any time."""
        self.available_at = 0.0
        """When there may be more, with the rate that was last asked or taken with."""
        self._applied_rate = self.bytes_per_second

    def record(self, nbytes: int, now: float) -> None:
        """So many bytes have gone through."""
        self._apply_rate(now)
        self.available_at = max(self.available_at, now) + nbytes / self.bytes_per_second

    def is_exceeded(self, now: float) -> bool:
        """Whether there is to be nothing more for the moment."""
        self._apply_rate(now)
        return self.available_at > now

    def _apply_rate(self, now: float) -> None:
        """What is still waited for takes as long as the new rate says: who raises it wants to see more at once."""
        if self._applied_rate != self.bytes_per_second:
            if self.available_at > now:
                self.available_at = now + (self.available_at - now) * (self._applied_rate / self.bytes_per_second)
            self._applied_rate = self.bytes_per_second


def is_throttled(option: str, partition: int, broker_id: int) -> bool:
    """Whether a topic's option, `partition:broker,…` or `*`, names this replica."""
    names = {name.strip() for name in option.split(",")}
    return ALL in names or f"{partition}:{broker_id}" in names
