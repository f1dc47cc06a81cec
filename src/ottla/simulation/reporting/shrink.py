"""Shrinking: find a plan with few faults and clients, and a short time, that still breaks the same promise.

Most candidates are the best plan so far without some part. This changes the order of all later events, so candidates
without some faults or clients are also tried with other variations of the same seed.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from ottla.simulation.reporting.story import story
from ottla.simulation.runner import Plan, RunOutcome

T = TypeVar("T")
VARIATIONS: Final = 3
MARGIN_SECONDS: Final = 0.5
DECIMALS: Final = 2

RunAll = Callable[[Iterator[Plan]], Iterator[tuple[Plan, RunOutcome]]]
"""Runs plans in parallel, and yields each with its outcome, in any order."""


class Shrunk(NamedTuple):
    """The smallest plan so far, and its outcome."""

    plan: Plan
    outcome: RunOutcome


def explicit(plan: Plan, outcome: RunOutcome) -> Plan:
    """Return the plan of a run with its faults, and the time until the last one ends, as explicit parameters."""
    ends = max((fault.at + fault.seconds for fault in outcome.faults), default=0.0)
    return plan._replace(faults=tuple(outcome.faults), lasts=ends)


class Shrinker:
    """Shrinks one plan, whose run has broken `promise`, until `deadline` (`time.monotonic`)."""

    def __init__(
        self, best: Shrunk, promise: str, run_all: RunAll, deadline: float, progress: Callable[[str], object]
    ) -> None:
        self.best = best
        self._promise = promise
        self._run_all = run_all
        self._deadline = deadline
        self._progress = progress

    def shrink(self) -> Shrunk:
        """Shrink until nothing more can be left out, or until the deadline; then round the times of the faults.
        Return the smallest plan and its outcome.
        """
        self._try([self.best.plan._replace(stops_early=True)], variations=1)
        self._cut_after_the_violation()
        self._report_progress()
        smaller = True
        while smaller and not self._is_over:
            smaller = any([self._fewer_faults(), self._fewer_clients(), self._shorter()])
        self._round_times()
        return self.best

    @property
    def _is_over(self) -> bool:
        return time.monotonic() > self._deadline

    def _try(self, candidates: Sequence[Plan], variations: int = VARIATIONS) -> bool:
        """Adopt the first candidate whose run breaks the promise, in one of its variations. Return whether there is
        one; False after the deadline.
        """
        own = self.best.plan.variation
        plans = [plan._replace(variation=own + n) for n in range(variations) for plan in candidates]
        if self._is_over:
            return False
        for plan, outcome in self._run_all(iter(plans)):
            if self._promise in outcome.promises:
                self.best = Shrunk(plan, outcome)
                self._report_progress()
                return True
        return False

    def _report_progress(self) -> None:
        plan, outcome = self.best
        self._progress(
            f"{len(plan.faults or ())} faults, {len(outcome.clients) - len(plan.without)} clients, "
            f"{outcome.virtual_seconds:.0f} s of virtual time"
        )

    def _cut_after_the_violation(self) -> None:
        """Try to leave out the faults that had not begun, and the load that was left, when the promise was broken."""
        plan, outcome = self.best
        if plan.stops_early:
            broken_at = outcome.virtual_seconds - outcome.began
            faults = tuple(fault for fault in plan.faults or () if fault.at < broken_at)
            self._try([plan._replace(faults=faults, lasts=min(plan.lasts, broken_at + MARGIN_SECONDS))])

    def _fewer_faults(self) -> bool:
        """Try to leave out all faults, then halves of them, quarters, and so on to single ones (Zeller's ddmin)."""
        return self._without_parts(
            lambda: self.best.plan.faults or (), lambda left: self.best.plan._replace(faults=tuple(left))
        )

    def _fewer_clients(self) -> bool:
        return self._without_parts(
            lambda: [name for name in self.best.outcome.clients if name not in self.best.plan.without],
            lambda left: self.best.plan._replace(
                without=tuple(name for name in self.best.outcome.clients if name not in left)
            ),
        )

    def _without_parts(self, items: Callable[[], Sequence[T]], smaller: Callable[[Sequence[T]], Plan]) -> bool:
        before = len(items())
        size = before
        while size >= 1 and not self._is_over:
            now = items()
            left = [[*now[:at], *now[at + size :]] for at in range(0, len(now), size)]
            if not (now and self._try([smaller(part) for part in left])):
                size //= 2
            size = min(size, len(items()))
        return len(items()) < before

    def _shorter(self) -> bool:
        """Try to halve the duration of the load, or the time before the first fault. Return whether one succeeds."""
        plan = self.best.plan
        faults = plan.faults or ()
        first = min((fault.at for fault in faults), default=plan.lasts)
        candidates = [plan._replace(lasts=plan.lasts / 2)] if plan.lasts > 1 else []
        if first > 2:
            earlier = tuple(fault._replace(at=fault.at - first / 2) for fault in faults)
            candidates.append(plan._replace(faults=earlier, lasts=max(0.0, plan.lasts - first / 2)))
        return bool(candidates) and self._try(candidates, variations=1)

    def _round_times(self) -> None:
        """Make the times readable: round them to DECIMALS places, if the plan then still breaks the promise."""
        plan = self.best.plan
        faults = tuple(
            fault._replace(at=round(fault.at, DECIMALS), seconds=round(fault.seconds, DECIMALS))
            for fault in plan.faults or ()
        )
        self._deadline += 60  # a last try, which makes the command short
        self._try([plan._replace(faults=faults, lasts=round(plan.lasts, DECIMALS))])


def shrunk(
    plan: Plan, outcome: RunOutcome, run_all: RunAll, seconds: float, progress: Callable[[str], object]
) -> Shrunk:
    """Shrink a plan whose run has broken a promise, and begin no further step after `seconds` except rounding. Return
    the plan with the outcome of one more run, which has recorded its requests.

    The plan is returned unchanged if it does not break the promise with its faults as explicit parameters.
    """
    promise = outcome.promises[0]
    progress(f"shrinking: {outcome.violations[0]}")
    best = Shrunk(plan, outcome)
    for written_out, first in run_all(iter([explicit(plan, outcome)])):
        if promise in first.promises:
            shrinker = Shrinker(Shrunk(written_out, first), promise, run_all, time.monotonic() + seconds, progress)
            best = shrinker.shrink()
    (last_run,) = [last for _, last in run_all(iter([best.plan._replace(records_requests=True)]))]
    return best._replace(outcome=last_run)


def report(shrunk_run: Shrunk) -> list[str]:
    """Return the lines to print about a shrunk run: clients, faults, violations, story, logs, and the command that
    repeats the run.
    """
    plan, outcome = shrunk_run
    clients = [name for name in outcome.clients if name not in plan.without]
    lines = [f"clients: {', '.join(clients) or 'none'}"]
    lines += [f"    fault      {fault}" for fault in outcome.faults] or ["    no faults"]
    lines += [f"    violation  {violation}" for violation in outcome.violations]
    lines += ["what happened (virtual seconds, process, event):"]
    lines += [f"    {line}" for line in story(outcome.timeline, outcome.violations)]
    if outcome.logs:
        lines += ["logs in the end:", *(f"    {line}" for line in outcome.logs)]
    command = shlex.join(["python", "-m", "ottla.simulation", *plan.arguments])
    return [*lines, f"again: {command}    # trace {outcome.trace_hash}"]
