"""One follower, as its leader knows it from the follower's fetches."""

from __future__ import annotations

from ottla.errors import NotLeaderOrFollowerError

UNKNOWN = -1


class Replica:
    """How far a follower has come. Times are of the clock's `monotonic`."""

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
        """Of the follower's registration; an older run of it may still have a fetch on its way."""
        self.reset(0, float("-inf"), in_sync=False)

    def reset(self, leader_end: int, now: float, *, in_sync: bool) -> None:
        """A new leader epoch: nothing is known of the follower's log, and it has time to show what it has.

        One that was in sync is taken for caught up at this moment, else it would be sent out before its first fetch.
        """
        self.log_end = self.log_start = UNKNOWN
        self.caught_up_at = now if in_sync else float("-inf")
        self._fetched_at = now if in_sync else float("-inf")
        self._leader_end = leader_end
        self.followed_at = float("-inf")
        """The latest time at which it certainly followed this leader epoch: when the response was made to which its
        last fetch is the reply. Other fetches may have waited in a socket while this broker was paused."""

    def fetched(self, offset: int, log_start: int, broker_epoch: int, leader_end: int, now: float) -> None:
        """A fetch says that the follower has everything before `offset`.

        It was caught up just now if that is all there is, and at its last fetch if it has all that there was then.
        """
        if -1 < broker_epoch < self.broker_epoch:
            raise NotLeaderOrFollowerError(f"broker {self.id} has registered anew since it sent this fetch")
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
        """Its broker has left the cluster: before its next fetch it has nothing, and so does not come back in sync."""
        self.log_end = UNKNOWN
        self.caught_up_at = self._fetched_at = float("-inf")

    def is_caught_up(self, leader_end: int, now: float, lag_seconds: float) -> bool:
        """Whether it has everything, or had within the last `lag_seconds`."""
        return self.log_end == leader_end or now - self.caught_up_at <= lag_seconds
