"""The monitor of the event loop: stalls are counted and logged."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla.broker import event_loop_monitor
from ottla.broker.event_loop_monitor import EventLoopMonitor

THRESHOLD = 0.1


async def until_counted(monitor: EventLoopMonitor, stalls: int) -> None:
    async with asyncio.timeout(20):
        while monitor.stalls < stalls:
            await asyncio.sleep(0.001)


def hold_up(seconds: float) -> None:
    time.sleep(seconds)


def test_stall_is_counted_and_logged_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        with EventLoopMonitor(THRESHOLD) as monitor:
            await asyncio.sleep(0.01)
            hold_up(4 * THRESHOLD)
            await until_counted(monitor, 1)
            assert 2 * THRESHOLD < monitor.longest_stall_seconds <= monitor.stalled_seconds

    asyncio.run(test())
    assert "hold_up" in caplog.text
    assert "test_event_loop_monitor.py" in caplog.text


def test_stall_that_lasts_is_logged_while_it_lasts(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        with EventLoopMonitor(THRESHOLD):
            await asyncio.sleep(0.01)
            hold_up(1.5)
            messages.extend(record.getMessage() for record in caplog.records)

    messages: list[str] = []
    monkeypatch.setattr(event_loop_monitor, "FIRST_REPORT_SECONDS", 0.5)
    asyncio.run(test())
    assert [message.partition(" for ")[0] for message in messages] == ["The event loop has been blocked"]
    assert "hold_up" in messages[0]


def test_suspended_process_is_counted_as_a_stall_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    stopped = [0.0]

    async def test() -> None:
        with EventLoopMonitor(10.0, lambda: time.monotonic() + stopped[0]) as monitor:
            await asyncio.sleep(0.01)
            stopped[0] = 3600.0
            await until_counted(monitor, 1)
            assert 3590 < monitor.longest_stall_seconds < 3610
            await asyncio.sleep(0.1)
            assert monitor.stalls == 1

    asyncio.run(test())
    assert "The process did not run for 36" in caplog.text


def test_responsive_event_loop_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        with EventLoopMonitor(10.0) as monitor:
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert monitor.stalls == 0

    asyncio.run(test())
    assert not caplog.records


def test_thread_ends_with_the_monitor() -> None:
    async def test() -> None:
        with EventLoopMonitor(THRESHOLD) as monitor:
            thread = monitor._thread
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()

    asyncio.run(test())


@pytest.mark.parametrize(("threshold", "expected"), [(250, 1), (0, 0)])
def test_broker_monitors_its_event_loop_unless_the_config_is_0(tmp_path: Path, threshold: int, expected: int) -> None:
    async def test(client: BrokerClient) -> None:
        started = [thread for thread in threading.enumerate() if thread not in earlier]
        assert [thread.name for thread in started].count("ottla-event-loop-monitor") == expected

    earlier = threading.enumerate()  # a fixture of a module may have a broker, too
    with_broker(test, tmp_path, ottla_event_loop_stall_ms=threshold)
