"""The trigger behind the consumer's `wakeup()`, which interrupts one waiting call, as in Java."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.errors import WakeupError

T = TypeVar("T")


class WakeupTrigger:
    """The wakeup state of one consumer. Event loop only, except for `is_requested`, which the polling thread reads."""

    def __init__(self) -> None:
        self.is_requested = False
        self._waiting: asyncio.Task[Any] | None = None

    def wakeup(self) -> None:
        """Interrupt the waiting call, or else the next one. The interrupted call raises WakeupError."""
        self.is_requested = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`. Raises WakeupError if wakeup() is called meanwhile, or has been called since the last
        interruptible call. Within another interruptible call, such as in a listener, only that one raises it.
        """
        if self._waiting is not None:  # a call of a listener or callback: the outer call is interrupted
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
        is_requested, self.is_requested = self.is_requested, False
        return is_requested
