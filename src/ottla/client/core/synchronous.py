"""Base classes of the synchronous clients, and functions that derive their methods from the asynchronous ones."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from ottla.client.core.io_thread import IoThread
from ottla.errors import IllegalStateError

Client = TypeVar("Client", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class SynchronousClient(Generic[Client]):
    """Base class of synchronous clients: an asynchronous client, and the I/O thread in which its methods run."""

    _io: IoThread
    _asynchronous: Client

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._io.run(coroutine)


class SingleThreadClient(SynchronousClient[Client]):
    """Base class of synchronous clients that one thread at a time may use, like Java's consumers."""

    def __init__(self, name: str, io: IoThread) -> None:
        """Create the client. `name` is the kind of client in error messages, such as consumer."""
        self._name = name
        self._io = io
        self._io.on_fork = self._forked
        self._refusal: str | None = None
        """The reason why calls are rejected; None while the client is open."""
        self._use = threading.RLock()
        """Held by the thread that uses the client. Reentrant, because callbacks may use the client, too."""

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            self._enter()
        except IllegalStateError:
            coroutine.close()
            raise
        try:
            return self._io.run(coroutine)
        finally:
            self._use.release()

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise IllegalStateError(self._refusal)

    def _enter(self) -> None:
        """Check that the client is open and no other thread is using it. The caller releases `_use` afterwards.

        Two concurrent polls would corrupt the positions. During the poll of another thread, a seek would be lost, and a
        commit would go beyond the records that the poll returns.
        """
        self._check_open()
        if not self._use.acquire(blocking=False):
            raise IllegalStateError(f"the {self._name} is in use by another thread")

    def _forked(self) -> None:
        self._refusal = f"the {self._name} was created before a fork; create a new one in this process"


def synchronous(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SynchronousClient[Client], P], T]:
    """Return a synchronous version of a coroutine method, with its name, parameters and docstring."""

    @functools.wraps(method)
    def call(self: SynchronousClient[Client], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._asynchronous, *args, **kwargs))

    return call  # type: ignore[return-value]  # mypy takes the result of wraps() for a protocol of its own


def in_io_thread(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[SynchronousClient[Client], P], T]:
    """Return a synchronous version of a method that may only be called in the event loop. It may be called in any
    thread but the I/O thread.
    """

    @functools.wraps(method)
    def call(self: SynchronousClient[Client], *args: P.args, **kwargs: P.kwargs) -> T:
        async def run() -> T:
            return method(self._asynchronous, *args, **kwargs)

        return self._run(run())

    return call  # type: ignore[return-value]  # as above
