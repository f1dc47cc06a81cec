"""Clocks: manual, system and shifted."""

from __future__ import annotations

import asyncio

import pytest

from ottla.clock import SYSTEM_CLOCK, ManualClock, ShiftedClock


def test_manual_clock_stands_still_until_it_is_advanced() -> None:
    clock = ManualClock(now_ms=1000)
    assert (clock.now_ms(), clock.monotonic()) == (1000, 0.0)
    clock.advance(1500)
    assert (clock.now_ms(), clock.monotonic()) == (2500, 1.5)


def test_manual_clock_cannot_be_moved_back() -> None:
    with pytest.raises(ValueError, match="cannot move a clock back"):
        ManualClock().advance(-1)


def test_system_clock_advances() -> None:
    before = SYSTEM_CLOCK.monotonic()
    assert SYSTEM_CLOCK.monotonic() >= before
    assert SYSTEM_CLOCK.now_ms() > 1_700_000_000_000


def test_clock_wait_ends_at_the_time_or_with_the_event() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        event = asyncio.Event()
        waiting = asyncio.ensure_future(clock.wait(event, 5.0))
        await asyncio.sleep(0)
        assert clock.waited_for == [5.0]
        clock.advance(4999)
        await asyncio.sleep(0)
        assert not waiting.done()
        clock.advance(1)
        await asyncio.wait_for(waiting, 10)
        await asyncio.wait_for(clock.wait(event, 5.0), 10)  # that time has passed
        for each_clock in (clock, SYSTEM_CLOCK):
            waiting = asyncio.ensure_future(each_clock.wait(event, each_clock.monotonic() + 1000))
            await asyncio.sleep(0)
            event.set()
            await asyncio.wait_for(waiting, 10)
            event.clear()
        await asyncio.wait_for(SYSTEM_CLOCK.wait(event, SYSTEM_CLOCK.monotonic() + 0.01), 10)

    asyncio.run(scenario())


def test_shifted_clock_is_ahead_of_the_system_clock_by_its_advances() -> None:
    clock = ShiftedClock()
    clock.advance(60)
    clock.advance(0.5)
    assert 60_500 <= clock.now_ms() - SYSTEM_CLOCK.now_ms() < 70_000
    assert 60.5 <= clock.monotonic() - SYSTEM_CLOCK.monotonic() + 1e-3 < 70
    with pytest.raises(ValueError, match="cannot move a clock back by 1 s"):
        clock.advance(-1)
