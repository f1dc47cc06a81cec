"""The event loop on virtual time."""

from __future__ import annotations

import pytest

from ottla.simulation import event_loop
from ottla.simulation.event_loop import MAX_CANCELLED, SimulatedLoop, StuckError


def test_timers_of_one_moment_run_in_the_order_in_which_they_were_set() -> None:
    loop, seen = SimulatedLoop(), list[int]()
    for number in range(5):
        loop.call_at(1.0, seen.append, number)
    loop.call_at(0.5, seen.append, -1)
    loop.call_at(1.0, loop.stop)
    loop.run_forever()
    assert seen == [-1, 0, 1, 2, 3, 4]
    assert 1.0 < loop.time() < 1.1
    loop.close()


def test_cancelled_timers_do_not_run_and_are_dropped() -> None:
    loop, seen = SimulatedLoop(), list[str]()
    timers = [loop.call_later(10, seen.append, "cancelled") for _ in range(2 * MAX_CANCELLED)]
    loop.call_later(20, loop.stop)
    for timer in timers:
        timer.cancel()
    loop.call_soon(lambda: None)
    loop.call_later(1, seen.append, "ran")
    loop.run_forever()
    assert seen == ["ran"]
    assert not loop._timers
    loop.close()


def test_a_run_with_too_many_rounds_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "MAX_ROUNDS", 1000)
    monkeypatch.setattr(event_loop, "MAX_ROUNDS_PER_SECOND", 10)
    loop = SimulatedLoop()

    def again() -> None:
        loop.call_later(0.01, again)

    again()
    with pytest.raises(StuckError, match="hardly"):
        loop.run_forever()
    loop.close()
