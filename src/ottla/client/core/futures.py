"""The result of a batch of sent records, which their futures wait for. Kafka's `ProduceRequestResult`.

The I/O thread or event loop of the producer completes the result of a batch once. A threading.Event is created only for
a caller that waits.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from typing import Any

from ottla.client.core.io_thread import check_may_wait, wait_for
from ottla.errors import IllegalStateError, KafkaError
from ottla.model import TopicPartition
from ottla.records.appender import RecordFuture

_lock = threading.Lock()
"""Protects the completion and the waiters of all results. It is held only for a few assignments."""
_forks = 0
"""The number of forks that led to this process. A record in flight belongs to the process that has sent it."""


def _after_fork() -> None:
    global _lock, _forks
    _lock = threading.Lock()
    _forks += 1


os.register_at_fork(after_in_child=_after_fork)


class ProduceRequestResult:
    """The result of a batch: its base offset, or an error. `parts` are the parts of a split batch, as (index of the
    first record, result).
    """

    __slots__ = ("append_time", "base_offset", "done", "error", "forks", "loop", "parts", "tp", "waiters")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp: TopicPartition = tp
        self.forks: int = _forks
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that completes the result, if it is the application's (asyncio producer)."""
        self.done: bool = False
        self.base_offset: int = -1
        self.append_time: int = -1
        self.error: BaseException | None = None
        self.parts: list[tuple[int, ProduceRequestResult]] | None = None
        self.waiters: list[Callable[[], None]] | None = None

    def complete(self, base_offset: int, append_time: int, error: BaseException | None = None) -> bool:
        """Complete the result, and call the waiters in the calling thread. Return False if it was complete already."""
        with _lock:
            if self.done:
                return False
            self.base_offset = base_offset
            self.append_time = append_time
            self.error = error
            self.done = True
            waiters, self.waiters = self.waiters, None
        for waiter in waiters or ():
            waiter()
        return True

    def when_done(self, waiter: Callable[[], None]) -> None:
        """Call `waiter` when the result is complete, or immediately if it already is."""
        with _lock:
            if not self.done:
                if self.waiters is None:
                    self.waiters = []
                self.waiters.append(waiter)
                return
        waiter()

    def remove_waiter(self, waiter: Callable[[], None]) -> None:
        with _lock:
            if self.waiters is not None and waiter in self.waiters:
                self.waiters.remove(waiter)

    def wait(self, timeout: float | None) -> bool:
        """Block until the result is complete. Return False after `timeout` seconds (None: no limit).

        If the result is not complete, raises IllegalStateError in a process that was forked after the send (only the
        parent gets the result), and where the wait would never end: in the I/O thread of a client, where callbacks run,
        and in the event loop of an asyncio producer.
        """
        if self.done:
            return True
        if self.forks != _forks:
            raise IllegalStateError(
                f"{self.tp}: the record was sent before a fork; only the parent process gets the result"
            )
        check_may_wait()
        if self.loop is not None and _runs_here(self.loop):
            raise IllegalStateError("the event loop cannot wait for its own producer; use `await future`")
        event = threading.Event()
        self.when_done(event.set)
        try:
            return wait_for(event, timeout)
        finally:
            self.remove_waiter(event.set)

    def wait_in_loop(self) -> Generator[Any, None, None]:
        """Wait until the result is complete, in a coroutine of the running event loop."""
        if self.done:
            return
        loop = asyncio.get_running_loop()
        woken = loop.create_future()

        def wake() -> None:
            loop.call_soon_threadsafe(lambda: woken.done() or woken.set_result(None))  # type: ignore[func-returns-value]

        self.when_done(wake)
        try:
            yield from woken
        finally:
            self.remove_waiter(wake)

    def split(self, parts: list[tuple[int, ProduceRequestResult]]) -> None:
        """Replace the result with the results of the parts of a split batch. It is complete when all parts are."""
        self.parts = parts
        left = len(parts)

        def one_done() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                error = next((part.error for _, part in parts if part.error is not None), None)
                self.complete(parts[0][1].base_offset, parts[0][1].append_time, error)

        for _, part in parts:
            part.when_done(one_done)

    def result_of(self, index: int) -> tuple[ProduceRequestResult, int]:
        """Return the result of the part that contains a record, and the record's index in that part; this result and
        `index` if the batch was not split.
        """
        if self.parts is None:
            return self, index
        for first, part in reversed(self.parts):
            if index >= first:
                return part.result_of(index - first)
        raise AssertionError(f"no part contains record {index}")


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def failed_future(tp: TopicPartition, error: KafkaError) -> RecordFuture:
    """Return the future of a record that was not sent because of `error`."""
    outcome = ProduceRequestResult(tp)
    outcome.complete(-1, -1, error)
    return RecordFuture(outcome, 0, -1, -1, -1)
