"""The tree of znodes in an SQLite file: reads and transactions of the embedded metadata store, without watches and
threads.

SQLite is used because it is in the standard library, survives crashes, can be inspected with any tool, and lets several
processes of one machine read and write (in WAL mode). Invariant: a change is on disk before the call returns. Writes
and reads use different connections, so that reads see complete changes only. The file may contain passwords of key
stores, so only its owner may read it.

The column `ephemeral` has the session with which a znode is deleted; 0 for a persistent znode. If the file is shared,
the table `changes` lists the last changes in order: each process reads it to find the watches that it has to fire.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from ottla.cluster.store.metadata_store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    MetadataStoreError,
    MetadataStoreStorageError,
    MetadataStoreTimeoutError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Set,
    ZNode,
)
from ottla.errors import StartupError

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS nodes (
    path TEXT PRIMARY KEY,
    parent TEXT NOT NULL,
    value BLOB NOT NULL,
    version INTEGER NOT NULL,
    ephemeral INTEGER NOT NULL,
    created INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS children ON nodes (parent);
CREATE TABLE IF NOT EXISTS sequences (parent TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    key TEXT NOT NULL
);
"""

OWNER_ONLY: Final = 0o600
READ_SECONDS: Final = 1.0
"""Maximum time in seconds that a read waits for another process that is recovering the file after a crash."""
WAL_ATTEMPTS: Final = 40
WAL_RETRY_SECONDS: Final = 0.025
KEPT_CHANGES: Final = 10_000
"""Number of changes that the table `changes` keeps. A process that has missed more fires all of its watches."""

CREATIONS: Final = "/#"
"""Name of the counter of created znodes, for `ZNode.created`. No znode can have this path."""
SESSIONS: Final = "/#sessions"
"""Name of the counter of sessions. As a changed key, it means that a session has started or ended."""


class SessionEndedError(MetadataStoreError):
    """Another process has ended this session, which deleted its ephemeral znodes."""


class Changes(NamedTuple):
    """Changed keys (see `changed_keys`).

    `last`: the number of the last change. `are_complete`: False if some changes are no longer in the table.
    """

    keys: Sequence[str]
    last: int
    are_complete: bool


class SqliteTree:
    """The connections of one process to the file.

    Writes may be made by any thread, but one at a time; reads by the event loop's thread only.
    """

    def __init__(self, path: Path, *, shared: bool = False, busy_seconds: float = 5.0) -> None:
        """`busy_seconds`: maximum time that a write waits for writes of other processes."""
        self.path = path
        self._shared = shared
        self._busy_seconds = busy_seconds
        self._db: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._keys: list[str] = []
        """The keys that the current transaction has changed (see `changed_keys`)."""

    def open(self) -> None:
        """Open or create the file. Raises StartupError if that fails."""
        try:
            _protect(self.path)
            self._db = db = sqlite3.connect(
                self.path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
            )
            _set_wal(db)
            db.execute("PRAGMA synchronous = FULL")
            db.executescript(SCHEMA)
            _add_created(db)
            self._reader = sqlite3.connect(
                self.path, timeout=READ_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._reader.execute("PRAGMA query_only = TRUE")
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise StartupError(f"{self.path}: the metadata store cannot be opened: {error}") from None

    def close(self) -> None:
        """Close the connections."""
        for db in (self._reader, self._db):
            if db is not None:
                db.close()
        self._reader = self._db = None

    # Reads

    def get(self, path: str) -> ZNode | None:
        """Return a znode as of the last committed transaction; None if it does not exist."""
        return self._node(self._reader, path)

    def children(self, path: str) -> list[str]:
        """Return the sorted names of the znode's children."""
        rows = self._query(self._reader, "SELECT path FROM nodes WHERE parent = ? ORDER BY path", path)
        return [str(row[0]).rpartition("/")[2] for row in rows]

    def sessions(self) -> list[int]:
        """Return the session numbers of all processes, sorted."""
        return [_number(row[0]) for row in self._query(self._reader, "SELECT id FROM sessions ORDER BY id")]

    def last_change(self) -> int:
        """Return the number of the last change; 0 if there is none."""
        ((number,),) = self._query(self._reader, "SELECT COALESCE(MAX(number), 0) FROM changes")
        return _number(number)

    def changes(self, after: int, session: int) -> Changes:
        """Return the keys that sessions other than `session` have changed after the change with number `after`."""
        sql = "SELECT number, session, key FROM changes WHERE number > ? ORDER BY number"
        rows = self._query(self._reader, sql, after)
        if not rows:
            return Changes((), after, are_complete=True)
        keys = [str(key) for _, changed_by, key in rows if changed_by != session]
        return Changes(keys, _number(rows[-1][0]), are_complete=rows[0][0] == after + 1)

    # Writes

    def change(self, operations: Sequence[Operation], session: int) -> list[str]:
        """Execute all operations in one transaction, or none. Return the changed keys.

        Raises the MetadataStoreError of the first operation that fails. If the file is shared, raises SessionEndedError
        if the session has ended, so that a process that was paused for too long creates no ephemeral znodes that would
        never be deleted.
        """
        with self._transaction(session) as keys:
            if self._shared and not self._execute("SELECT 1 FROM sessions WHERE id = ?", session):
                raise SessionEndedError(f"session {session} has ended")
            for operation in operations:
                self._apply(operation, session)
        return keys

    def begin_session(self, prepare: Callable[[int], None]) -> int:
        """Start a session, and return its number, which no session has had before.

        `prepare` is called with the number before other processes can see the session.
        """
        with self._transaction() as keys:
            session = self._count(SESSIONS) + 1
            prepare(session)
            self._execute("INSERT INTO sessions VALUES (?)", session)
            keys.append(SESSIONS)
        return session

    def end_session(self, session: int, by: int) -> list[str]:
        """End a session, and delete its ephemeral znodes.

        `by`: the session of the process that calls this. Return the changed keys; none if the session has already
        ended.
        """
        with self._transaction(by) as keys:
            if self._execute("SELECT 1 FROM sessions WHERE id = ?", session):
                self._execute("DELETE FROM sessions WHERE id = ?", session)
                keys.append(SESSIONS)
            self._delete_ephemeral("ephemeral = ?", session)
        return keys

    def probe(self) -> None:
        """Write a page of the file without a change. Raises MetadataStoreError if the file cannot be written."""
        self._execute("PRAGMA user_version = 0")

    def delete_ephemeral(self) -> None:
        """Delete the ephemeral znodes of sessions that do not exist."""
        with self._transaction():
            self._delete_ephemeral("ephemeral NOT IN (SELECT 0 UNION SELECT id FROM sessions)")

    def _delete_ephemeral(self, condition: str, *arguments: object) -> None:
        for (path,) in self._execute(f"SELECT path FROM nodes WHERE {condition}", *arguments):
            self._keys += changed_keys(Delete(str(path)))
        self._execute(f"DELETE FROM nodes WHERE {condition}", *arguments)

    @contextmanager
    def _transaction(self, session: int = 0) -> Iterator[list[str]]:
        """Commit the changes made in the block, or none if it raises an error (context manager).

        Yields the list of changed keys.
        """
        self._execute("BEGIN IMMEDIATE")
        keys: list[str] = []
        self._keys = keys
        try:
            yield keys
            if self._shared:
                self._list_changes(session)
            self._execute("COMMIT")
        except BaseException:
            if self._db is not None and self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _list_changes(self, session: int) -> None:
        if not self._keys:
            return
        for key in dict.fromkeys(self._keys):
            self._execute("INSERT INTO changes (session, key) VALUES (?, ?)", session, key)
        self._execute("DELETE FROM changes WHERE number <= (SELECT MAX(number) FROM changes) - ?", KEPT_CHANGES)

    def _apply(self, operation: Operation, session: int) -> None:
        match operation:
            case Create(path, value, ephemeral, sequence):
                path = path + self._next_number(path) if sequence else path
                self._create(path, value, session if ephemeral else 0)
            case Set(path, value, version):
                row = self._check(path, version)
                self._execute("UPDATE nodes SET value = ?, version = ? WHERE path = ?", value, row.version + 1, path)
            case Delete(path, version):
                self._check(path, version)
                if self._execute("SELECT 1 FROM nodes WHERE parent = ? LIMIT 1", path):
                    raise NotEmptyError(path)
                self._execute("DELETE FROM nodes WHERE path = ?", path)
            case Check(path, version):
                self._check(path, version)
        self._keys += changed_keys(operation)

    def _create(self, path: str, value: bytes, session: int) -> None:
        parent = path.rpartition("/")[0]
        if parent and self._node(self._db, parent) is None:
            raise NoNodeError(parent)
        if self._node(self._db, path) is not None:
            raise NodeExistsError(path)
        created = self._count(CREATIONS) + 1
        self._execute("INSERT INTO nodes VALUES (?, ?, ?, 0, ?, ?)", path, parent, value, session, created)

    def _next_number(self, path: str) -> str:
        """Return the next number of the parent's counter as ten digits, like ZooKeeper."""
        return f"{self._count(path.rpartition('/')[0]):010d}"

    def _count(self, what: str) -> int:
        row = self._execute("SELECT next FROM sequences WHERE parent = ?", what)
        number = _number(row[0][0]) if row else 0
        self._execute("INSERT OR REPLACE INTO sequences VALUES (?, ?)", what, number + 1)
        return number

    def _check(self, path: str, version: int) -> ZNode:
        row = self._node(self._db, path)
        if row is None:
            raise NoNodeError(path)
        if version not in (ANY_VERSION, row.version):
            raise BadVersionError(f"{path}: version {row.version}, not {version}")
        return row

    def _node(self, db: sqlite3.Connection | None, path: str) -> ZNode | None:
        rows = self._query(db, "SELECT value, version, created FROM nodes WHERE path = ?", path)
        if not rows:
            return None
        value, version, created = rows[0]
        assert isinstance(value, bytes)
        return ZNode(value, _number(version), _number(created))

    def _execute(self, sql: str, *arguments: object) -> list[tuple[object, ...]]:
        return self._query(self._db, sql, *arguments)

    def _query(self, db: sqlite3.Connection | None, sql: str, *arguments: object) -> list[tuple[object, ...]]:
        assert db is not None, "call open() first"
        try:
            return db.execute(sql, arguments).fetchall()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                raise MetadataStoreTimeoutError(
                    f"{self.path} is locked by another process that does not release it; is one of the brokers paused?"
                ) from error
            raise MetadataStoreStorageError(f"{self.path}: {error}") from error


def changed_keys(operation: Operation) -> list[str]:
    """Return the keys that an operation changes.

    The key of a znode's value is its path; that of the list of its children is its path followed by a slash.
    """
    path = operation.path
    match operation:
        case Create(sequence=True):
            return [parent_key(path)]  # the znode's name was not known before, so nothing can watch it
        case Create() | Delete():
            return [path, parent_key(path)]
        case Set():
            return [path]
        case _:
            return []


def parent_key(path: str) -> str:
    """Return the key of the list of children that contains a znode."""
    return (path.rpartition("/")[0] or "/") + "/"


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def _protect(path: Path) -> None:
    """Create the file, or change its mode, so that only its owner may read and write it.

    SQLite creates its other files with the same mode.

    An existing file is not opened for this: closing it would release the locks that SQLite has in this process.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY))
    except FileExistsError:
        pass
    for file in (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))):
        try:
            file.chmod(OWNER_ONLY)
        except FileNotFoundError:
            pass


def _set_wal(db: sqlite3.Connection) -> None:
    """Switch to WAL mode.

    Try again if it fails: SQLite does not wait if another process is doing the same with a new file.
    """
    for left in reversed(range(WAL_ATTEMPTS)):
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if not left:
                raise
            time.sleep(WAL_RETRY_SECONDS)


def _add_created(db: sqlite3.Connection) -> None:
    """Add the column `created`, which files of earlier releases do not have."""
    if not any(column[1] == "created" for column in db.execute("PRAGMA table_info(nodes)")):
        db.execute("ALTER TABLE nodes ADD COLUMN created INTEGER NOT NULL DEFAULT 0")
