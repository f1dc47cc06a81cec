"""Ends the ZooKeeper session of an earlier run of this broker, as soon as this run has locked the log directory.

The ephemeral znodes of a killed broker remain until its session expires. Until then, the broker counts as alive, its
partitions have no working leader, and it cannot register again. So each run stores the id and password of its session
in the file `zookeeper-session`, and the next run ends that session. It must hold the lock of the log directory, which
proves that the earlier run is dead. The file has one line:

    0x10000a1b2c3d4e5f 16-byte-password-in-hex

Kafka ignores this file; its brokers wait until the session has expired.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from ottla.cluster.store.zookeeper_store import Session, ZooKeeperMetadataStore

log = logging.getLogger("ottla.cluster")

NAME: Final = "zookeeper-session"


class StaleSessionCleaner:
    """Ends the session of an earlier run, and keeps the session file in one log directory. Not thread-safe: event loop
    only.
    """

    def __init__(self, directory: Path, store: ZooKeeperMetadataStore) -> None:
        self._path = directory / NAME
        self._store = store

    async def clean(self) -> None:
        """End the session of the earlier run, if any. Store this run's session, now and whenever it changes."""
        earlier = self._read()
        if earlier is not None and earlier != self._store.session:
            log.info("Ending the ZooKeeper session 0x%x of this broker's previous run", earlier.id)
            await self._store.end_session(earlier)
        self._write()
        self._store.on_new_session(self._renew)

    async def _renew(self) -> None:
        self._write()

    def delete_file(self) -> None:
        """Delete the session file. If that fails, log it at DEBUG."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.debug("Cannot delete session file %s; the next start ends that session again: %s", self._path, error)

    def _read(self) -> Session | None:
        try:
            number, password = self._path.read_text("ascii").split()
            return Session(int(number, 16), bytes.fromhex(password))
        except (OSError, ValueError):
            return None  # the file does not exist or is malformed

    def _write(self) -> None:
        session = self._store.session
        if session is None:
            return
        draft = self._path.with_suffix(".tmp")
        try:
            draft.unlink(missing_ok=True)
            # the password allows anyone to end the session, so only the owner may read the file
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"0x{session.id:x} {session.password.hex()}\n")
            draft.replace(self._path)
        except OSError as error:
            log.warning(
                "Cannot store the ZooKeeper session in %s; if this broker crashes, its next start has to wait until "
                "the session expires: %s",
                self._path,
                error,
            )
