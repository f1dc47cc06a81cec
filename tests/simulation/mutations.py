"""Planted bugs: which seed detects each, by which checker, and how long that takes."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from typing import Final, NamedTuple

from tests.simulation.planted import connections, controllers, groups, replication, storage, store, transactions
from tests.simulation.planted.patching import NEEDS, Bug, Needs

from ottla.simulation import system
from ottla.simulation.command import WARM_UP, print_story
from ottla.simulation.reporting.children import with_plans
from ottla.simulation.runner import Plan, RunOutcome, run

SECONDS: Final = 120.0
"""Virtual time of each run in which faults are injected."""


MUTATIONS: dict[str, Bug] = {
    bug.__name__: bug
    for module in (controllers, replication, storage, transactions, groups, connections, store)
    for bug in module.BUGS
}


class Detection(NamedTuple):
    """How a planted bug was detected."""

    mutation: str
    seed: int | None
    """The first seed that has detected it, or None."""
    cpu_seconds: float
    violation: str


def detect(name: str, first: int, runs: int, jobs: int, shrink_seconds: float = 0) -> Detection:
    """Run seeds until one violates a promise; shrink that run if `shrink_seconds` is set."""
    cpu = 0.0
    chosen = NEEDS.get(name, Needs())
    plans = (
        Plan(seed, SECONDS, chosen.faults, workloads=chosen.workloads, store=chosen.store, stops_early=True)
        for seed in range(first, first + runs)
    )
    broken: tuple[Plan, RunOutcome] | None = None
    while broken is None and (batch := list(itertools.islice(plans, jobs))):
        for plan, outcome in with_plans(iter(batch), jobs, MUTATIONS[name]):
            cpu += outcome.cpu_seconds
            if outcome.violations:
                broken = plan, outcome
    if broken is None:
        return Detection(name, None, cpu, "")
    if shrink_seconds:
        print_story(*broken, jobs, shrink_seconds, MUTATIONS[name])
    return Detection(name, broken[1].seed, cpu, broken[1].violations[0])


def main() -> int:
    """Print a row per planted bug; exit with 1 if one was not detected."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations", description=__doc__)
    parser.add_argument("mutation", nargs="*", metavar="BUG", help="these only; all by default")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=100, help="maximum number of seeds per planted bug")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--shrink", type=float, default=0, metavar="SECONDS", help="shrink what is detected, for this time"
    )
    options = parser.parse_args()
    system.load_modules()
    run(WARM_UP)
    missed = 0
    print("| bug | seed | checker | CPU seconds |\n|---|---|---|---|", flush=True)
    for name in options.mutation or MUTATIONS:
        row = detect(name, options.seed, options.runs, options.jobs, options.shrink)
        missed += row.seed is None
        promise = row.violation.partition(": ")[0]
        print(f"| {name.replace('_', ' ')} | {row.seed} | {promise} | {row.cpu_seconds:.1f} |", flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"}
        )
    sys.exit(main())
