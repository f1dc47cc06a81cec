"""The rebalances of groups in the last ten minutes, from the Prometheus metrics of the brokers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from ottla_console.cluster.metric_pages import samples_of

REBALANCES: Final = "kafka_consumergroup_rebalances_total"
WINDOW_SECONDS: Final = 60.0
WINDOWS: Final = 10


class RecentRebalances:
    """Adds up how much the counter of each group has grown. One thread writes; other threads may read.

    Only increases are stored for ten minutes, in windows of a minute: of thousands of groups, few rebalance.
    """

    def __init__(self) -> None:
        self._counters: dict[str, dict[str, float]] = {}
        """The counters of groups by the address of a broker's metrics."""
        self._windows: deque[tuple[float, dict[str, float]]] = deque(maxlen=WINDOWS)
        """The start of each window, and the increases by group."""
        self._sums: dict[str, int] | None = None

    def update(self, now: float, pages: Mapping[str, str]) -> None:
        """Add the increases since the last call. `pages`: the metrics by address; a page that was not read is empty."""
        while self._windows and now - self._windows[0][0] >= WINDOWS * WINDOW_SECONDS:
            self._windows.popleft()
        if not self._windows or now - self._windows[-1][0] >= WINDOW_SECONDS:
            self._windows.append((now, {}))
        for address, page in pages.items():
            if page:
                self._add(address, page)
        if any(self._counters.values()):
            self._sums = self._summed()

    def _add(self, address: str, page: str) -> None:
        before, increases = self._counters.get(address), self._windows[-1][1]
        after = {s.labels.get("consumergroup", ""): s.value for s in samples_of(page, REBALANCES)}
        self._counters[address] = after
        if before is None:
            return
        for group_id, value in after.items():
            previous = before.get(group_id, 0.0)
            # a counter starts again from zero if the broker has restarted
            grown = value - previous if value >= previous else value
            if grown:
                increases[group_id] = increases.get(group_id, 0.0) + grown

    def _summed(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for _, increases in self._windows:
            for group_id, increase in increases.items():
                sums[group_id] = sums.get(group_id, 0) + round(increase)
        return sums

    def for_group(self, group_id: str) -> int | None:
        """Return the number of rebalances of a group in the last ten minutes; None if no broker has reported the
        counter of any group.
        """
        sums = self._sums
        return None if sums is None else sums.get(group_id, 0)
