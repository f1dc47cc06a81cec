"""The command `python -m ottla.simulation`: runs one seed, or many in parallel."""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.simulation import system
from ottla.simulation.faults import ALL_KINDS, Fault
from ottla.simulation.reporting.children import with_plans
from ottla.simulation.reporting.coverage import Coverage
from ottla.simulation.reporting.shrink import report, shrunk
from ottla.simulation.runner import BASE, WORKLOADS, Plan, RunOutcome, run
from ottla.simulation.world import SQLITE, ZOOKEEPER

WARM_UP: Final = Plan(seed=0, seconds=20.0)
"""The plan of a run before all others, in this process, which compiles the codecs for them."""

SQLITE_EVERY: Final = 4
"""Without `--store`, one of this many consecutive seeds uses the embedded metadata store."""
SHRINK_HELP: Final = "shrink the first 3 broken runs, each for 300 s by default, and print their stories"
COVERAGE_HELP: Final = (
    "add the coverage of these runs to this file; about half of the runs are variants of runs that covered something "
    "new"
)
INJECT_HELP: Final = (
    "inject only this fault, KIND@AT+SECONDS:BROKER,OTHER, instead of planned ones; repeatable; `none`: no faults"
)
WITHOUT_HELP: Final = "leave out the clients with this name; repeatable"
MAX_SHRUNK: Final = 3
"""Maximum number of broken runs that are shrunk: several often have the same cause."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code: 1 if a promise was broken, otherwise 0. Without PYTHONHASHSEED=0,
    replace this process by one that runs the same command with that variable.
    """
    if os.environ.get("PYTHONHASHSEED") != "0":
        # the order of sets of strings depends on the seed
        os.execve(
            sys.executable,
            [sys.executable, "-m", "ottla.simulation", *(sys.argv[1:] if arguments is None else arguments)],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    options = _parser().parse_args(arguments)
    system.load_modules()
    run(WARM_UP)
    first = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    plans, coverage = _plans(first, options), Coverage(options.coverage)
    if options.coverage is not None:
        plans = map(coverage.next_plan, plans)
    results = Report(options.json, options.timelines)
    broken: list[tuple[Plan, RunOutcome]] = []
    for plan, outcome in with_plans(plans, options.jobs):
        results.add(outcome, coverage.add(plan, outcome.met, outcome.faults))
        if outcome.violations and plan.faults is not None:
            print(f"    again      {shlex.join(plan.arguments)}", file=sys.stderr, flush=True)
        if outcome.violations and options.shrink:
            broken.append((plan, outcome))
    for plan, outcome in broken[:MAX_SHRUNK]:
        print_story(plan, outcome, options.jobs, options.shrink)
    coverage.write()
    return results.end(coverage)


def print_story(
    plan: Plan, outcome: RunOutcome, jobs: int, seconds: float, prepare: Callable[[], object] = lambda: None
) -> None:
    """Shrink a broken run for about `seconds`, and print its story; the progress goes to stderr.

    `prepare` is called in each child process, as in `in_children`.
    """

    def run_all(plans: Iterator[Plan]) -> Iterator[tuple[Plan, RunOutcome]]:
        return with_plans(plans, jobs, prepare)

    def progress(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    print(*report(shrunk(plan, outcome, run_all, seconds, progress)), sep="\n", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ottla.simulation", description=__doc__, allow_abbrev=False)
    parser.add_argument("--seed", type=int, help="the (first) seed; random by default")
    parser.add_argument("--runs", type=int, default=1, help="number of runs, with consecutive seeds")
    parser.add_argument(
        "--minutes", type=float, help="run consecutive seeds for this number of minutes, regardless of --runs"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=120,
        help="virtual time in seconds, approximately, within which the faults of a run begin",
    )
    parser.add_argument(
        "--fault", action="append", choices=sorted(ALL_KINDS), default=[], help="only faults of this kind; repeatable"
    )
    parser.add_argument(
        "--workload",
        action="append",
        choices=WORKLOADS,
        default=[],
        help="add this workload instead of two that the seed chooses; repeatable",
    )
    parser.add_argument(
        "--store",
        choices=(ZOOKEEPER, SQLITE),
        help="the metadata store; by default SQLite for every fourth seed, ZooKeeper for the others",
    )
    parser.add_argument("--shrink", type=float, nargs="?", const=300, default=0, metavar="SECONDS", help=SHRINK_HELP)
    parser.add_argument("--inject", action="append", type=_fault, metavar="FAULT", help=INJECT_HELP)
    parser.add_argument("--without", action="append", choices=(*BASE, *WORKLOADS), default=[], help=WITHOUT_HELP)
    parser.add_argument("--lasts", type=float, default=0.0, help="minimum virtual time of load, in seconds")
    parser.add_argument("--variation", type=int, default=0, help="select another order of events for the seed")
    parser.add_argument("--tiered", action="store_true", help="keep old segments in an object store, which may fail")
    parser.add_argument("--stop-early", action="store_true", help="end each run at its first violation")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="number of runs in parallel (default: one per CPU)"
    )
    parser.add_argument("--timelines", type=Path, help="directory for the timelines of broken runs")
    parser.add_argument("--coverage", type=Path, metavar="FILE", help=COVERAGE_HELP)
    parser.add_argument("--json", action="store_true", help="print one line of JSON per run")
    return parser


def _fault(text: str) -> Fault | None:
    """Parse the value of `--inject`; None for `none`. Raises ValueError if it is malformed."""
    return None if text == "none" else Fault.parse(text)


def _plans(first: int, options: argparse.Namespace) -> Iterator[Plan]:
    ends = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    seed = first
    while (seed < first + options.runs) if ends is None else (time.monotonic() < ends):
        yield Plan(
            seed,
            options.seconds,
            tuple(options.fault),
            None if options.inject is None else tuple(fault for fault in options.inject if fault is not None),
            options.lasts,
            tuple(options.without),
            options.variation,
            tuple(options.workload),
            options.stop_early,
            options.store or (SQLITE if seed % SQLITE_EVERY == SQLITE_EVERY - 1 else ZOOKEEPER),
            options.tiered,
        )
        seed += 1


LEFT_OUT: Final = ("timeline", "faults", "logs", "met", "clients", "began")
"""Fields of a RunOutcome that `--json` leaves out."""
OF_MANY: Final = ("faults: ", "error: ")
"""Prefixes of coverage items that are left out of the printed list of items never covered: there are too many."""


class Report:
    """Prints the results of runs as text or JSON lines, and can write the timelines of broken runs to files."""

    def __init__(self, as_json: bool, timelines: Path | None) -> None:
        self._json = as_json
        self._timelines = timelines
        self._began = time.monotonic()
        self._outcomes: list[RunOutcome] = []

    def add(self, outcome: RunOutcome, new: Sequence[str]) -> None:
        """Add the result of a run, and print it; as text, only if the run is broken or the first one. `new`: the
        coverage items that the run is the first to cover.
        """
        broken = bool(outcome.violations)
        if self._json:
            print(json.dumps({**self._row(outcome), "new": new}), flush=True)
        elif broken or len(self._outcomes) < 1:
            self._print_story(outcome)
        if broken and self._timelines is not None:
            self._timelines.mkdir(parents=True, exist_ok=True)
            (self._timelines / f"{outcome.seed}.txt").write_text("\n".join(outcome.timeline) + "\n")
        # without its timeline, because thousands of runs are stored
        self._outcomes.append(outcome._replace(timeline=[], met=frozenset()))

    @staticmethod
    def _row(outcome: RunOutcome) -> dict[str, Any]:
        return {name: value for name, value in outcome._asdict().items() if name not in LEFT_OUT}

    @staticmethod
    def _print_story(outcome: RunOutcome) -> None:
        print(
            f"seed {outcome.seed}: {'BROKEN' if outcome.violations else 'ok'}, trace {outcome.trace_hash}, "
            f"{outcome.virtual_seconds:.0f} s of virtual time in {outcome.cpu_seconds:.2f} s of CPU, "
            f"{len(outcome.faults)} faults, {outcome.messages} messages, {outcome.acked} records acknowledged",
            flush=True,
        )
        if outcome.violations:
            print(*(f"    fault      {fault}" for fault in outcome.faults), sep="\n")
            print(*(f"    violation  {violation}" for violation in outcome.violations), sep="\n", flush=True)

    def end(self, coverage: Coverage) -> int:
        """Print the totals of all runs, unless the output is JSON, and return 1 if a run was broken, otherwise 0."""
        broken = [outcome.seed for outcome in self._outcomes if outcome.violations]
        virtual = sum(outcome.virtual_seconds for outcome in self._outcomes)
        cpu = sum(outcome.cpu_seconds for outcome in self._outcomes)
        if not self._json:
            print(
                f"{len(self._outcomes)} runs in {time.monotonic() - self._began:.0f} s: {virtual / 60:.0f} minutes of "
                f"a cluster in {cpu / 60:.1f} minutes of CPU ({virtual / max(cpu, 1e-9):.0f} per minute), "
                f"{len(broken)} broken" + (f": seeds {', '.join(map(str, broken))}" if broken else "")
            )
            never = coverage.never_met()
            if len(self._outcomes) > 1:
                print(f"{len(coverage.met)} transitions, errors and pairs of faults were covered, {len(never)} never")
                print(f"never: {', '.join(item for item in never if not item.startswith(OF_MANY))}")
        return int(bool(broken))
