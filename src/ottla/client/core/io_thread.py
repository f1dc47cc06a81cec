"""The I/O thread of a synchronous client: it runs an event loop, and coroutines for other threads.

Any other thread may call it; a waiting call can be interrupted by Ctrl+C. While a thread waits, the event loop can run
functions in it (`run_at_caller`): so the listeners and callbacks of poll() run in the thread that called poll(), and
may use the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from ottla.errors import IllegalStateError, KafkaTimeoutError

log = logging.getLogger("ottla.client")

T = TypeVar("T")

JOIN_SECONDS: Final = 5.0
"""Maximum time in seconds for which `stop` waits until the thread has ended."""
CLEANUP_SECONDS: Final = 0.8
"""Time in seconds that cancelled tasks have for cleaning up, when the thread stops, before they are cancelled again. It
is less than a second, so that a client closes quickly after Ctrl+C.
"""

INTERRUPT_SECONDS: Final = 0.25
"""Maximum time in seconds until Ctrl+C ends a wait. It matters in a process whose signal handler restarts system calls,
such as that of Polars: there Python's locks notice a signal only when their timeout is over.
"""

_caller: contextvars.ContextVar[Caller | None] = contextvars.ContextVar("ottla_caller", default=None)
_live: weakref.WeakSet[IoThread] = weakref.WeakSet()
_this_thread = threading.local()


class Caller:
    """A thread that waits for the result of a coroutine, and meanwhile runs functions for the event loop."""

    __slots__ = ("inbox",)

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[tuple[Callable[[], None] | None, Any, BaseException | None]] = queue.SimpleQueue()

    def complete(self, task: asyncio.Task[Any]) -> None:
        """Pass the result or the exception of the task to the waiting thread. Called in the event loop."""
        if task.cancelled():
            self.inbox.put((None, None, asyncio.CancelledError()))
        elif task.exception() is not None:
            self.inbox.put((None, None, task.exception()))
        else:
            self.inbox.put((None, task.result(), None))

    def wait(self, timeout: float | None) -> Any:
        """Wait for the result, and return it. Meanwhile run the functions that the event loop passes. Raises the
        coroutine's exception, and queue.Empty after `timeout` seconds (None: no limit).
        """
        for seconds in _slices(timeout):
            try:
                work, result, error = self.inbox.get(timeout=seconds)
            except queue.Empty:
                continue
            if work is not None:
                work()
            elif error is not None:
                raise error
            else:
                return result
        raise queue.Empty


def wait_for(event: threading.Event, timeout: float | None) -> bool:
    """Wait for an event of the I/O thread for `timeout` seconds at most (None: no limit), and return whether it is set.
    Ctrl+C ends the wait.
    """
    return any(event.wait(seconds) for seconds in _slices(timeout))


def _slices(timeout: float | None) -> Iterator[float]:
    """Yield the seconds of waits that take `timeout` seconds together (None: without an end). The last one is 0."""
    deadline = None if timeout is None else time.monotonic() + timeout
    left = INTERRUPT_SECONDS
    while left > 0:
        if deadline is not None:
            left = deadline - time.monotonic()
        yield max(0.0, min(left, INTERRUPT_SECONDS))


async def run_at_caller(function: Callable[..., Any], *args: Any) -> Any:
    """Run a function of the application in the thread that waits for the current call, and return its result.

    Without such a thread, as in an asynchronous client, it runs in the event loop, and may be a coroutine function.
    """
    caller = _caller.get()
    if caller is None:
        result = function(*args)
        return await result if asyncio.iscoroutine(result) else result
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def complete(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def respond(result: Any, error: BaseException | None) -> None:
        # If the function has closed the client, the event loop has ended, and nothing waits for the result.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(complete, result, error)

    def work() -> None:
        try:
            result = function(*args)
        except Exception as error:  # raised where the function is awaited
            respond(None, error)
        else:
            respond(result, None)

    caller.inbox.put((work, None, None))
    return await done


def check_may_wait() -> None:
    """Raise IllegalStateError in an I/O thread, in which callbacks run. A callback that waited for the thread would
    never end.
    """
    if getattr(_this_thread, "is_a_clients", False):
        raise IllegalStateError("a callback in the I/O thread cannot wait for work of this thread")


class IoThread:
    """An event loop in a daemon thread. In a child process after a fork, `run` and `check` raise IllegalStateError."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.forked = False
        self.on_fork: Callable[[], None] | None = None
        """Called in the child process after a fork, where it must not wait for a lock or a thread."""
        self.loop: asyncio.AbstractEventLoop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stopped = False
        self._lock = threading.RLock()
        """Held while a coroutine is scheduled, so that none is scheduled after the event loop has been stopped.
        Reentrant, because a signal handler of the same thread may call `stop` meanwhile.
        """
        _live.add(self)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        _this_thread.is_a_clients = True
        try:
            self.loop.run_forever()
            self._cancel_all()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()

    def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        if not tasks:
            return
        for task in tasks:
            # A task that is being cancelled cleans up, as after Ctrl+C; a second cancellation would interrupt that.
            if not task.cancelling():
                task.cancel()
        _, late = self.loop.run_until_complete(asyncio.wait(tasks, timeout=CLEANUP_SECONDS))
        for task in late:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is this I/O thread, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def check(self) -> None:
        """Raise IllegalStateError if the thread was stopped, or belongs to the parent process."""
        if self._stopped:
            raise IllegalStateError(f"{self.name} is closed")
        if self.forked:
            raise IllegalStateError(f"{self.name} was created before a fork; create a new client in this process")

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine in the event loop, wait for it, and return its result.

        Raises KafkaTimeoutError after `timeout` seconds. Then, and on Ctrl+C, the coroutine is cancelled. Raises
        IllegalStateError if the thread is stopped before or meanwhile, if it belongs to the parent process, and if it
        is the calling thread.
        """
        caller = Caller()
        started: list[asyncio.Task[T]] = []

        def start() -> None:
            context = contextvars.copy_context()
            context.run(_caller.set, caller)
            task = self.loop.create_task(coroutine, context=context)
            started.append(task)
            task.add_done_callback(caller.complete)

        try:
            if self.is_current:
                raise IllegalStateError(f"{self.name}: a callback in the I/O thread cannot wait for this thread")
            self._schedule(start)
        except IllegalStateError:
            coroutine.close()
            raise
        try:
            result: T = caller.wait(timeout)
        except queue.Empty:
            self._cancel(started)
            raise KafkaTimeoutError(f"{self.name}: not done within {timeout:g} s") from None
        except asyncio.CancelledError:
            raise IllegalStateError(f"{self.name} was closed") from None
        except BaseException:
            self._cancel(started)
            raise
        return result

    def _schedule(self, function: Callable[[], None]) -> None:
        """Schedule a function call in the event loop. Raises IllegalStateError if the thread has been stopped or
        belongs to the parent process, so that every scheduled function runs.
        """
        with self._lock:
            self.check()
            try:
                self.loop.call_soon_threadsafe(function)
            except RuntimeError:  # a signal handler has stopped the thread since the check
                raise IllegalStateError(f"{self.name} was closed") from None

    def _cancel(self, started: list[asyncio.Task[Any]]) -> None:
        def cancel() -> None:
            for task in started:
                task.cancel()

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(cancel)

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Schedule a function call in the event loop. Ignored if the loop has ended."""
        try:
            self.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            name = getattr(function, "__qualname__", function)
            log.debug("%s: ignoring a call of %s, because the event loop has ended", self.name, name)

    def stop(self) -> None:
        """Cancel running tasks, and end the event loop and the thread. In a child process after a fork, only mark the
        thread as stopped.
        """
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            if self.forked:
                return
            self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.is_current:
            self._thread.join(JOIN_SECONDS)


def _after_fork() -> None:
    """Mark all I/O threads in the child process, where they do not exist, so that no call waits for them."""
    for thread in _live:
        thread.forked = True
        thread._lock = threading.RLock()  # a thread of the parent process may have held it
        if thread.on_fork is not None:
            thread.on_fork()


os.register_at_fork(after_in_child=_after_fork)
