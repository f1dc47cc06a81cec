"""The trigger that lets a waiting poll continue: data, an error, or work of another part of the consumer."""

from __future__ import annotations

import asyncio

from ottla.errors import KafkaError


class PollTrigger:
    """Continues the waiting poll of one consumer. Event loop only; the polling thread also reads `error`."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        """The error that the next poll raises."""
        self._event = asyncio.Event()

    @property
    def is_set(self) -> bool:
        """Whether the poll need not wait."""
        return self._event.is_set()

    def set(self) -> None:
        """Continue the poll, or the next one: there is data, or something to do."""
        self._event.set()

    def clear(self) -> None:
        """Start a new round of a poll, which looks at everything itself."""
        self._event.clear()

    async def wait(self) -> None:
        """Wait for `set`."""
        await self._event.wait()

    def fail(self, error: KafkaError) -> None:
        """Let the next poll raise an error."""
        self.error = error
        self._event.set()

    def raise_error(self) -> None:
        """Raise the error, once."""
        error, self.error = self.error, None
        if error is not None:
            raise error
