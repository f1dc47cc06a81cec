"""The watchdog ends runs that hang, with an error that names the code."""

from __future__ import annotations

import asyncio
import time

import pytest

from ottla.simulation.event_loop import SimulatedLoop, StuckError
from ottla.simulation.reporting.children import with_plans
from ottla.simulation.runner import Plan
from ottla.simulation.watchdog import watched


@pytest.mark.parametrize("handled", [Exception, BaseException])
def test_callback_that_never_returns_fails_the_run_even_if_it_catches_the_error(
    handled: type[BaseException],
) -> None:
    loop, interruptions, tasks = SimulatedLoop(), list[BaseException](), list[asyncio.Task[None]]()

    async def polls_without_waiting() -> None:
        try:
            while True:
                pass
        except handled as error:
            interruptions.append(error)

    async def main() -> None:
        await asyncio.sleep(1)
        tasks.append(loop.create_task(polls_without_waiting()))
        await asyncio.sleep(1e9)

    with watched(loop, 0.01), pytest.raises(StuckError, match=r"at 1\.\d+ s: polls_without_waiting \(.*py:\d+\) < "):
        loop.run_until_complete(main())
    assert loop.time() < 2
    assert isinstance(tasks[0].exception(), StuckError) == (handled is Exception)
    assert len(interruptions) == (handled is BaseException)
    loop.close()


def test_child_that_hangs_outside_of_the_loop_is_killed_and_reported(capfd: pytest.CaptureFixture[str]) -> None:
    plans = iter([Plan(5), Plan(6)])
    results = list(with_plans(plans, 2, prepare=lambda: time.sleep(60), max_seconds=0.1))
    assert sorted((plan.seed, outcome.seed) for plan, outcome in results) == [(5, 5), (6, 6)]
    assert all("the run ends: the child ended with -10" in outcome.violations[0] for _, outcome in results)
    assert "test_watchdog.py" in capfd.readouterr().err
