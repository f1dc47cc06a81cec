"""An event loop whose time stands still while there is work, and jumps to the next timer when there is none."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from random import Random
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """Waits for hours in no time, the same in each run."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual = 0.0

    def time(self) -> float:
        return self._virtual

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._virtual = max(self._virtual, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class LoopClock:
    """The loop's time as a broker's clock, for any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def monotonic(self) -> float:
        return self._loop.time()

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.monotonic() * 1000)

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        try:
            async with asyncio.timeout_at(until):
                await event.wait()
        except TimeoutError:
            pass


class Inline(Executor):
    """Workers that complete at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class VirtualDisk(Executor):
    """The thread of a disk whose writes take up to a second of virtual time, one after the other."""

    def __init__(self, random: Random) -> None:
        self._loop = asyncio.get_running_loop()
        self._random = random
        self._jobs: deque[tuple[VirtualWrite, Callable[[], Any]]] = deque()
        self._skew = 0.0
        self.writes = 0

    def clock(self) -> float:
        """Return the time, in seconds; some writes on the event loop seem to take long."""
        if self._random.random() < 0.02:
            self._skew += 0.02
        return self._loop.time() + self._skew

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> VirtualWrite:
        write = VirtualWrite(self)
        self._jobs.append((write, lambda: fn(*args, **kwargs)))
        if len(self._jobs) == 1:
            self._loop.call_later(self._random.uniform(0, 1), self._run_next)
        return write

    def run_later(self, call: Callable[[], object], /) -> None:
        self.submit(call)

    def wait(self) -> None:
        while self._jobs:
            self.run_one()

    def _run_next(self) -> None:
        if self._jobs:
            self.run_one()
        if self._jobs:
            self._loop.call_later(self._random.uniform(0, 1), self._run_next)

    def run_one(self) -> None:
        write, job = self._jobs.popleft()
        self.writes += 1
        write.set_result(job())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """The process is killed: what is queued is lost."""
        self._jobs.clear()


class VirtualWrite(Future[Any]):
    """A queued write; waiting for it takes no time."""

    def __init__(self, disk: VirtualDisk) -> None:
        super().__init__()
        self._disk = disk

    def result(self, timeout: float | None = None) -> Any:
        while not self.done():
            self._disk.run_one()
        return super().result(timeout)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main)
