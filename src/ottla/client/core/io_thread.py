"""The one thread that a blocking client has: an event loop, and a way to hand it work.

Calls come from any thread and wait in a way that Ctrl+C interrupts. While a call waits, the loop may ask the calling
thread to run something (`Caller.run`): that is how listeners and callbacks that belong to poll() run where poll() was
called, and may themselves use the client.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from ottla.errors import IllegalStateError, KafkaTimeoutError

log = logging.getLogger("ottla.client")

T = TypeVar("T")

JOIN_SECONDS: Final = 5.0
"""How long `stop` waits for the thread after its loop was told to end."""
CLEANUP_SECONDS: Final = 0.8
"""How long what was cancelled may take to clean up before the loop ends; Ctrl+C ends a call within a second."""

_caller: contextvars.ContextVar[Caller | None] = contextvars.ContextVar("ottla_caller", default=None)
_live: weakref.WeakSet[IoThread] = weakref.WeakSet()
_this_thread = threading.local()


class Caller:
    """A thread that waits for a call to the loop to end."""

    __slots__ = ("inbox",)

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[tuple[Callable[[], None] | None, Any, BaseException | None]] = queue.SimpleQueue()

    def complete(self, task: asyncio.Task[Any]) -> None:
        """The call has ended (loop's thread)."""
        if task.cancelled():
            self.inbox.put((None, None, asyncio.CancelledError()))
        elif task.exception() is not None:
            self.inbox.put((None, None, task.exception()))
        else:
            self.inbox.put((None, task.result(), None))

    def wait(self, timeout: float | None) -> Any:
        """Run what the loop asks for until the call has ended; its result. queue.Empty after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            work, result, error = self.inbox.get(timeout=left)
            if work is not None:
                work()
            elif error is not None:
                raise error
            else:
                return result


async def run_at_caller(function: Callable[..., Any], *args: Any) -> Any:
    """Run a user's function where it belongs: in the thread that waits for this call, or here in an asyncio client.

    In an asyncio client it may be a coroutine function.
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

    def work() -> None:
        try:
            result = function(*args)
        except Exception as error:  # belongs to whoever awaits the function
            loop.call_soon_threadsafe(complete, None, error)
        else:
            loop.call_soon_threadsafe(complete, result, None)

    caller.inbox.put((work, None, None))
    return await done


def check_may_wait() -> None:
    """IllegalStateError on a client's own thread, where callbacks run: whoever waits there waits for himself."""
    if getattr(_this_thread, "is_a_clients", False):
        raise IllegalStateError("a callback on the I/O thread cannot wait for what that thread has to do")


class IoThread:
    """An event loop in a daemon thread. `start` begins, `stop` ends; after a fork it refuses to work."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.forked = False
        self.on_fork: Callable[[], None] | None = None
        """Called in the child after a fork; it may only note the fact."""
        self.loop: asyncio.AbstractEventLoop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stopped = False
        _live.add(self)

    def start(self) -> None:
        """Start the thread."""
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
            # One that is being cancelled cleans up, as after Ctrl+C: a second time it would leave the rest open.
            if not task.cancelling():
                task.cancel()
        _, late = self.loop.run_until_complete(asyncio.wait(tasks, timeout=CLEANUP_SECONDS))
        for task in late:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    @property
    def is_current(self) -> bool:
        """Whether the caller is on this thread, as a callback is: it must not wait for itself."""
        return threading.current_thread() is self._thread

    def check(self) -> None:
        """IllegalStateError when this thread cannot work: stopped, or left behind by a fork."""
        if self._stopped:
            raise IllegalStateError(f"{self.name} is closed")
        if self.forked:
            raise IllegalStateError(f"{self.name} was made before a fork; make a new one in this process")

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result.

        KafkaTimeoutError after `timeout` seconds; then, and at Ctrl+C, the coroutine is cancelled.
        """
        try:
            self.check()
            if self.is_current:
                raise IllegalStateError(f"{self.name}: a callback on the I/O thread cannot wait for it")
        except IllegalStateError:
            coroutine.close()
            raise
        caller = Caller()
        started: list[asyncio.Task[T]] = []

        def start() -> None:
            context = contextvars.copy_context()
            context.run(_caller.set, caller)
            task = self.loop.create_task(coroutine, context=context)
            started.append(task)
            task.add_done_callback(caller.complete)

        self.loop.call_soon_threadsafe(start)
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

    def _cancel(self, started: list[asyncio.Task[Any]]) -> None:
        def cancel() -> None:
            for task in started:
                task.cancel()

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(cancel)

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Have the loop call a function; nothing when it has ended already."""
        try:
            self.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            log.debug("%s: the loop has ended", self.name)

    def stop(self) -> None:
        """End loop and thread; what still runs there is cancelled. After a fork only forget them."""
        if self._stopped:
            return
        self._stopped = True
        if self.forked:
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.is_current:
            self._thread.join(JOIN_SECONDS)


def _after_fork() -> None:
    """Threads do not survive a fork: whoever waited for one would hang."""
    for thread in _live:
        thread.forked = True
        if thread.on_fork is not None:
            thread.on_fork()


os.register_at_fork(after_in_child=_after_fork)
