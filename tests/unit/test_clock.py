"""The clock that tests move by hand."""

from __future__ import annotations

import pytest

from ottla.clock import SYSTEM_CLOCK, ManualClock


def test_a_manual_clock_stands_still_until_it_is_advanced() -> None:
    clock = ManualClock(now_ms=1000)
    assert (clock.now_ms(), clock.monotonic()) == (1000, 0.0)
    clock.advance(1500)
    assert (clock.now_ms(), clock.monotonic()) == (2500, 1.5)


def test_a_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        ManualClock().advance(-1)


def test_the_system_clock_goes_on() -> None:
    before = SYSTEM_CLOCK.monotonic()
    assert SYSTEM_CLOCK.monotonic() >= before
    assert SYSTEM_CLOCK.now_ms() > 1_700_000_000_000
