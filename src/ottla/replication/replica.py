"""A follower as its leader sees it from the follower's fetches."""

from __future__ import annotations

from ottla.errors import NotLeaderOrFollowerError

UNKNOWN = -1


class Replica:
    """The progress of one follower. Times are seconds of the clock's `monotonic`."""

    __slots__ = (
        "_fetched_at",
        "_leader_end",
        "broker_epoch",
        "caught_up_at",
        "followed_at",
        "id",
        "log_end",
        "log_start",
    )

    def __init__(self, broker_id: int) -> None:
        self.id = broker_id
        self.broker_epoch = -1
        """Of the follower's registration; a fetch of an older registration may still arrive."""
        self.reset(0, float("-inf"), in_sync=False)

    def reset(self, leader_end: int, now: float, *, in_sync: bool) -> None:
        """Start a leader epoch: the follower's log is unknown until it fetches.

        An in-sync replica counts as caught up now, or it would be removed from the ISR before its first fetch.
        """
        self.log_end = self.log_start = UNKNOWN
        self.caught_up_at = now if in_sync else float("-inf")
        self._fetched_at = now if in_sync else float("-inf")
        self._leader_end = leader_end
        self.followed_at = float("-inf")
        """The latest time at which the follower certainly followed this leader epoch: when the response was created
        that its last fetch replies to. Other fetches may have waited in a socket while this broker was paused.
        """

    def fetched(self, offset: int, log_start: int, broker_epoch: int, leader_end: int, now: float) -> None:
        """Record a fetch: the follower has everything before `offset`.

        It is caught up now if that is the end of the log, and was at its last fetch if that was the end then.
        """
        if -1 < broker_epoch < self.broker_epoch:
            raise NotLeaderOrFollowerError(f"broker {self.id} has registered again since it sent this fetch")
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif offset >= self._leader_end:
            self.caught_up_at = max(self.caught_up_at, self._fetched_at)
        self.log_end = offset
        self.log_start = log_start
        self.broker_epoch = max(self.broker_epoch, broker_epoch)
        self._leader_end = max(leader_end, self._leader_end)
        self._fetched_at = now

    def mark_offline(self) -> None:
        """Expect nothing of the follower, as its broker has left the cluster; before its next fetch it cannot join the
        ISR.
        """
        self.log_end = UNKNOWN
        self.caught_up_at = self._fetched_at = float("-inf")

    def is_caught_up(self, leader_end: int, now: float, lag_seconds: float) -> bool:
        """Whether the follower has everything, or had within the last `lag_seconds`."""
        return self.log_end == leader_end or now - self.caught_up_at <= lag_seconds
