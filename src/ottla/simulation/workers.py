"""An executor without threads: its work runs on the event loop after a delay in virtual time, or at once if a caller
waits for it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final

from ottla.simulation.event_loop import SimulatedLoop
from ottla.simulation.process import PROCESS, Process, ProcessState

TYPICAL_SECONDS: Final = 0.002


class SimulatedExecutor(Executor):
    """Behaves like a pool of one thread: it runs one work item after the other on the event loop, each after a delay
    unless a caller waits for it.
    """

    loop: SimulatedLoop
    rng: random.Random
    slow: dict[str, float] = {}
    """Seconds that the slow disk of a host adds to each work item, by the host's address."""

    def __init__(self, max_workers: int | None = None, *arguments: Any, **options: Any) -> None:
        self._queue: deque[SimulatedWork] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        work = SimulatedWork(self, lambda: fn(*args, **kwargs))
        self._queue.append(work)
        if len(self._queue) == 1:
            self._schedule()
        return work

    def run_later(self, call: Callable[[], object], /) -> None:
        """Queue a call, like `run_later` of `storage.append_writer.WriterThread`, for which this class stands in."""
        self.submit(call)

    def wait(self) -> None:
        """Run all queued items immediately. Stands in for `wait` of `storage.append_writer.WriterThread`."""
        while self._queue:
            self._queue.popleft().run()

    def _schedule(self) -> None:
        process: Process | None = PROCESS.get()
        delay = self.rng.expovariate(1 / TYPICAL_SECONDS)
        if process is not None:
            delay += self.slow.get(process.host, 0.0)
        self.loop.call_later(delay, self._run_next)

    def _run_next(self) -> None:
        if self._queue:
            self._queue.popleft().run()
        if self._queue:
            self._schedule()

    def run_until(self, work: SimulatedWork) -> None:
        """Run the queued items up to and including `work` immediately, because a caller waits for its result."""
        while self._queue and not work.done():
            self._queue.popleft().run()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        process = PROCESS.get()
        while wait and self._queue and (process is None or process.state is ProcessState.RUNNING):
            self._queue.popleft().run()


class SimulatedWork(Future[Any]):
    """A work item. Waiting for its result runs the items before it and the item itself immediately, without virtual
    time.
    """

    def __init__(self, executor: SimulatedExecutor, call: Callable[[], Any]) -> None:
        super().__init__()
        self._executor = executor
        self._call = call

    def run(self) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            result = self._call()
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(result)

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self._executor.run_until(self)
        return super().result(timeout)
