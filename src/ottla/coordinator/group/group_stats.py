"""Counters of a group coordinator: offsets, and rebalances by type of group and by group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.coordinator.group.classic.records import GROUP_KEY_VERSION, read_generation
from ottla.net.sampled_rate import SampledRate

REBALANCE_RECORDS: Final = {GROUP_KEY_VERSION: "classic", 3: "consumer", 11: "share", 17: "streams"}
"""Group types by the number of the record type that a rebalance writes: a new generation, or a new group epoch."""
WINDOWS: Final = 2
WINDOW_SECONDS: Final = 30.0
"""Length of a sample window in seconds. Rates are measured over two windows, a minute, as with the defaults of
`metrics.num.samples` and `metrics.sample.window.ms`.
"""


class RebalanceStats:
    """The rebalances of all groups of one type: their number, and their rate per second."""

    __slots__ = ("count", "rate")

    def __init__(self) -> None:
        self.count = 0
        self.rate = SampledRate(WINDOWS, WINDOW_SECONDS)


class GroupStats:
    """Counts the offsets and rebalances for which this broker has appended records. Offsets in transactions count when
    they are appended, even if the transaction is aborted later.
    """

    __slots__ = (
        "_generations",
        "_monotonic",
        "by_group",
        "offset_commits",
        "offset_expirations",
        "offset_tombstones",
        "rebalances",
    )

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.offset_commits = 0
        self.offset_tombstones = 0
        """Number of deleted offsets, including expired ones."""
        self.offset_expirations = 0
        self.rebalances = {group_type: RebalanceStats() for group_type in REBALANCE_RECORDS.values()}
        """The rebalances by group type."""
        self.by_group: dict[str, int] = {}
        """The number of rebalances of each group since this broker became its coordinator, or since the group changed
        its protocol. Groups without rebalances are left out.
        """
        self._generations: dict[str, int] = {}
        """The last generation with members of each classic group, by group id."""

    def on_offset(self, value: bytes | None) -> None:
        """Count the appended record of an offset."""
        self.offset_commits += value is not None
        self.offset_tombstones += value is None

    def on_group_record(self, group_id: str, key: bytes, value: bytes | None) -> None:
        """Count a rebalance if the record that was appended for a group shows one.

        A tombstone that deletes the group removes its counters.
        """
        record_type = int.from_bytes(key[:2], "big")
        group_type = REBALANCE_RECORDS.get(record_type)
        if group_type is None:
            return
        if value is None:
            self.remove(group_id)
            return
        if record_type == GROUP_KEY_VERSION and not self._is_new_generation(group_id, value):
            return
        self.by_group[group_id] = self.by_group.get(group_id, 0) + 1
        stats = self.rebalances[group_type]
        stats.count += 1
        stats.rate.add(1, self._monotonic())

    def on_loaded(self, group_id: str, value: bytes | None) -> None:
        """Remember the generation of a classic group that is being loaded. An earlier coordinator has counted its
        rebalance.
        """
        generation = None if value is None else read_generation(value)
        if generation is None:
            self._generations.pop(group_id, None)
        else:
            self._generations[group_id] = generation

    def _is_new_generation(self, group_id: str, value: bytes) -> bool:
        """Return whether a group metadata record means that a classic group has completed a rebalance.

        The record is also written if a static member restarts, and if the last member has left.
        """
        generation = read_generation(value)
        if generation is None or self._generations.get(group_id) == generation:
            return False
        self._generations[group_id] = generation
        return True

    def rebalances_per_second(self, group_type: str) -> float:
        """Return the rate of the rebalances of all groups of a type."""
        return self.rebalances[group_type].rate.per_second(self._monotonic())

    def remove(self, group_id: str) -> None:
        """Remove the counters of a group."""
        self.by_group.pop(group_id, None)
        self._generations.pop(group_id, None)
