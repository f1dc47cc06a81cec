"""An event loop whose time stands still while there is work, and jumps to the next timer when there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
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


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main)
