"""The trigger that ends the wait of a poll: there is data, an error, or work to do."""

from __future__ import annotations

import asyncio
import threading

from ottla.errors import KafkaError


class PollTrigger:
    """Wakes the waiting poll of one consumer.

    Event loop only, except for `error`, `expect` and `arrives_within`, which the polling thread uses.
    """

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        """The pending error; None if there is none."""
        self._event = asyncio.Event()
        self._arrival = threading.Event()

    @property
    def is_set(self) -> bool:
        """Whether the poll does not have to wait."""
        return self._event.is_set()

    def set(self) -> None:
        """Wake the waiting poll, or make the next one not wait: there is data, or something to do."""
        self._event.set()
        self._arrival.set()

    def expect(self) -> None:
        """Make `arrives_within` ignore earlier calls to `set` and `fail`."""
        self._arrival.clear()

    def arrives_within(self, seconds: float) -> bool:
        """Block the thread until `set` or `fail` is called after `expect`, for at most `seconds`. Return whether one
        was called.
        """
        return self._arrival.wait(seconds)

    def clear(self) -> None:
        """Make `wait` ignore earlier calls to `set` and `fail`."""
        self._event.clear()

    async def wait(self) -> None:
        """Wait until `set` or `fail` has been called since the last `clear`."""
        await self._event.wait()

    def fail(self, error: KafkaError) -> None:
        """Make `error` the pending error, and wake the waiting poll."""
        self.error = error
        self.set()

    def raise_error(self) -> None:
        """Raise the pending error, if there is one, and clear it."""
        error, self.error = self.error, None
        if error is not None:
            raise error
