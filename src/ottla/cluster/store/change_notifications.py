"""Reacts to changes of the metadata store: runs handlers when watches fire, and reads notification znodes.

Kafka's `ZkNodeChangeNotificationListener`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ottla.cluster.store.metadata_store import Delete, MetadataStore, NoNodeError
from ottla.errors import KafkaError, NotControllerError
from ottla.logs import limit_repeated_errors

log = logging.getLogger("ottla.cluster")
failures_log = logging.getLogger("ottla.cluster.failures")
limit_repeated_errors(failures_log)  # while the store is unreachable, every retry fails in the same way

RETRY_SECONDS: Final = 0.5
REFRESH_SECONDS: Final = 2.0
"""Maximum time in seconds that a refresh takes; after that, the last known values are used."""
EXPIRY_SECONDS: Final = 900.0
"""Lifetime of a notification in seconds, as in Kafka.

A broker that has read no notifications for more than half of it may have missed some.
"""


class ChangeListener:
    """Runs handlers in a task when a watch fires, and all of them again if one raises a KafkaError.

    NotControllerError is ignored. Not thread-safe: event loop only.
    """

    def __init__(self, subject: str, *handlers: Callable[[], Awaitable[None]]) -> None:
        """`subject`: the name of the data that the handlers read, for log lines."""
        self._subject = subject
        self._handlers = handlers
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def notify(self) -> None:
        """Schedule the handlers. Can be used as a `Watcher`."""
        self._changed.set()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for handler in self._handlers:
                await self._try(handler)

    async def _try(self, handler: Callable[[], Awaitable[None]]) -> None:
        try:
            await handler()
        except NotControllerError:
            pass  # this broker is no longer the controller, and the next one handles the change
        except KafkaError as error:
            failures_log.warning(
                "Cannot read or apply changes of %s; retrying in %g s: %s", self._subject, RETRY_SECONDS, error
            )
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._changed.set)
        except Exception:
            log.exception(
                "Unexpected error while reading or applying changes of %s; some may not be applied until the next one",
                self._subject,
            )


class ChangeNotifications:
    """Reads new notification znodes below some parents, and deletes expired ones."""

    def __init__(
        self, store: MetadataStore, parents: Sequence[str], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._parents = parents
        self._monotonic = monotonic
        self._handled: dict[str, float] = {}
        """The time at which this broker has first read each notification, in monotonic seconds, by path."""
        self._last_read: float | None = None

    @property
    def may_have_missed(self) -> bool:
        """Whether notifications may have expired unread.

        That is so if nothing has been read yet, or the last read is more than half of EXPIRY_SECONDS ago.
        """
        return self._last_read is None or self._monotonic() - self._last_read > EXPIRY_SECONDS / 2

    async def read(self, watch: Callable[[], None], handle: Callable[[list[str]], Awaitable[None]]) -> None:
        """Call `handle` with the paths of new notifications, then delete expired ones.

        `watch` is called when a notification is created or deleted next.
        """
        now = self._monotonic()
        paths = [f"{parent}/{name}" for parent in self._parents for name in await self._store.children(parent, watch)]
        await handle([path for path in paths if path not in self._handled])
        self._last_read = now
        self._handled = {path: self._handled.get(path, now) for path in paths}
        for path, handled_at in self._handled.items():
            if now - handled_at > EXPIRY_SECONDS:
                await self._delete(path)

    async def _delete(self, path: str) -> None:
        try:
            await self._store.multi([Delete(path)])
        except NoNodeError:
            pass  # another broker has deleted it


class ChangeReader:
    """Calls a handler with the paths of new notifications, at the start and after changes. Not thread-safe: event loop
    only.
    """

    def __init__(
        self,
        subject: str,
        store: MetadataStore,
        parents: Sequence[str],
        handle: Callable[[list[str]], Awaitable[None]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`handle`: called with the paths of new notifications; it has to read all data if `may_have_missed` is true.

        `subject`: the name of the data that it reads, for log lines.
        """
        self._subject = subject
        self._handle = handle
        self._notifications = ChangeNotifications(store, parents, monotonic)
        self._listener = ChangeListener(subject, self.read)
        self.lock = asyncio.Lock()
        """Held from reading data until it is applied, so that older data is not applied after newer data."""

    @property
    def may_have_missed(self) -> bool:
        """Whether notifications may have expired before this broker has read them."""
        return self._notifications.may_have_missed

    async def start(self) -> None:
        """Read everything, and apply changes from now on."""
        await self.read()
        self._listener.start()

    async def close(self) -> None:
        await self._listener.close()

    async def read(self) -> None:
        """Call the handler with the paths of the notifications that it has not handled yet."""
        async with self.lock:
            await self._notifications.read(self._listener.notify, self._handle)

    async def refresh(self) -> None:
        """Read recent changes by other brokers.

        If the store fails, or this takes longer than REFRESH_SECONDS, log a warning and keep the last known values.
        """
        try:
            async with asyncio.timeout(REFRESH_SECONDS):
                await self.read()
        except (TimeoutError, KafkaError) as error:
            reason = str(error) or f"no response within {REFRESH_SECONDS:g} s"
            log.warning("Cannot read %s; using the last known ones: %s", self._subject, reason)
