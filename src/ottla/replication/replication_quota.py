"""The quota of replication traffic for replicas that are being moved or catching up, which reserves bandwidth for
clients (KIP-73).

It applies to replicas that a topic config lists, while they are not in sync: `leader.replication.throttled.replicas`
for what a leader sends, `follower.replication.throttled.replicas` for what a follower fetches. Tiered storage limits
its traffic with the same class.
"""

from __future__ import annotations

ALL = "*"


class ReplicationQuota:
    """A limit on traffic in bytes per second. Traffic above the limit delays further traffic."""

    __slots__ = ("_applied_rate", "available_at", "bytes_per_second")

    def __init__(self) -> None:
        self.bytes_per_second = float("inf")
        """The quota; infinite by default. It may change at any time."""
        self.available_at = 0.0
        """The time in seconds from which more traffic is allowed, in the same clock as the methods' `now`."""
        self._applied_rate = self.bytes_per_second

    def record(self, nbytes: int, now: float) -> None:
        self._apply_rate(now)
        self.available_at = max(self.available_at, now) + nbytes / self.bytes_per_second

    def is_exceeded(self, now: float) -> bool:
        """Return whether the quota is exceeded, so that no traffic is allowed at `now`."""
        self._apply_rate(now)
        return self.available_at > now

    def _apply_rate(self, now: float) -> None:
        """If the rate has changed, adjust the current delay, so that the new rate takes effect at once."""
        if self._applied_rate != self.bytes_per_second:
            if self.available_at > now:
                self.available_at = now + (self.available_at - now) * (self._applied_rate / self.bytes_per_second)
            self._applied_rate = self.bytes_per_second


def is_throttled(option: str, partition: int, broker_id: int) -> bool:
    """Return whether a topic's config, `partition:broker,…` or `*`, names this replica."""
    names = {name.strip() for name in option.split(",")}
    return ALL in names or f"{partition}:{broker_id}" in names
