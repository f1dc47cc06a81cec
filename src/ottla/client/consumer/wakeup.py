"""`wakeup()`: one call that waits is interrupted from outside, as with Java's consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.errors import WakeupError

T = TypeVar("T")


class WakeupTrigger:
    """Of one consumer, on the loop; `is_wanted` is read by the polling thread, too."""

    def __init__(self) -> None:
        self.is_wanted = False
        self._waiting: asyncio.Task[Any] | None = None

    def wakeup(self) -> None:
        """Have the call that waits, or else the next one that would, raise WakeupError."""
        self.is_wanted = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` until wakeup()."""
        if self._waiting is not None:  # a listener's or callback's own call: the outer one is interrupted
            return await work
        if self._clear():
            work.close()
            raise WakeupError
        self._waiting = task = asyncio.current_task()
        try:
            return await work
        except asyncio.CancelledError:
            if not self._clear() or (task is not None and task.uncancel() > 0):
                raise
            raise WakeupError from None
        finally:
            self._waiting = None

    def _clear(self) -> bool:
        is_requested, self.is_wanted = self.is_wanted, False
        return is_requested
