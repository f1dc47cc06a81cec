"""Derives the methods of a synchronous client from those of the asynchronous one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from ottla.client.core.io_thread import IoThread

Client = TypeVar("Client", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class SynchronousClient(Generic[Client]):
    """Base class of synchronous clients: an asynchronous client, and the I/O thread in which its methods run."""

    _io: IoThread
    _asynchronous: Client

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the I/O thread and return its result."""
        return self._io.run(coroutine)


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
    """Return a version, callable in any thread, of a method that may only be called in the event loop."""

    @functools.wraps(method)
    def call(self: SynchronousClient[Client], *args: P.args, **kwargs: P.kwargs) -> T:
        async def run() -> T:
            return method(self._asynchronous, *args, **kwargs)

        return self._run(run())

    return call  # type: ignore[return-value]  # as above
