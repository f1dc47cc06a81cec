"""An event loop on virtual time. Each callback belongs to a simulated process, or to the simulator."""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextvars import Context, copy_context
from typing import Any, Final, Protocol, cast

from ottla.simulation.process import PROCESS, Process, ProcessState

STEP_SECONDS: Final = 1e-6
"""Virtual time in seconds of one iteration of the loop, so that code that waits for a time does not wait forever
because of rounding.
"""
MAX_STEPS_AT_ONCE: Final = 200_000
"""Number of iterations without a jump of the virtual time after which the loop counts as stuck."""
MAX_ROUNDS: Final = 500_000
MAX_ROUNDS_PER_SECOND: Final = 5_000
"""A run may have MAX_ROUNDS iterations, and this number in addition for each second of virtual time."""
MAX_CANCELLED: Final = 500
"""Number of cancelled timers in the heap above which they are removed, if they are more than half of all timers."""

RUNNING: Final = ProcessState.RUNNING
EVENT_READ: Final = selectors.EVENT_READ
EVENT_WRITE: Final = selectors.EVENT_WRITE

Resolver = Callable[[str], str]
"""Returns the IP address of a host name. Raises OSError if the name is unknown."""


class StuckError(BaseException):
    """The simulation cannot continue, for example because no timer is pending, or a callback does not return.

    It is not a subclass of Exception, so that production code does not handle it.
    """


class Pollable(Protocol):
    """The interface of a simulated socket or pipe that the selector uses."""

    @property
    def process(self) -> Process: ...

    @property
    def is_readable(self) -> bool: ...

    @property
    def is_writable(self) -> bool: ...


class SimulatedSelector(selectors._BaseSelectorImpl):
    """Polls simulated sockets and pipes. Their code activates a descriptor when it may have become ready."""

    def __init__(self) -> None:
        super().__init__()
        self.sockets: dict[int, Pollable] = {}
        self.active: dict[int, None] = {}
        """The descriptors to poll."""

    def activate(self, fd: int) -> None:
        """Poll this descriptor from now on, until it is not ready."""
        self.active[fd] = None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        self.activate(key.fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().modify(fileobj, events, data)
        self.activate(key.fd)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Not used: the loop calls `add_ready`, which makes no list of keys."""
        raise NotImplementedError

    def add_ready(self, ready: deque[Any]) -> None:
        """Append the handles of the active descriptors that are ready now. Descriptors that are not ready become
        inactive.
        """
        active, sockets = self.active, self.sockets
        keys: dict[int, selectors.SelectorKey] = self._fd_to_key  # type: ignore[attr-defined]
        for fd in list(active):
            key, sock = keys.get(fd), sockets.get(fd)
            is_ready = False
            if key is not None and sock is not None and sock.process.state is RUNNING:
                _, _, interest, (reader, writer) = key
                if interest & EVENT_READ and sock.is_readable:
                    is_ready = True
                    ready.append(reader)
                if interest & EVENT_WRITE and sock.is_writable:
                    is_ready = True
                    ready.append(writer)
            if not is_ready:
                del active[fd]


class SimulatedHandle(asyncio.Handle):
    """A callback, made and cancelled without the checks of the base class."""

    __slots__ = ()

    def __init__(self, callback: Callable[..., object], args: Any, context: Context) -> None:
        self._context = context
        self._callback = callback
        self._args = args
        self._cancelled = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._callback!r} {self._args!r}>"

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None  # type: ignore[assignment]
        self._args = None  # type: ignore[assignment]


class SimulatedTimer(asyncio.TimerHandle):
    """A callback that is due at the virtual time `when`, made and cancelled without the checks of the base classes."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[..., object], args: Any, loop: SimulatedLoop, context: Context
    ) -> None:
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._when = when
        self._scheduled = True

    __repr__ = SimulatedHandle.__repr__

    def cancel(self) -> None:
        if not self._cancelled:
            if self._scheduled:
                self._loop._timer_cancelled_count += 1
            self._cancelled = True
            self._callback = None  # type: ignore[assignment]
            self._args = None  # type: ignore[assignment]


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop that jumps to the next timer when no callback is ready, so that hours of waiting take no time."""

    _ready: Any
    _timer_cancelled_count: int

    def __init__(self) -> None:
        self.polled = SimulatedSelector()
        self._now = 0.0
        self._timers: list[tuple[float, int, Any]] = []
        """The timers as a heap of time, sequence number and handle. Tuples are compared without calling Python code."""
        self._timers_set = 0
        self.outside = Context()
        """The context of the simulator's own callbacks, which belong to no process."""
        self.resolver: Resolver | None = None
        self.new_workers: Callable[[], Executor] | None = None
        """Creates the default executor of a process."""
        self.rounds = 0
        """The number of iterations so far."""
        self._jumped_at_round = 0
        """The number of iterations at the last jump of the virtual time."""
        self._next_check = 0
        """The number of iterations above which `_check_rounds` is due."""
        self._failure: StuckError | None = None
        super().__init__(self.polled)
        self.set_task_factory(_task_factory)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def create_task(self, work: Any, **options: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        """Start a task of the current process, or of the one to which the context among the options belongs."""
        return _task_factory(self, work, **options)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback for the next iteration, without the checks of the base class."""
        handle = SimulatedHandle(callback, args, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback for a virtual time in seconds. Callbacks with the same time run in the order in which
        they were scheduled.
        """
        timer = SimulatedTimer(when, callback, args, self, copy_context() if context is None else context)
        number = self._timers_set = self._timers_set + 1
        heapq.heappush(self._timers, (when, number, timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback for a number of seconds from now."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_outside(self, when: float, callback: Callable[..., None], *arguments: Any) -> asyncio.TimerHandle:
        """Schedule a callback that belongs to no process for a virtual time in seconds."""
        timer = SimulatedTimer(when, callback, arguments, self, self.outside)
        number = self._timers_set = self._timers_set + 1
        heapq.heappush(self._timers, (when, number, timer))
        return timer

    @property
    def timers(self) -> list[Any]:
        """The timers that are due later and not cancelled."""
        return [timer for _, _, timer in self._timers if not timer._cancelled]

    def resume(self, process: Process) -> None:
        """Continue a process with the callbacks that were due while it was paused; do nothing if it is not paused."""
        if process.state is not ProcessState.PAUSED:
            return
        process.state = ProcessState.RUNNING
        self._ready.extend(process.deferred)
        process.deferred.clear()
        for fd, sock in self.polled.sockets.items():
            if sock.process is process:
                self.polled.activate(fd)

    def fail(self, error: StuckError) -> None:
        """End the run with this error before the next iteration."""
        self._failure = error

    def _run_once(self) -> None:
        """Run iterations until the loop is stopped. They are in one function, because a run has about 50,000."""
        polled, timers, ready, active = self.polled, self._timers, self._ready, self.polled.active
        pop, get_process, paused = heapq.heappop, PROCESS, ProcessState.PAUSED
        while True:
            if self._failure is not None:
                raise self._failure
            if timers and (timers[0][2]._cancelled or self._timer_cancelled_count > MAX_CANCELLED):
                self._drop_cancelled()
            if active:
                polled.add_ready(ready)
            elif not ready and not self._stopping:  # type: ignore[attr-defined]
                self._advance()
            self.rounds += 1
            now = self._now = self._now + STEP_SECONDS
            if self.rounds > self._next_check:
                self._check_rounds()
            while timers and timers[0][0] <= now:
                timer = pop(timers)[2]
                timer._scheduled = False
                ready.append(timer)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                context = handle._context
                process = context.get(get_process)
                if process is None or process.state is RUNNING:
                    try:  # as `Handle._run` does, without a call
                        context.run(handle._callback, *handle._args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:
                        self._report(handle, error)
                elif process.state is paused:
                    process.deferred.append(handle)
                else:
                    process.remains.append(handle)
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _report(self, handle: asyncio.Handle, error: BaseException) -> None:
        context = {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
        self.call_exception_handler(context)

    def _advance(self) -> None:
        """Advance the virtual time to the next timer. Raises StuckError if there is none."""
        if not self._timers:
            raise StuckError(f"no timer is pending at {self._now:.3f} s")
        when = self._timers[0][0]
        if when > self._now:
            if when > self._now + STEP_SECONDS:
                self._jumped_at_round = self.rounds
            self._now = when

    def _check_rounds(self) -> None:
        """Raise StuckError if there were too many iterations, in all or since the last jump of the virtual time.
        Otherwise compute the number of iterations after which the next check is due.
        """
        most_at_once = self._jumped_at_round + MAX_STEPS_AT_ONCE
        most = int(MAX_ROUNDS + MAX_ROUNDS_PER_SECOND * self._now)
        self._next_check = min(most_at_once, most)
        if self.rounds > self._next_check:
            self._raise_stuck()

    def _raise_stuck(self) -> None:
        busy = [repr(handle) for handle in list(self._ready)[:3]]
        polled = [self.polled.get_key(fd) for fd in list(self.polled.active)[:3]]
        raise StuckError(f"time does not advance, or hardly, at {self._now:.3f} s: {busy} {polled}")

    def _drop_cancelled(self) -> None:
        timers = self._timers
        if self._timer_cancelled_count > MAX_CANCELLED and 2 * self._timer_cancelled_count > len(timers):
            for _, _, handle in timers:
                handle._scheduled = not handle._cancelled
            timers[:] = [timer for timer in timers if timer[2]._scheduled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0][2]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(timers)[2]._scheduled = False

    # Methods of the base class that would reach outside the simulation

    def _make_self_pipe(self) -> None:
        """Do nothing: no other thread wakes this loop."""

    def _close_self_pipe(self) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run a function in an executor, by default that of the current process, which runs it after a delay. The
        future is done one iteration after the function has returned, in every version of Python: from 3.14 on,
        `asyncio.wrap_future` would complete it in the same iteration.
        """
        workers = self._default_workers() if executor is None else executor
        work, future = workers.submit(func, *args), self.create_future()

        def cancel(_: asyncio.Future[Any]) -> None:
            if future.cancelled():
                work.cancel()

        def finish() -> None:
            if future.cancelled():
                return
            if work.cancelled():
                future.cancel()
            elif (error := work.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(work.result())

        future.add_done_callback(cancel)
        work.add_done_callback(lambda _: self.call_soon_threadsafe(finish))
        return future

    def _default_workers(self) -> Executor:
        process = PROCESS.get()
        assert process is not None, "only processes have workers"
        if process.workers is None:
            assert self.new_workers is not None
            process.workers = self.new_workers()
        return process.workers

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        import socket

        assert self.resolver is not None
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.resolver(str(host)), int(port)))]


def _task_factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, **options)
    context: Mapping[Any, Any] | None = options.get("context")
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is not None:
        process.add_task(task)
    return task


def gather(*awaitables: Any, return_exceptions: bool = False) -> asyncio.Future[list[Any]]:
    """Return a future of the results of awaitables, like `asyncio.gather`, with the order of callbacks of Python 3.11.

    From Python 3.12 on, `asyncio.gather` completes immediately if all its futures are done. With this function, a seed
    has the same trace in every version of Python.
    """
    loop = asyncio.get_running_loop()
    futures = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    children = list(dict.fromkeys(futures))
    if not children:
        nothing = loop.create_future()
        nothing.set_result([])
        return nothing
    outer: Any = asyncio.tasks._GatheringFuture(children, loop=loop)  # type: ignore[attr-defined]
    finished: list[asyncio.Future[Any]] = []

    def on_done(child: asyncio.Future[Any]) -> None:
        finished.append(child)
        error = asyncio.CancelledError() if child.cancelled() else child.exception()
        if outer.done():
            return
        if error is not None and not return_exceptions:
            outer.set_exception(error)
        elif len(finished) == len(children):
            if outer._cancel_requested:
                outer.set_exception(asyncio.CancelledError())
            else:
                outer.set_result([_outcome(future) for future in futures])

    for child in children:
        child.add_done_callback(on_done)
    return cast("asyncio.Future[list[Any]]", outer)


def _outcome(future: asyncio.Future[Any]) -> Any:
    if future.cancelled():
        return asyncio.CancelledError()
    error = future.exception()
    return future.result() if error is None else error
