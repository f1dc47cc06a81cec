from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.client.core.io_thread import IoThread
from ottla.errors import KafkaTimeoutError


def test_what_was_cancelled_may_clean_up_before_the_thread_ends() -> None:
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


def test_what_does_not_end_when_it_is_cancelled_is_cancelled_again() -> None:
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
