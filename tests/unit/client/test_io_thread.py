"""The I/O thread of the synchronous API: cancellation and stopping."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from ottla.client.core.io_thread import IoThread
from ottla.errors import IllegalStateError, KafkaTimeoutError


def test_cancelled_coroutine_cleans_up_before_the_thread_stops() -> None:
    io = IoThread("test")
    io.start()
    steps: list[str] = []
    begun = threading.Event()

    async def close_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            begun.set()
            for step in ("commits", "fetches", "connections"):
                await asyncio.sleep(0.02)
                steps.append(step)

    with pytest.raises(KafkaTimeoutError):
        io.run(close_slowly(), 0.01)
    assert begun.wait(10)
    io.stop()
    assert steps == ["commits", "fetches", "connections"]


def test_coroutine_that_ignores_cancellation_is_cancelled_again() -> None:
    io = IoThread("test")
    io.start()

    async def stay() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    with pytest.raises(KafkaTimeoutError):
        io.run(stay(), 0.01)
    io.stop()
    assert io.loop.is_closed()


def test_pending_calls_fail_when_another_thread_stops_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing() -> None:
        pass

    for _ in range(5):
        io = IoThread("test")
        check: Callable[[], None] = io.check

        def check_slowly(check: Callable[[], None] = check) -> None:
            check()
            time.sleep(0.002)  # the other threads run between the check and what follows it

        monkeypatch.setattr(io, "check", check_slowly)
        io.start()
        ends: list[type[Exception]] = []
        calls = [threading.Thread(target=run_until_stopped, args=(io, ends), daemon=True) for _ in range(2)]
        for call in calls:
            call.start()
        io.run(nothing())
        io.stop()
        for call in calls:
            call.join(10)
        assert ends == [IllegalStateError] * 2, "a call waits for a loop that has ended, or raised another error"


def run_until_stopped(io: IoThread, ends: list[type[Exception]]) -> None:
    async def nothing() -> None:
        pass

    try:
        while True:
            io.run(nothing())
    except Exception as error:
        ends.append(type(error))


def test_signal_handler_may_stop_the_thread_during_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    io = IoThread("test")
    io.start()
    check: Callable[[], None] = io.check

    def check_and_stop() -> None:
        check()
        io.stop()

    async def nothing() -> None:
        pass

    monkeypatch.setattr(io, "check", check_and_stop)
    with pytest.raises(IllegalStateError, match="closed"):
        io.run(nothing())
