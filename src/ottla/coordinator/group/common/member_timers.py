"""The timers of the members of consumer and streams groups. They are not in the log, and start when it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.coordinator.group.common.modern_group import ModernGroups
from ottla.coordinator.runtime.deadline_queue import NEVER


@dataclass(slots=True)
class Timers:
    """The times at which a member is removed because its session, revocation, join or sync (classic) has timed out."""

    session: float = NEVER
    rebalance: float = NEVER
    join: float = NEVER
    sync: float = NEVER

    @property
    def next(self) -> float:
        return min(self.session, self.rebalance, self.join, self.sync)


def next_timeout(timers: Mapping[str, Timers]) -> float:
    """Return when the next of the members times out."""
    return min((t.next for t in timers.values()), default=NEVER)


class TimedGroups(ModernGroups):
    """The groups of one type whose members have timers."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._timers: dict[str, dict[str, Timers]] = {}

    def timers_of(self, group_id: str) -> dict[str, Timers]:
        """Return the timers of a group, which may be about to be created."""
        return self._timers.setdefault(group_id, {})

    def remove_timers(self, group_id: str) -> None:
        self._timers.pop(group_id, None)

    def renew_session(self, group_id: str, member_id: str, timeout_ms: int) -> Timers:
        """Renew the session of a member. Return its timers."""
        timers = self.timers_of(group_id).setdefault(member_id, Timers())
        timers.session = self._clock.monotonic() + timeout_ms / 1000
        return timers

    def _timed_out(self, group: Any) -> set[str]:
        """Return the members that have timed out; forget those that were never written."""
        now = self._clock.monotonic()
        due: set[str] = {member_id for member_id, timers in group.timers.items() if timers.next <= now}
        for member_id in due - group.members.keys():
            del group.timers[member_id]
        return {member_id for member_id in due if member_id in group.members}

    def _limit_revocation(self, timers: Timers, must_revoke: bool, timeout_ms: int) -> None:
        timers.rebalance = self._clock.monotonic() + timeout_ms / 1000 if must_revoke else NEVER
