"""Waiting for a future that must not be cancelled with its caller."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def shielded(work: asyncio.Future[T] | Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, which continues if the caller is cancelled. Raises what it raises.

    Like `asyncio.shield`, but an error of work whose caller was cancelled is dropped in every version of Python. From
    3.14 on, `asyncio.shield` logs it as an unhandled exception.
    """
    future = asyncio.ensure_future(work)
    if not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            future.add_done_callback(_retrieve_error)
            raise
    return future.result()


def _retrieve_error(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()  # otherwise asyncio reports that nothing has retrieved it
