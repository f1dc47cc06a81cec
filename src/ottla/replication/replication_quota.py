"""The quota of replication traffic for replicas that are moved or catch up, so that clients keep their share (KIP-73).

It counts replicas that the topic names in `leader.replication.throttled.replicas` (sent by a leader) or
`follower.replication.throttled.replicas` (fetched by a follower), while they are not in sync.
"""

from __future__ import annotations

ALL = "*"


class ReplicationQuota:
    """A limit in bytes per second. Traffic above it delays what follows."""

    __slots__ = ("_applied_rate", "available_at", "bytes_per_second")

    def __init__(self) -> None:
        self.bytes_per_second = float("inf")
        """The quota, which may change at any time."""
        self.available_at = 0.0
        """The time from which more traffic is allowed, at the rate that was applied last."""
        self._applied_rate = self.bytes_per_second

    def record(self, nbytes: int, now: float) -> None:
        self._apply_rate(now)
        self.available_at = max(self.available_at, now) + nbytes / self.bytes_per_second

    def is_exceeded(self, now: float) -> bool:
        """Return whether no more traffic is allowed at `now`."""
        self._apply_rate(now)
        return self.available_at > now

    def _apply_rate(self, now: float) -> None:
        """Apply a changed rate to the current delay, too, so that a higher one takes effect at once."""
        if self._applied_rate != self.bytes_per_second:
            if self.available_at > now:
                self.available_at = now + (self.available_at - now) * (self._applied_rate / self.bytes_per_second)
            self._applied_rate = self.bytes_per_second


def is_throttled(option: str, partition: int, broker_id: int) -> bool:
    """Return whether a topic's config, `partition:broker,…` or `*`, names this replica."""
    names = {name.strip() for name in option.split(",")}
    return ALL in names or f"{partition}:{broker_id}" in names
