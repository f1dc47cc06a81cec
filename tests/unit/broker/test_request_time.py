from __future__ import annotations

import asyncio
import time

import pytest

from ottla.broker.request_time import CURRENT, MeteredWorkers, RequestTime, task_factory, timed

BUSY = 0.03


def work(seconds: float = BUSY) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def spent_by(coroutine: object) -> float:
    spent = RequestTime(time.perf_counter())
    spent.pause()

    async def run() -> None:
        asyncio.get_running_loop().set_task_factory(task_factory)
        await asyncio.create_task(timed(coroutine, spent))  # type: ignore[arg-type]

    asyncio.run(run())
    return spent.seconds


def test_request_time_includes_steps_after_waiting_but_not_the_waiting() -> None:
    async def handler() -> None:
        work()
        await asyncio.sleep(0.3)
        work()

    assert 2 * BUSY <= spent_by(handler()) < 0.25


def test_request_time_includes_tasks_of_the_request() -> None:
    async def part() -> None:
        await asyncio.sleep(0)
        work()

    async def handler() -> None:
        await asyncio.gather(part(), part())

    assert spent_by(handler()) >= 2 * BUSY


def test_request_time_includes_workers() -> None:
    async def handler() -> None:
        with MeteredWorkers(1) as workers:
            await asyncio.get_running_loop().run_in_executor(workers, work)

    assert spent_by(handler()) >= BUSY


def test_errors_and_cancellation_pass_through() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("as it was")

    with pytest.raises(ValueError, match="as it was"):
        spent_by(fails())

    async def run() -> list[str]:
        seen = []

        async def handler() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        task = asyncio.create_task(timed(handler(), RequestTime(0.0)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return seen

    assert asyncio.run(run()) == ["cancelled"]


def test_task_outside_of_a_request_has_no_request_time() -> None:
    async def run() -> RequestTime | None:
        asyncio.get_running_loop().set_task_factory(task_factory)
        return await asyncio.create_task(current())

    async def current() -> RequestTime | None:
        return CURRENT.get()

    assert asyncio.run(run()) is None
