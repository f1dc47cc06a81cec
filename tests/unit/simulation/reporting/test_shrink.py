"""Shrinking of failed simulation runs, with fake runs that depend only on their plans."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ottla.simulation.faults import Fault
from ottla.simulation.reporting.shrink import Shrunk, report, shrunk
from ottla.simulation.runner import BASE, Plan, RunOutcome

FAULTS = tuple(Fault(10.123 * n, 2.0, "kill", n % 3) for n in range(1, 9))
PROMISE = "no acked record is lost"
TIMELINE = [
    "    1.0000 broker-0     INFO Broker 0 now leads ordered-0 (epoch 0)",
    "    1.5000 broker-1     got Produce #1 from java-0: ordered-1 records=[offsets 0-2 epoch 0]",
    "    2.0000 broker-0     got Produce #1 from java-0: ordered-0 records=[offsets 0-2 epoch 0]",
    "    3.0000 checker      VIOLATION no acked record is lost: ordered-0 lacks it",
    "    4.0000 broker-0     answered Fetch #2 to broker-1: ordered-0",
]


def outcome(plan: Plan) -> RunOutcome:
    """Return a run that breaks the promise with the third and the sixth fault, producers, and two seconds of load."""
    faults = FAULTS if plan.faults is None else plan.faults
    kills = {round(fault.at, 2) for fault in faults}
    is_broken = {30.37, 60.74} <= kills and "producers" not in plan.without and (plan.faults is None or plan.lasts > 2)
    violations = [f"{PROMISE}: ordered-0 lacks it"] if is_broken else ["partitions accept writes: ordered-0"]
    return RunOutcome(plan.seed, violations, "", 90.0, 1.0, 9, 9, list(faults), TIMELINE, 0.2, BASE)


def run_all(plans: Iterator[Plan]) -> Iterator[tuple[Plan, RunOutcome]]:
    return ((plan, outcome(plan)) for plan in plans)


def shrink(seconds: float = 10) -> Shrunk:
    plan = Plan(7)
    return shrunk(plan, outcome(plan), run_all, seconds, lambda text: None)


def test_shrinking_removes_everything_the_violation_does_not_need() -> None:
    plan, last = shrink()
    assert [round(fault.at, 2) for fault in plan.faults or ()] == [30.37, 60.74]
    assert set(plan.without) == set(BASE) - {"producers"}
    assert 2 < plan.lasts < 5
    assert last.promises == [PROMISE]


def test_shrinking_without_time_returns_the_failing_run() -> None:
    began = time.monotonic()
    plan, last = shrink(seconds=0)
    assert time.monotonic() - began < 5
    assert len(plan.faults or ()) == len(FAULTS)
    assert last.promises == [PROMISE]


def test_report_has_relevant_events_and_the_command_to_repeat_the_run() -> None:
    lines = report(shrink())
    text = "\n".join(lines)
    assert "now leads ordered-0" in text
    assert "from java-0: ordered-0" in text
    assert "ordered-1" not in text
    assert "answered Fetch" not in text, "it is after the violation"
    command = next(line for line in lines if line.startswith("again"))
    assert "--inject kill@30.37+2.0:0,0 --inject kill@60.74+2.0:0,0" in command
    assert "--without scripted" in command
