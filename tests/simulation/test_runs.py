"""Runs of the simulation: a seed repeats, and seeds of bugs that were fixed stay whole."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "ottla.simulation"]


def runs(*arguments: object) -> list[dict[str, Any]]:
    """Return the results of a command, one per seed."""
    done = subprocess.run([*COMMAND, "--json", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_seed_gives_the_same_run_twice() -> None:
    once, again = (sorted((row["seed"], row["trace_hash"]) for row in runs("--seed", 40, "--runs", 4)) for _ in "ab")
    assert once == again
    assert len({trace for _, trace in once}) == 4


@pytest.mark.parametrize(
    "seed",
    [
        1008,  # a leader lost its power with the controller, and led on without records that it had acknowledged
        5025,  # after a clean restart a leader knew only the last batch of a producer, which then wrote others twice
        2242,  # a loss of power undid a truncation, and not the leader epoch that it was for
    ],
)
def test_seeds_of_bugs_that_were_fixed(seed: int) -> None:
    (row,) = runs("--seed", seed, "--seconds", 120)
    assert row["violations"] == []
    assert row["acked"] > 100
