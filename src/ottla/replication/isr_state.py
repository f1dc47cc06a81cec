"""The leader's state in one leader epoch: the ISR, and the progress of each follower.

There is no I/O: offsets and times are arguments. Changes of the ISR are sent to the controller one at a time. Until the
controller has answered, it is unknown whether the change was written, so the high watermark waits for the replicas of
both ISRs: the maximal ISR. The high watermark does not advance while the ISR has fewer replicas than
`min.insync.replicas` requires (KIP-966). Otherwise a leader alone would expose records that the next leader does not
have.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cluster.image.cluster_image import PartitionImage
from ottla.errors import NotLeaderOrFollowerError

UNKNOWN = -1


class Replica:
    """The progress of one follower. Times are in seconds of the clock's `monotonic`."""

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
        """The highest broker epoch in the follower's fetches, by which a late fetch of an earlier registration is
        recognised; -1 if there is none.
        """
        self.reset(0, float("-inf"), in_sync=False)

    def reset(self, leader_end: int, now: float, *, in_sync: bool) -> None:
        """Start a leader epoch. The follower's offsets are unknown until it fetches.

        An in-sync replica counts as caught up now. Otherwise it would be removed from the ISR before its first fetch.
        """
        self.log_end = self.log_start = UNKNOWN
        self.caught_up_at = now if in_sync else float("-inf")
        self._fetched_at = now if in_sync else float("-inf")
        self._leader_end = leader_end
        self.followed_at = float("-inf")
        """Latest time at which the leader created a response after which this follower has fetched again; -inf if there
        is none. It is proof that the follower still followed the leader then. The time of the fetch itself proves
        nothing, because the fetch may have waited in a socket while this broker was paused.
        """

    def fetched(self, offset: int, log_start: int, broker_epoch: int, leader_end: int, now: float) -> None:
        """Record a fetch at `offset`: the follower has all records before it.

        The follower is caught up now if `offset` is at least `leader_end`, the leader's end offset. If it is at least
        the leader's end offset at the previous fetch, the follower was caught up at the time of that fetch. Raises
        NotLeaderOrFollowerError if the follower has already fetched with a newer broker epoch.
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
        """Forget the follower's progress, because its broker has left the cluster.

        It can join the ISR only after its next fetch.
        """
        self.log_end = UNKNOWN
        self.caught_up_at = self._fetched_at = float("-inf")

    def is_caught_up(self, leader_end: int, now: float, lag_seconds: float) -> bool:
        """Return whether the follower has all records, or had all within the last `lag_seconds`."""
        return self.log_end == leader_end or now - self.caught_up_at <= lag_seconds

    def lag_text(self, leader_end: int, now: float) -> str:
        """Return a description of how far the follower is behind, for log lines."""
        if self.log_end == UNKNOWN:
            return f"broker {self.id} has not fetched since this epoch began, or since it left the cluster"
        behind = f"broker {self.id} is {leader_end - self.log_end} offsets behind"
        return f"{behind}, was last caught up {now - self.caught_up_at:.1f} s ago"


class LeaderState:
    """The ISR and the followers' progress in one leader epoch.

    `image`: the newest partition state that the leader has received from the controller.
    """

    def __init__(self, image: PartitionImage, end: int, now: float, lag_seconds: float) -> None:
        self.image = image
        self.start = end
        """The first offset of this leader epoch. A replica that has not reached it may have diverging records."""
        self.started_at = now
        self.lag_seconds = lag_seconds
        self.pending_isr: tuple[int, ...] | None = None
        """The ISR that was requested from the controller and not answered yet; None if there is none."""
        self.replicas: dict[int, Replica] = {}
        self._retain(image.replicas)
        for replica in self.replicas.values():
            replica.reset(end, now, in_sync=replica.id in image.isr)
        self._maximal = frozenset(image.isr)

    def _retain(self, ids: Iterable[int]) -> None:
        own = self.image.leader
        self.replicas = {i: self.replicas.get(i) or Replica(i) for i in ids if i != own}

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The replicas in the ISR or in the pending ISR."""
        return self._maximal

    def followed_at(self, min_insync_replicas: int) -> float:
        """Return the time up to which enough in-sync followers followed this leader, so that no other leader can have
        committed anything before that time; infinity if there are no in-sync followers.
        """
        times = sorted(replica.followed_at for replica in self.replicas.values() if replica.id in self._maximal)
        return times[min(max(min_insync_replicas, 1), len(times)) - 1] if times else float("inf")

    def update(self, image: PartitionImage) -> None:
        """Apply a newer state of the same leader epoch. It contains the pending ISR or supersedes it."""
        self.image = image
        self._retain(image.replicas)
        self.clear_pending()

    def set_pending(self, isr: tuple[int, ...]) -> None:
        """Set the pending ISR. It counts as possibly written from now on."""
        assert self.pending_isr is None, "one pending ISR at a time"
        self.pending_isr = isr
        self._maximal = frozenset((*self.image.isr, *isr))

    def broker_epochs(self, isr: Iterable[int]) -> dict[int, int]:
        """Return the broker epochs in which the followers in `isr` have fetched, by broker id; -1 if unknown.

        The controller compares them with the current registrations, because a broker that has registered again may have
        lost records.
        """
        return {i: self.replicas[i].broker_epoch for i in isr if i in self.replicas}

    def clear_pending(self) -> None:
        """Clear the pending ISR, for example because it was rejected, or `image` contains it."""
        self.pending_isr = None
        self._maximal = frozenset(self.image.isr)

    def required(self, min_insync_replicas: int) -> int:
        """Return the number of replicas that must be in sync: `min_insync_replicas`, but at most the number of
        replicas.
        """
        return min(min_insync_replicas, len(self.image.replicas))

    def high_watermark(self, own_end: int, min_insync_replicas: int, now: float) -> int:
        """Return the lowest end offset of the maximal ISR and of caught-up replicas, which are about to join the ISR.

        Return -1 if too few replicas are in sync, or the end offset of one in the maximal ISR is unknown.
        """
        if len(self.image.isr) < self.required(min_insync_replicas):
            return -1
        lowest = own_end
        for replica in self.replicas.values():
            if replica.log_end < lowest and (
                replica.id in self._maximal or replica.is_caught_up(own_end, now, self.lag_seconds)
            ):
                lowest = replica.log_end
        return lowest

    def on_brokers_removed(self, brokers: Iterable[int]) -> None:
        """Forget the progress of brokers that have left the cluster.

        The high watermark waits for them only if they are in the maximal ISR.
        """
        for broker in brokers:
            if broker in self.replicas:
                self.replicas[broker].mark_offline()

    def shrunk_isr(self, own_end: int, now: float) -> tuple[int, ...] | None:
        """Return the ISR without followers that have fallen behind; None if none has, or an update is pending."""
        if self.pending_isr is not None:
            return None
        behind = {
            i
            for i in self.image.isr
            if (replica := self.replicas.get(i)) and not replica.is_caught_up(own_end, now, self.lag_seconds)
        }
        return tuple(i for i in self.image.isr if i not in behind) if behind else None

    def expanded_isr(self, replica: Replica, high_watermark: int) -> tuple[int, ...] | None:
        """Return the ISR with `replica` added.

        Return None if it has not reached the high watermark or the start of the leader epoch, is already in the ISR, or
        an update is pending.
        """
        if self.pending_isr is not None or replica.id in self.image.isr:
            return None
        if replica.log_end < high_watermark or replica.log_end < self.start:
            return None
        return (*self.image.isr, replica.id)

    def preferred_candidates(self, offset: int) -> list[Replica]:
        """Return the in-sync followers whose log contains `offset` or ends there."""
        in_sync = (self.replicas[i] for i in self.image.isr if i in self.replicas)
        return [r for r in in_sync if r.log_start <= offset <= r.log_end]

    def low_watermark(self, own_start: int, alive: Iterable[int]) -> int:
        """Return the lowest log start offset of this replica and those on live brokers; -1 if one is unknown."""
        log_starts = (self.replicas[i].log_start for i in alive if i in self.replicas)
        return min((own_start, *log_starts))
