"""A replicated partition in one epoch of its leader: who is in sync, and how far everybody has come.

Pure: offsets and times come in, decisions go out. A change of the ISR is proposed to the controller, one at a time.
Until the controller has answered it may or may not hold, so the high watermark waits for the replicas of both ISRs,
the maximal one. It stays where it is while fewer than `min.insync.replicas` are in sync (KIP-966): otherwise a lone
leader would show records that the next one does not have.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cluster.image.cluster_image import PartitionImage
from ottla.replication.replica import Replica


class LeaderState:
    """What the leader knows of its followers. `image` is what the controller has written last."""

    def __init__(self, image: PartitionImage, end: int, now: float, lag_seconds: float) -> None:
        self.image = image
        self.start = end
        """Where this epoch's records begin: who is not here yet may hold others."""
        self.lag_seconds = lag_seconds
        self.pending_isr: tuple[int, ...] | None = None
        """The ISR that the controller was asked for."""
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
        """Who is in sync, or will be when the proposal holds."""
        return self._maximal

    def update(self, image: PartitionImage) -> None:
        """Go by a newer state of the same epoch; a proposal was answered by it, or has come too late."""
        self.image = image
        self._retain(image.replicas)
        self.clear_pending()

    def set_pending(self, isr: tuple[int, ...]) -> None:
        """From now on this ISR may hold, too."""
        assert self.pending_isr is None, "one proposal at a time"
        self.pending_isr = isr
        self._maximal = frozenset((*self.image.isr, *isr))

    def broker_epochs(self, isr: Iterable[int]) -> dict[int, int]:
        """The registrations in which these have fetched: one that has come back since may have lost what it had."""
        return {i: self.replicas[i].broker_epoch for i in isr if i in self.replicas}

    def clear_pending(self) -> None:
        """The proposal surely does not hold, or is what `image` says."""
        self.pending_isr = None
        self._maximal = frozenset(self.image.isr)

    def required(self, min_insync_replicas: int) -> int:
        """How many replicas have to be in sync: of two replicas not three, whatever the topic says."""
        return min(min_insync_replicas, len(self.image.replicas))

    def high_watermark(self, own_end: int, min_insync_replicas: int, now: float) -> int:
        """What all in-sync replicas have, and those that are about to join; -1 where it must not move."""
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
        """These have left the cluster: unless they are in the ISR nobody waits for what they do not have."""
        for broker in brokers:
            if broker in self.replicas:
                self.replicas[broker].mark_offline()

    def shrunk_isr(self, own_end: int, now: float) -> tuple[int, ...] | None:
        """The ISR without those that have fallen behind; None where all keep up, or a proposal is on its way."""
        if self.pending_isr is not None:
            return None
        behind = {
            i
            for i in self.image.isr
            if (replica := self.replicas.get(i)) and not replica.is_caught_up(own_end, now, self.lag_seconds)
        }
        return tuple(i for i in self.image.isr if i not in behind) if behind else None

    def expanded_isr(self, replica: Replica, high_watermark: int) -> tuple[int, ...] | None:
        """The ISR with a follower that has caught up; None where it has not, or is in it."""
        if self.pending_isr is not None or replica.id in self.image.isr:
            return None
        if replica.log_end < high_watermark or replica.log_end < self.start:
            return None
        return (*self.image.isr, replica.id)

    def preferred_candidates(self, offset: int) -> list[Replica]:
        """The followers in sync that have what lies at `offset`."""
        in_sync = (self.replicas[i] for i in self.image.isr if i in self.replicas)
        return [r for r in in_sync if r.log_start <= offset <= r.log_end]

    def low_watermark(self, own_start: int, alive: Iterable[int]) -> int:
        """Where the log begins at the living replicas that still have the most."""
        log_starts = (self.replicas[i].log_start for i in alive if i in self.replicas)
        return min((own_start, *log_starts))
