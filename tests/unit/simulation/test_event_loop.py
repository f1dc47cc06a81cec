"""The event loop on virtual time."""

from __future__ import annotations

import asyncio

import pytest

from ottla.simulation import event_loop
from ottla.simulation.event_loop import MAX_CANCELLED, SimulatedLoop, StuckError, gather


def test_timers_of_the_same_time_run_in_the_order_of_scheduling() -> None:
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


def test_run_with_too_many_iterations_raises_stuck_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "MAX_ROUNDS", 1000)
    monkeypatch.setattr(event_loop, "MAX_ROUNDS_PER_SECOND", 10)
    loop = SimulatedLoop()

    def reschedule() -> None:
        loop.call_later(0.01, reschedule)

    reschedule()
    with pytest.raises(StuckError, match="hardly"):
        loop.run_forever()
    loop.close()


def test_gather_completes_in_the_same_iteration_in_every_python_version() -> None:
    loop, seen = SimulatedLoop(), list[str]()

    async def main() -> None:
        done = loop.create_future()
        done.set_result(1)
        loop.call_soon(seen.append, "next iteration")
        seen.append(f"gathered {await gather(done, done, asyncio.sleep(1, 2))}")
        loop.call_soon(seen.append, "after the callbacks of a done future")
        seen.append(f"gathered {await gather(done)}")
        failed = loop.create_future()
        failed.set_exception(OSError("full"))
        with pytest.raises(OSError, match="full"):
            await gather(failed, loop.create_future())
        seen.append(str(await gather(failed, done, return_exceptions=True)))
        assert await gather() == []
        pending = gather(asyncio.sleep(9), return_exceptions=True)
        loop.call_soon(pending.cancel)
        with pytest.raises(asyncio.CancelledError):
            await pending

    loop.run_until_complete(main())
    assert seen == [
        "next iteration",
        "gathered [1, 1, 2]",
        "after the callbacks of a done future",
        "gathered [1]",
        "[OSError('full'), 1]",
    ]
    loop.close()
