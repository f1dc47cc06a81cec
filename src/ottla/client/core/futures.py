"""The futures of sent records, and the result of the batch that contains them. Kafka's `FutureRecordMetadata` and
`ProduceRequestResult`.

A record has no lock and no event of its own: its future is a tuple of the batch's result and the record's index. The
I/O thread completes the result of a batch once. A threading.Event is created only for a caller that waits.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Generator
from typing import Any

from ottla.client.core.io_thread import check_may_wait
from ottla.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from ottla.model import RecordMetadata, TopicPartition

log = logging.getLogger("ottla.client")

_lock = threading.Lock()
"""Protects the waiters of all results. It is never held for long."""
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

    __slots__ = ("append_time", "base_offset", "done", "error", "forks", "parts", "tp", "waiters")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.forks = _forks
        self.done = False
        self.base_offset = -1
        self.append_time = -1
        self.error: BaseException | None = None
        self.parts: list[tuple[int, ProduceRequestResult]] | None = None
        self.waiters: list[Callable[[], None]] | None = None

    def complete(self, base_offset: int, append_time: int, error: BaseException | None = None) -> bool:
        """Complete the result, and call the waiters in this thread. Return False if it was complete already."""
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
        """Block until the result is complete. Return False after `timeout` seconds.

        Raises IllegalStateError in a process that was forked after the send (only the parent gets the result), and in
        the I/O thread, where callbacks run.
        """
        if self.done:
            return True
        if self.forks != _forks:
            raise IllegalStateError(
                f"{self.tp}: the record was sent before a fork; only the parent process gets the result"
            )
        check_may_wait()
        event = threading.Event()
        self.when_done(event.set)
        try:
            return event.wait(timeout)
        finally:
            self.remove_waiter(event.set)

    def split(self, parts: list[tuple[int, ProduceRequestResult]]) -> None:
        """Replace the result by those of the parts of the split batch. It is complete when all of them are."""
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
        """Return the result of the part that contains a record, and the record's index in that part."""
        if self.parts is None:
            return self, index
        for first, part in reversed(self.parts):
            if index >= first:
                return part.result_of(index - first)
        raise AssertionError(f"no part contains record {index}")


class RecordFuture(tuple[ProduceRequestResult, int, int, int, int]):
    """The future of a record: `get`, `await` and callbacks provide its metadata, or its error.

    A tuple takes less than half the time and memory of an object with attributes. It contains the result, the index in
    the batch, the timestamp, and the sizes of key and value.
    """

    __slots__ = ()

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        outcome = self[0]
        state = "pending" if not outcome.done else f"failed: {outcome.error}" if outcome.error else "acknowledged"
        return f"<RecordFuture {outcome.tp} {state}>"

    def done(self) -> bool:
        """Return whether the record was acknowledged or has failed."""
        return self[0].done

    is_done = property(done)

    def succeeded(self) -> bool:
        """Return whether the record was acknowledged."""
        return self.done() and self.exception() is None

    def failed(self) -> bool:
        """Return whether the record has failed."""
        return self.done() and self.exception() is not None

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the acknowledgement and return the record's metadata.

        Raises the record's error, or KafkaTimeoutError after `timeout` seconds, if the record is still in flight.
        """
        if not self[0].wait(timeout):
            raise KafkaTimeoutError(f"{self[0].tp}: no acknowledgement within {timeout:g} s")
        return self._result()

    result = get

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the result, and return the record's error, or None. Raises KafkaTimeoutError after `timeout`
        seconds.
        """
        if not self[0].wait(timeout):
            raise KafkaTimeoutError(f"{self[0].tp}: no acknowledgement within {timeout:g} s")
        return self[0].result_of(self[1])[0].error

    def _result(self) -> RecordMetadata:
        outcome, index = self[0].result_of(self[1])
        if outcome.error is not None:
            raise outcome.error
        timestamp, kind = (self[2], 0) if outcome.append_time < 0 else (outcome.append_time, 1)
        offset = outcome.base_offset + index if outcome.base_offset >= 0 else -1
        return RecordMetadata(outcome.tp.topic, outcome.tp.partition, offset, timestamp, kind, self[3], self[4])

    def add_done_callback(self, callback: Callable[[RecordFuture], Any]) -> None:
        """Call `callback(future)` in the I/O thread when the record is acknowledged or has failed; immediately if it
        already is.
        """
        self[0].when_done(lambda: _guarded(callback, self))

    def add_callback(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> RecordFuture:
        """Call `callback(*args, metadata, **kwargs)` in the I/O thread when the record is acknowledged."""

        def call() -> None:
            if self.exception() is None:
                _guarded(callback, *args, self._result(), **kwargs)

        self[0].when_done(call)
        return self

    def add_errback(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> RecordFuture:
        """Call `callback(*args, error, **kwargs)` in the I/O thread when the record has failed."""

        def call() -> None:
            error = self.exception()
            if error is not None:
                _guarded(callback, *args, error, **kwargs)

        self[0].when_done(call)
        return self

    def add_both(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> RecordFuture:
        """Add `callback` for both outcomes: it gets the metadata or the error."""
        return self.add_callback(callback, *args, **kwargs).add_errback(callback, *args, **kwargs)

    def report_to(self, callback: Callable[[RecordMetadata | None, BaseException | None], Any]) -> None:
        """Call `callback(metadata, None)` or `callback(None, error)` in the I/O thread, like Java's Callback."""

        def call() -> None:
            error = self.exception()
            _guarded(callback, None if error is not None else self._result(), error)

        self[0].when_done(call)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self[0].done:
            loop = asyncio.get_running_loop()
            woken = loop.create_future()

            def wake() -> None:
                loop.call_soon_threadsafe(lambda: woken.done() or woken.set_result(None))  # type: ignore[func-returns-value]

            self[0].when_done(wake)
            try:
                yield from woken
            finally:
                self[0].remove_waiter(wake)
        return self._result()


def failed_future(tp: TopicPartition, error: KafkaError) -> RecordFuture:
    """Return the future of a record that was not sent because of `error`."""
    outcome = ProduceRequestResult(tp)
    outcome.complete(-1, -1, error)
    return RecordFuture((outcome, 0, -1, -1, -1))


def _guarded(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    try:
        callback(*args, **kwargs)
    except Exception:  # an error in a user's callback must not stop the I/O thread
        log.exception("A callback of the producer raised an exception")
