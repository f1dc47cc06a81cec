"""The session of a broker's earlier run, ended as soon as the next run holds the data directory.

A broker that was killed leaves its ephemeral nodes behind until its session's time is up: it counts as alive, nobody
leads what it led, and it cannot register again. So each run writes down number and password of its session, and the
next one closes that. It has to hold the directory's lock by then: whoever had the session is dead.

    zookeeper-session           0x10000a1b2c3d4e5f 16-byte-password-in-hex

Kafka knows no such file and passes it over; its brokers wait until the session has expired.
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
    """The file in one data directory. Loop thread."""

    def __init__(self, directory: Path, store: ZooKeeperMetadataStore) -> None:
        self._path = directory / NAME
        self._store = store

    async def clean(self) -> None:
        """End the session of the run before, and write down this run's, now and whenever there is another."""
        earlier = self._read()
        if earlier is not None and earlier != self._store.session:
            log.info("ending session 0x%x of the run before", earlier.id)
            await self._store.end_session(earlier)
        self._write()
        self._store.on_new_session(self._renew)

    async def _renew(self) -> None:
        self._write()

    def delete_file(self) -> None:
        """This run ends in order, and its session with it."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.debug("%s stays: %s", self._path, error)

    def _read(self) -> Session | None:
        try:
            number, password = self._path.read_text("ascii").split()
            return Session(int(number, 16), bytes.fromhex(password))
        except (OSError, ValueError):
            return None  # none was left, or what was left is of no use

    def _write(self) -> None:
        session = self._store.session
        if session is None:
            return
        draft = self._path.with_suffix(".tmp")
        try:
            draft.unlink(missing_ok=True)
            # whoever knows the password can end the session: nobody else may read it
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"0x{session.id:x} {session.password.hex()}\n")
            draft.replace(self._path)
        except OSError as error:
            log.warning("after a crash this broker will wait for its session to expire: %s", error)
