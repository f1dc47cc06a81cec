"""The command of the simulation: one seed with its story, or many side by side."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import selectors
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from ottla.simulation import system
from ottla.simulation.faults import KINDS
from ottla.simulation.runner import WORKLOADS, Plan, RunOutcome, run

WARM_UP: Final = Plan(seed=0, seconds=20.0)
"""A run before all others: codecs are compiled at their first use, which the others then need not do again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code: 1 if a promise was broken."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        # the order of sets of strings is a part of what a seed decides
        os.execve(
            sys.executable,
            [sys.executable, "-m", "ottla.simulation", *(sys.argv[1:] if arguments is None else arguments)],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    options = _parser().parse_args(arguments)
    system.load_modules()
    run(WARM_UP)
    first = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    plans = _plans(first, options)
    report = Report(options.json, options.timelines)
    for outcome in in_children(plans, options.jobs):
        report.add(outcome)
    return report.end()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ottla.simulation", description=__doc__, allow_abbrev=False)
    parser.add_argument("--seed", type=int, help="the (first) seed; random by default")
    parser.add_argument("--runs", type=int, default=1, help="number of seeds, from the first one upwards")
    parser.add_argument("--minutes", type=float, help="run seeds for this time instead of a number of them")
    parser.add_argument("--seconds", type=float, default=120, help="virtual seconds with faults and rests per run")
    parser.add_argument("--fault", action="append", choices=sorted(KINDS), default=[], help="only faults of this kind")
    parser.add_argument("--workload", action="append", choices=WORKLOADS, default=[], help="with this workload")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs side by side")
    parser.add_argument("--timelines", type=Path, help="directory for the timelines of failed runs")
    parser.add_argument("--json", action="store_true", help="one line of JSON per run")
    return parser


def _plans(first: int, options: argparse.Namespace) -> Iterator[Plan]:
    ends = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    seed = first
    while (seed < first + options.runs) if ends is None else (time.monotonic() < ends):
        yield Plan(seed, options.seconds, tuple(options.fault), workloads=tuple(options.workload))
        seed += 1


def in_children(plans: Iterator[Plan], jobs: int, prepare: Callable[[], object] = lambda: None) -> Iterator[RunOutcome]:
    """Run each plan in a child process of its own, which inherits what is compiled here. `prepare` is called there."""
    selector = selectors.DefaultSelector()
    running = 0
    while True:
        while running < jobs and (plan := next(plans, None)) is not None:
            selector.register(_fork(plan, prepare), selectors.EVENT_READ)
            running += 1
        if not running:
            return
        for key, _ in selector.select():
            pipe = cast(BinaryIO, key.fileobj)
            with pipe:
                selector.unregister(pipe)
                content = pipe.read()
            running -= 1
            os.wait()
            outcome: RunOutcome = pickle.loads(content)  # written by our own child
            yield outcome


def _fork(plan: Plan, prepare: Callable[[], object]) -> BinaryIO:
    """Start a child, and return the pipe that its outcome comes through."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        return os.fdopen(reading, "rb")
    try:
        prepare()
        outcome = run(plan)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(outcome, pipe)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


class Report:
    """Prints the results."""

    def __init__(self, as_json: bool, timelines: Path | None) -> None:
        self._json = as_json
        self._timelines = timelines
        self._began = time.monotonic()
        self._outcomes: list[RunOutcome] = []

    def add(self, outcome: RunOutcome) -> None:
        """Print the result of a run."""
        broken = bool(outcome.violations)
        if self._json:
            print(json.dumps(self._row(outcome)), flush=True)
        elif broken or len(self._outcomes) < 1:
            self._print_story(outcome)
        if broken and self._timelines is not None:
            self._timelines.mkdir(parents=True, exist_ok=True)
            (self._timelines / f"{outcome.seed}.txt").write_text("\n".join(outcome.timeline) + "\n")
        # without its timeline: thousands of runs are counted
        self._outcomes.append(outcome._replace(timeline=[]))

    @staticmethod
    def _row(outcome: RunOutcome) -> dict[str, Any]:
        return {name: value for name, value in outcome._asdict().items() if name not in ("timeline", "faults")}

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

    def end(self) -> int:
        """Print the sum of all runs, and return the exit code."""
        broken = [outcome.seed for outcome in self._outcomes if outcome.violations]
        virtual = sum(outcome.virtual_seconds for outcome in self._outcomes)
        cpu = sum(outcome.cpu_seconds for outcome in self._outcomes)
        if not self._json:
            print(
                f"{len(self._outcomes)} runs in {time.monotonic() - self._began:.0f} s: {virtual / 60:.0f} minutes of "
                f"a cluster in {cpu / 60:.1f} minutes of CPU ({virtual / max(cpu, 1e-9):.0f} per minute), "
                f"{len(broken)} broken" + (f": seeds {', '.join(map(str, broken))}" if broken else "")
            )
        return int(bool(broken))
