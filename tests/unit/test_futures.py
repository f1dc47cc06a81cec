"""Waiting for a future that must not be cancelled with its caller."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from ottla.errors import KafkaError
from ottla.futures import shielded


async def fail(event: asyncio.Event) -> None:
    await event.wait()
    raise KafkaError("late")


def test_shielded_work_continues_after_cancellation_of_its_caller() -> None:
    reported: list[dict[str, Any]] = []

    async def test() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        event = asyncio.Event()
        work = loop.create_task(fail(event))
        callers = [loop.create_task(shielded(work)) for _ in range(2)]
        await asyncio.sleep(0)
        callers[0].cancel()
        await asyncio.wait(callers[:1])
        assert not work.done()
        event.set()
        with pytest.raises(KafkaError, match="late"):
            await callers[1]
        with pytest.raises(KafkaError, match="late"):
            await shielded(work)
        only_caller = loop.create_task(shielded(fail(event)))
        event.clear()
        await asyncio.sleep(0)
        only_caller.cancel()
        event.set()
        await asyncio.sleep(0.01)

    asyncio.run(test())
    gc.collect()
    assert reported == []
