"""Coverage of simulation runs, and plans derived from it."""

from __future__ import annotations

import json
import random
from pathlib import Path

from ottla.simulation.checking.partition_states import WrittenState
from ottla.simulation.faults import KINDS, LOSING, Fault, plan
from ottla.simulation.reporting.coverage import Coverage, mutated
from ottla.simulation.reporting.recorder import Recorder, possible
from ottla.simulation.runner import Plan

KILL = Fault(10.0, 5.0, "kill", 1)
PAUSE = Fault(12.0, 1.0, "pause", 2)


def test_overlapping_faults_are_recorded_as_pairs() -> None:
    late = Fault(15.5, 1.0, "clock", 0)
    items = Recorder().result([late, PAUSE, KILL])
    assert items == {"faults: kill + pause"}


def test_partition_state_changes_are_recorded() -> None:
    recorder = Recorder()
    states = [WrittenState(1, 0, 0, (0, 1, 2)), WrittenState(1, 0, 1, (0, 1)), WrittenState(1, 1, 2, (0, 1, 2))]
    recorder.on_state(None, states[0])
    recorder.on_state(states[0], states[1])
    recorder.on_state(states[1], states[2])
    expected = {"isr shrinks to 2", "leader stays in a new epoch", "leader moves", "isr grows to 3"}
    assert recorder.result([]) == {f"partition: {change}" for change in expected}
    assert recorder.result([]) <= possible()


def test_coverage_item_is_new_only_once_and_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "coverage.json"
    coverage = Coverage(path)
    assert coverage.add(Plan(1), {"faults: kill + pause"}, [KILL, PAUSE]) == ["faults: kill + pause"]
    assert coverage.add(Plan(2), {"faults: kill + pause"}, [KILL, PAUSE]) == []
    coverage.write()
    content = json.loads(path.read_text())
    assert content["met"] == {"faults: kill + pause": 2}
    assert "transaction: Ongoing → PrepareCommit" in content["never met"]
    assert Coverage(path).add(Plan(3), {"faults: kill + pause"}, []) == []


def test_half_of_the_plans_are_mutations_of_plans_with_new_coverage() -> None:
    coverage = Coverage()
    assert coverage.next_plan(Plan(5)) == Plan(5)
    coverage.add(Plan(1), {"something"}, [KILL, PAUSE])
    plans = [coverage.next_plan(Plan(seed)) for seed in range(100)]
    mutated_plans = [plan for plan in plans if plan.faults is not None]
    assert 30 < len(mutated_plans) < 70
    assert all(plan.seed == 1 and {KILL, PAUSE} & {*(plan.faults or ())} for plan in mutated_plans)
    assert plans == [coverage.next_plan(Plan(seed)) for seed in range(100)], "a seed decides its plan"


def test_mutation_keeps_faults_with_data_loss_isolated() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        before = tuple(plan(rng, 300, 3))
        after = mutated(before, rng)
        losing = {fault for fault in before if fault.kind in LOSING}
        assert losing == {fault for fault in after if fault.kind in LOSING}
        for fault in set(after) - set(before):
            assert all(fault.at + fault.seconds < l.at or fault.at > l.at + l.seconds for l in losing)  # noqa: E741
            assert fault.kind in KINDS
