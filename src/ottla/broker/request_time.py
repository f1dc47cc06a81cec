"""Measurement of the time that a request keeps the broker busy: on the event loop, in tasks that it starts, and in
workers.

A request may wait most of the time; only running time counts against `request_percentage`. The request's `RequestTime`
is a context variable, which tasks (by `task_factory`) and calls in workers (by `MeteredWorkers`) inherit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class RequestTime:
    """A stopwatch for one request."""

    __slots__ = ("_seconds", "_since")

    def __init__(self, since: float) -> None:
        """`since`: when the event loop began to process the request. The stopwatch is running from then on."""
        self._seconds = 0.0
        self._since: float | None = since

    def resume(self) -> None:
        """Continue the measurement: the request runs on the event loop again."""
        self._since = time.perf_counter()

    def pause(self) -> None:
        """Pause the measurement while the request waits."""
        if self._since is not None:
            self._seconds += time.perf_counter() - self._since
            self._since = None

    def add(self, seconds: float) -> None:
        """Add the time of a call in a worker."""
        self._seconds += seconds

    @property
    def seconds(self) -> float:
        return self._seconds + (0.0 if self._since is None else time.perf_counter() - self._since)


CURRENT: ContextVar[RequestTime | None] = ContextVar("request_time", default=None)
"""The stopwatch to which the time of the current task is added; None if there is none."""


class Timed(Generic[T]):
    """An awaitable that measures the time of its steps on the event loop."""

    __slots__ = ("_awaitable", "_spent")

    def __init__(self, awaitable: Awaitable[T], spent: RequestTime) -> None:
        self._awaitable = awaitable
        self._spent = spent

    def __await__(self) -> Generator[Any, Any, T]:
        steps: Any = self._awaitable.__await__()
        step, value = steps.send, None
        while True:
            self._spent.resume()
            try:
                waited_for = step(value)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self._spent.pause()
            try:
                step, value = steps.send, (yield waited_for)
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                step, value = steps.throw, error


async def timed(awaitable: Awaitable[T], spent: RequestTime) -> T:
    """Await `awaitable`, and add the time of its steps to `spent`, including the steps of tasks that it starts."""
    CURRENT.set(spent)
    return await Timed(awaitable, spent)


def task_factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """Create a task; the time of its steps counts for the request that creates it."""
    spent = CURRENT.get()
    return asyncio.Task(coro if spent is None else timed(coro, spent), loop=loop, **options)


class MeteredWorkers(ThreadPoolExecutor):
    """A thread pool that counts the time of each call for the request that submits it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        spent = CURRENT.get()
        if spent is None:
            return super().submit(fn, *args, **kwargs)

        def run() -> T:
            began = time.perf_counter()
            try:
                return fn(*args, **kwargs)
            finally:
                spent.add(time.perf_counter() - began)

        return super().submit(run)
