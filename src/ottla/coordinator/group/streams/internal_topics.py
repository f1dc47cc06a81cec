"""Creation of the internal topics of streams groups, in the background, because heartbeats must not wait for it.

Kafka's `AutoTopicCreationManager` for KIP-1071. Heartbeats of the group can report an error until the creation may be
retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple

from ottla.errors import KafkaError, TopicAlreadyExistsError

log = logging.getLogger("ottla.coordinator.group")

MAX_ERRORS: Final = 1000
"""Maximum number of topics whose errors are kept; the oldest error is dropped first."""


class _Failure(NamedTuple):
    message: str
    until: float


class StreamsInternalTopics:
    """Creates internal topics, and keeps the errors of those that could not be created.

    Not thread-safe: event loop only.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._creating: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, _Failure] = {}

    def create(self, topics: Mapping[str, Callable[[], Awaitable[object]]], retry_seconds: float) -> None:
        """Start to create topics, except those that are being created, or that failed and may not be retried yet.

        `topics`: the functions that create them, by name. `retry_seconds`: the delay before a failed creation may be
        retried.
        """
        for name, create in topics.items():
            if name not in self._creating and not self.errors((name,)):
                self._creating[name] = asyncio.get_running_loop().create_task(self._create(name, create, retry_seconds))

    def errors(self, names: Iterable[str]) -> dict[str, str]:
        """Return the error messages of topics whose creation failed and may not be retried yet, by name."""
        now = self._monotonic()
        failures = ((name, self._failures.get(name)) for name in names)
        return {name: failure.message for name, failure in failures if failure is not None and failure.until > now}

    def close(self) -> None:
        for task in list(self._creating.values()):
            task.cancel()

    async def _create(self, name: str, create: Callable[[], Awaitable[object]], retry_seconds: float) -> None:
        try:
            self._failures.pop(name, None)
            await create()
        except TopicAlreadyExistsError:
            pass  # another heartbeat was faster
        except KafkaError as error:
            log.warning(
                "Cannot create internal topic %s of a streams group; the group's first heartbeat after %g s tries "
                "again: %s",
                name,
                retry_seconds,
                error,
            )
            self._remember(name, error.message or str(error), retry_seconds)
        finally:
            del self._creating[name]

    def _remember(self, name: str, message: str, retry_seconds: float) -> None:
        while len(self._failures) >= MAX_ERRORS:
            del self._failures[next(iter(self._failures))]
        self._failures[name] = _Failure(message, self._monotonic() + retry_seconds)
