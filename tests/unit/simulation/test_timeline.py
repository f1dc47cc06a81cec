"""The timeline of a simulation run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.simulation import world
from ottla.simulation.event_loop import SimulatedLoop
from ottla.simulation.world import Timeline


def test_full_timeline_still_takes_violations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(world, "MAX_EVENTS", 1)
    timeline = Timeline(SimulatedLoop(), tmp_path)
    timeline.note("broker-0", "INFO first")
    timeline.note("broker-0", "INFO second")
    timeline.note("checker", "VIOLATION no acked record is lost", is_violation=True)
    assert [line.split(maxsplit=2)[2] for line in timeline.lines] == ["INFO first", "VIOLATION no acked record is lost"]
