"""Runs of the simulation: a seed repeats, and seeds that show bugs that were fixed are whole without them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.simulation.mutations import SECONDS
from tests.simulation.planted.patching import NEEDS

SIMULATION = "ottla.simulation"
MUTATIONS = "tests.simulation.mutations"


def run(module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def runs(*arguments: object) -> list[dict[str, Any]]:
    """Return the results of a command, one per seed."""
    done = run(SIMULATION, "--json", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_seed_gives_the_same_run_twice() -> None:
    once, again = (sorted((row["seed"], row["trace_hash"]) for row in runs("--seed", 40, "--runs", 4)) for _ in "ab")
    assert once == again
    assert len({trace for _, trace in once}) == 4


@pytest.mark.parametrize(
    ("bug", "seed"),
    [
        ("snapshots_have_the_last_batch_only", 9000),
        ("followers_reject_a_batch_that_begins_before_the_log_start", 9002),
    ],
)
def test_bug_that_was_fixed_is_detected_by_a_seed_that_is_whole_without_it(bug: str, seed: int) -> None:
    planted = run(MUTATIONS, bug, "--seed", seed, "--runs", 1, "--jobs", 1)
    assert planted.returncode == 0, planted.stdout + planted.stderr
    needs = NEEDS[bug]
    faults = [argument for fault in needs.faults for argument in ("--fault", fault)]
    workloads = [argument for workload in needs.workloads for argument in ("--workload", workload)]
    (row,) = runs("--seed", seed, "--seconds", SECONDS, *faults, *workloads)
    assert row["violations"] == []
    assert row["acked"] > 100
