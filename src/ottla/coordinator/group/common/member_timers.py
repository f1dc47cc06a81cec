"""The state of members of consumer and streams groups that is not in the log.

It consists of their timers, which start again when a broker loads the group, and the assignments that they last
reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.coordinator.group.common.modern_group import ModernGroups
from ottla.coordinator.runtime.deadline_queue import NEVER


@dataclass(slots=True)
class Timers:
    """The timers of a member, in seconds of the clock's `monotonic`, and its last report.

    The member is removed at `session` unless it sends a heartbeat, at `rebalance` unless it revokes partitions, and,
    with the classic protocol, at `join` or `sync` unless it sends JoinGroup or SyncGroup.
    """

    session: float = NEVER
    rebalance: float = NEVER
    join: float = NEVER
    sync: float = NEVER
    revocation: tuple[Any, int] | None = None
    """The partitions or tasks that the member has to revoke until `rebalance`, and its timeout for that in ms; None if
    there are none.
    """
    reported: Any = None
    """The partitions or tasks that the member last reported as its own; None before its first report."""
    resend: float = NEVER
    """The time from which the assignment is sent again if the member's last report differs from it."""

    @property
    def next(self) -> float:
        return min(self.session, self.rebalance, self.join, self.sync)


def next_timeout(timers: Mapping[str, Timers]) -> float:
    """Return the time at which the first of the members times out; NEVER if none does."""
    return min((t.next for t in timers.values()), default=NEVER)


class TimedGroups(ModernGroups):
    """Base of the request handlers of consumer and streams groups: keeps the timers of members."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._timers: dict[str, dict[str, Timers]] = {}

    def timers_of(self, group_id: str) -> dict[str, Timers]:
        """Return the timers of a group by member id. The group need not exist yet."""
        return self._timers.setdefault(group_id, {})

    def remove_timers(self, group_id: str) -> None:
        self._timers.pop(group_id, None)

    def renew_session(self, group_id: str, member_id: str, timeout_ms: int) -> Timers:
        """Renew the session of a member, and return its timers."""
        timers = self.timers_of(group_id).setdefault(member_id, Timers())
        timers.session = self._clock.monotonic() + timeout_ms / 1000
        return timers

    def sends_assignment(self, timers: Timers, owned: Any, assigned: Any, interval_ms: int, *, is_new: bool) -> bool:
        """Return whether the response to a heartbeat contains the assignment.

        It does if the assignment is new to the member (`is_new`), or if the member's last report differs from the
        assignment, which was last sent at least two intervals ago. `owned`: what the request reports, which is stored
        in `timers`; None if it reports nothing.

        A response with a new assignment may be lost although the member's next requests are answered: it may belong to
        a request that the client has given up, and that a slow network delivers after a later one. Kafka's coordinators
        send an assignment only once. The member would then never revoke the partitions, or never read new ones.
        """
        now = self._clock.monotonic()
        if owned is not None:
            timers.reported = owned
        is_unreported = timers.reported is not None and timers.reported != assigned and timers.resend <= now
        if is_new or is_unreported:
            timers.resend = now + 2 * interval_ms / 1000
        return is_new or is_unreported

    def _timed_out(self, group: Any) -> set[str]:
        """Return the ids of members that have timed out.

        The timers of those that are not in the group, because they were never written to the log, are dropped.
        """
        now = self._clock.monotonic()
        due: set[str] = {member_id for member_id, timers in group.timers.items() if timers.next <= now}
        for member_id in due - group.members.keys():
            del group.timers[member_id]
        return {member_id for member_id in due if member_id in group.members}

    def _limit_revocation(self, timers: Timers, revoking: Any, timeout_ms: int) -> None:
        """Limit the time for a revocation: of the partitions or tasks in `revoking`, or none if that is None.

        The limit stays the same while the member has to revoke the same ones, whatever else changes in the group.
        """
        revocation = None if revoking is None else (revoking, timeout_ms)
        if revocation == timers.revocation:
            return
        timers.revocation = revocation
        timers.rebalance = NEVER if revocation is None else self._clock.monotonic() + timeout_ms / 1000
