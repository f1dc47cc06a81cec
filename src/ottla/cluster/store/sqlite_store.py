"""The embedded metadata store: the tree of znodes in an SQLite file, for a standalone broker or several brokers on one
machine.

Event loop only. Reads run on the event loop. A thread writes the changes one after the other, with one fsync each.
After a change, the other processes are notified through their pipes (see `process_session`), and read the changes from
the file.

The session of a process ends as soon as the process dies; the first other process that notices it deletes its ephemeral
znodes. If a live process sends no heartbeat for the session timeout (it is paused, or its event loop is blocked), it
loses its session as in ZooKeeper: when it continues, its writes with the old session are rejected, so it starts another
session, repeats them, and calls the listeners of `on_new_session`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from ottla.cluster.store import process_session, znodes
from ottla.cluster.store.metadata_store import (
    MetadataStoreError,
    MetadataStoreStorageError,
    MetadataStoreTimeoutError,
    Operation,
    Watcher,
    ZNode,
)
from ottla.cluster.store.process_session import OwnSession, PeerSession
from ottla.cluster.store.sqlite_tree import SESSIONS, SessionEndedError, SqliteTree
from ottla.errors import KafkaError, StartupError
from ottla.futures import shielded
from ottla.logs import listed

log = logging.getLogger("ottla.cluster")

FILE_NAME: Final = "registry.sqlite"
SESSION_DIRECTORY: Final = "sessions"
HEARTBEATS_PER_TIMEOUT: Final = 6
PROBE_SECONDS: Final = 2.0
"""Delay in seconds between attempts to write to the file after a failed write."""
R = TypeVar("R")

LONE_SESSION: Final = 1
"""The session number in a store that only one process uses."""


class Outages:
    """Logs the start and the end of each time in which the file cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._since: dict[str, float] = {}
        self._errors: dict[str, Exception] = {}

    @property
    def current(self) -> str:
        """A text with the current outages, their durations and causes; empty if there are none."""
        now = time.monotonic()
        return "; ".join(
            f"the metadata store {self._path} cannot be {what}, for {now - since:.0f} s so far: {self._errors[what]}"
            for what, since in self._since.items()
        )

    def failed(self, what: str, error: Exception) -> None:
        """Record a failure, and log it if it begins an outage. `what`: "read" or "written"."""
        self._errors[what] = error
        if what not in self._since:
            self._since[what] = time.monotonic()
            follows = "reading again soon" if what == "read" else "changes fail until it can"
            log.warning("The metadata store %s cannot be %s; %s: %s", self._path, what, follows, error)

    def worked(self, what: str) -> None:
        """Record a success, and log it if it ends an outage. `what`: "read" or "written"."""
        since = self._since.pop(what, None) if self._since else None
        if since is not None:
            log.info("The metadata store %s can be %s again, after %.1f s", self._path, what, time.monotonic() - since)


class SqliteMetadataStore:
    """A `MetadataStore` in one SQLite file."""

    def __init__(self, directory: Path, *, shared: bool = False, session_timeout_ms: int = 18_000) -> None:
        """`shared`: whether several processes may use the directory at the same time.

        If not, the caller has to lock it first.
        """
        self._path = directory / FILE_NAME
        self._shared = shared
        self._session_seconds = session_timeout_ms / 1000
        self._tree = SqliteTree(self._path, shared=shared, busy_seconds=self._session_seconds)
        self._writer: ThreadPoolExecutor | None = None
        self._watchers: dict[str, list[Watcher]] = {}
        """The watchers by key (see `sqlite_tree.changed_keys`)."""
        self._listeners: list[Callable[[], Awaitable[None]]] = []
        self._sessions = directory / SESSION_DIRECTORY
        self._own: OwnSession | None = None
        self._peers: dict[int, PeerSession] = {}
        self._sessions_known = False
        self._ending: set[int] = set()
        """The sessions of other processes that this process is ending."""
        self._renewal = asyncio.Lock()
        self._last_change = 0
        self._heartbeat: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._outages = Outages(self._path)
        self._probe: asyncio.TimerHandle | None = None

    @property
    def waits_for(self) -> str:
        """A text with the current outages of the file and their causes; empty if there are none."""
        return self._outages.current

    def on_new_session(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Call `listener` when a new session has replaced one that has ended: ephemeral znodes and watches are
        lost.
        """
        self._listeners.append(listener)

    @property
    def has_peers(self) -> bool:
        """Whether other processes use the store."""
        return bool(self._peers)

    async def open(self) -> None:
        """Open or create the file, and delete the ephemeral znodes of processes that have ended.

        Raises StartupError if the store cannot be opened.
        """
        if self._shared:
            try:
                self._sessions.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise StartupError(
                    f"ottla.metadata.dir: {self._sessions} cannot be created: {error.strerror}"
                ) from None
        self._tree.open()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="ottla-store")
        try:
            if self._shared:
                await self._begin_session()
                await self._end_dead_sessions()
                self._beat()
            else:
                self._tree.delete_ephemeral()
        except (KafkaError, OSError) as error:
            await self.close()
            raise StartupError(f"{self._path}: the metadata store cannot be opened: {error}") from None

    async def get(self, path: str, watch: Watcher | None = None) -> ZNode | None:
        self._watch(path, watch)
        return self._tree.get(path)

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Return the sorted names of the znode's children."""
        if watch is not None and self._tree.get(path) is not None:
            self._watch(path + "/", watch)
        return self._tree.children(path)

    async def multi(self, operations: Sequence[Operation]) -> None:
        """Execute all operations in one transaction, or none.

        They are on disk on return. Cancelling the caller does not stop the change.
        """
        await shielded(self._multi(operations))

    async def _multi(self, operations: Sequence[Operation]) -> None:
        while True:
            own = self._own
            try:
                keys = await self._write(self._tree.change, operations, LONE_SESSION if own is None else own.id)
            except SessionEndedError:
                await self._renew(own)
            else:
                return self._publish(keys)

    async def _write(self, call: Callable[..., R], *arguments: object) -> R:
        """Call a function in the writer thread, and return its result."""
        if self._writer is None:
            raise MetadataStoreError("the metadata store is closed")
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._writer, call, *arguments)
        except (MetadataStoreStorageError, MetadataStoreTimeoutError) as error:
            self._on_failed_write(error)
            if isinstance(error, MetadataStoreStorageError):
                # It may have been executed, so all watchers have to look.
                self._publish(list(self._watchers))
            raise
        self._outages.worked("written")
        return result

    def _on_failed_write(self, error: Exception) -> None:
        """Log the failure if it begins an outage, and schedule test writes until one succeeds.

        So the end of the outage is noticed even if there is no change to write.
        """
        self._outages.failed("written", error)
        if self._probe is None and self._writer is not None:
            self._probe = asyncio.get_running_loop().call_later(PROBE_SECONDS, self._probe_file)

    def _probe_file(self) -> None:
        self._probe = None
        self._start(self._write(self._tree.probe))

    async def close(self) -> None:
        """Close the store. This ends the session, which deletes its ephemeral znodes; a failure is logged."""
        self._listeners.clear()
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        for task in self._tasks:
            task.cancel()
        if self._writer is not None:
            try:
                await self._end_own_session()
            except KafkaError as error:
                log.error(
                    "Cannot delete the ephemeral znodes of this process from the metadata store %s; another process "
                    "that uses it, or the next one that opens it, deletes them: %s",
                    self._path,
                    error,
                )
            self._writer.shutdown(wait=True)
            self._writer = None
        if self._probe is not None:
            self._probe.cancel()
        for number in list(self._peers):
            self._forget(number)
        self._tree.close()

    async def _end_own_session(self) -> None:
        own, self._own = self._own, None
        if not self._shared:
            await self._write(self._tree.delete_ephemeral)
        if own is None:
            return
        self._stop_reading(own)
        try:
            await self._write(self._tree.end_session, own.id, own.id)
            self._notify_peers()
        finally:
            own.close()

    # Watches

    def _watch(self, key: str, watch: Watcher | None) -> None:
        if watch is not None and watch not in self._watchers.get(key, ()):
            self._watchers.setdefault(key, []).append(watch)

    def _publish(self, keys: Iterable[str]) -> None:
        """Fire the watches of a change by this process, and notify the other processes."""
        self._fire(keys)
        self._notify_peers()

    def _fire(self, keys: Iterable[str]) -> None:
        """Schedule the calls of watches. As in ZooKeeper, a watch fires once, after the change."""
        for key in keys:
            for watch in self._watchers.pop(key, ()):
                asyncio.get_running_loop().call_soon(watch)

    def _notify_peers(self) -> None:
        for peer in self._peers.values():
            peer.notify()

    def _on_notification(self) -> None:
        if self._own is not None:
            self._own.drain()
            self._check_other_processes()

    def _check_other_processes(self) -> None:
        """Look for changes and sessions of other processes.

        If this fails, the next heartbeat tries again.
        """
        try:
            self._read_changes()
        except (KafkaError, OSError) as error:
            self._outages.failed("read", error)
        else:
            self._outages.worked("read")

    def _read_changes(self) -> None:
        """Fire the watches of all changes by other processes since the last call. Read the sessions if they may have
        changed.
        """
        changes = self._tree.changes(self._last_change, self._own.id if self._own else 0)
        self._last_change = changes.last
        self._fire(changes.keys if changes.are_complete else list(self._watchers))
        if SESSIONS in changes.keys or not changes.are_complete or not self._sessions_known:
            self._read_sessions()
            self._sessions_known = True

    # Sessions

    async def _begin_session(self) -> None:
        """Start a session. If this fails, the current one stays, even if it has ended."""
        last_change = self._tree.last_change()
        created: list[OwnSession] = []
        try:
            await self._write(
                self._tree.begin_session, lambda number: created.append(OwnSession(self._sessions, number))
            )
        except BaseException:
            for session in created:
                session.close()  # if it is in the file nevertheless, the other processes see that it has ended
            raise
        ended, self._own, self._last_change = self._own, created[0], last_change
        if ended is not None:
            self._stop_reading(ended)
            ended.close()
        asyncio.get_running_loop().add_reader(self._own.changes_fd, self._on_notification)

    async def _end_dead_sessions(self) -> None:
        """End sessions of processes that died while no other process was running, and delete their ephemeral znodes,
        which would look like live brokers.
        """
        self._read_sessions()
        for number in self._tree.sessions():
            if number not in self._peers and (self._own is None or number != self._own.id):
                await self._end_session(number)
        await self._write(self._tree.delete_ephemeral)

    def _read_sessions(self) -> None:
        """Detect processes that have started or ended, and whether this process has lost its session."""
        sessions = set(self._tree.sessions())
        for number in self._peers.keys() - sessions:
            self._forget(number)
        own = self._own
        if own is None:
            return
        for number in sessions - self._peers.keys() - {own.id}:
            try:
                peer = self._peers[number] = PeerSession(self._sessions, number)
            except ProcessLookupError:
                self._start(self._end_session(number))
            else:
                asyncio.get_running_loop().add_reader(peer.alive_fd, self._on_end, number)
                peer.notify()  # the other process may have missed changes before this process knew it
        if own.id not in sessions and not self._renewal.locked():
            self._start(self._renew(own))

    def _on_end(self, number: int) -> None:
        """End the session of a process whose pipe is closed, because the process has ended."""
        self._forget(number)
        self._start(self._end_session(number))

    def _forget(self, number: int) -> None:
        peer = self._peers.pop(number)
        asyncio.get_running_loop().remove_reader(peer.alive_fd)
        peer.close()

    async def _end_session(self, number: int) -> None:
        """End the session of a process that has ended, or sends no heartbeats.

        Every process that notices the end calls this; the first one succeeds, and the others change nothing.
        """
        if number in self._ending:
            return
        self._ending.add(number)
        try:
            keys = await self._write(self._tree.end_session, number, self._own.id if self._own else 0)
        finally:
            self._ending.discard(number)
        if keys:
            brokers = [key for key in keys if key.startswith(f"{znodes.BROKER_IDS}/") and not key.endswith("/")]
            log.info(
                "Ended metadata store session %d, whose process has ended or sends no heartbeats; removed "
                "registrations: %s",
                number,
                listed(brokers) or "none",
            )
            self._publish(keys)
            self._read_sessions()
        process_session.delete_files(self._sessions, number)

    async def _renew(self, ended: OwnSession | None) -> None:
        """Start another session after this process has lost its session `ended`.

        If this fails, the next heartbeat tries again.
        """
        async with self._renewal:
            if ended is None or self._own is not ended:
                return  # the session has been renewed meanwhile, or the store is closed
            await self._begin_session()
            log.warning(
                "Another process has ended metadata store session %d, probably because this process sent no heartbeat "
                "in time; continuing with the new session %d",
                ended.id,
                self._own.id,
            )
            self._sessions_known = False
            self._check_other_processes()
        self._fire(list(self._watchers))
        for listener in self._listeners:
            self._start(listener())

    def _stop_reading(self, session: OwnSession) -> None:
        asyncio.get_running_loop().remove_reader(session.changes_fd)

    def _beat(self) -> None:
        """Send a heartbeat, and end the sessions of processes that send none, unless this process was paused itself.

        Also read changes whose notification was missed, and schedule the next heartbeat.
        """
        loop, own = asyncio.get_running_loop(), self._own
        interval = self._session_seconds / HEARTBEATS_PER_TIMEOUT
        # first, so that no error ends the heartbeats
        self._heartbeat = loop.call_later(interval, self._beat)
        if own is not None:
            own.beat()
            self._sessions_known = False
            self._check_other_processes()
            if loop.time() < self._due + interval:  # otherwise this process was paused, and perhaps all processes were
                self._end_silent()
        self._due = loop.time() + interval

    def _end_silent(self) -> None:
        for number, peer in list(self._peers.items()):
            if peer.silent_seconds() > self._session_seconds:
                log.warning(
                    "Ending metadata store session %d: its process is alive, but has sent no heartbeat for %.1f s",
                    number,
                    peer.silent_seconds(),
                )
                self._start(self._end_session(number))

    def _start(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            try:
                await work
            except (KafkaError, OSError) as error:
                if self._writer is not None:  # otherwise the store was closed meanwhile, and there is no write to retry
                    self._on_failed_write(error)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
