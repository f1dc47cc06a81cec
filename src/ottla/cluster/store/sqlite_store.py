"""The metadata store of a standalone broker: the tree of znodes in an SQLite file in the log directory.

SQLite, because it is in the standard library, survives crashes, and can be inspected with any tool. Invariant: a change
is on disk before `multi` returns. Called on the event loop only. A thread of its own writes the changes, with one fsync
each, one after the other; reads use a second connection, which sees complete changes only, and run on the event loop.
The file may have passwords of key stores, so only its owner may read it.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from ottla.cluster.store.metadata_store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Set,
    Watcher,
)
from ottla.errors import KafkaStorageError, StartupError

FILE_NAME = "registry.sqlite"

SCHEMA = """
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
"""

OWNER_ONLY: Final = 0o600

CREATIONS = "/#"
"""Counts all created znodes, for `Node.created`; no path is equal to it."""


class SqliteMetadataStore:
    """A `MetadataStore` in one file."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._db: sqlite3.Connection | None = None
        """Writes changes, in the writer's thread."""
        self._reader: sqlite3.Connection | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._watchers: dict[str, list[Watcher]] = {}
        """Watchers of a znode by its path, watchers of its children by its path and a slash."""

    def open(self) -> None:
        """Open or create the file, and delete ephemeral znodes of an earlier run. Raises StartupError if it is
        damaged.
        """
        try:
            _protect(self._path)
            db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.executescript(SCHEMA)
            _add_created(db)
            db.execute("DELETE FROM nodes WHERE ephemeral")
            self._reader = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._reader.execute("PRAGMA query_only = TRUE")
        except (sqlite3.Error, OSError) as error:
            raise StartupError(f"{self._path}: the metadata store cannot be opened: {error}") from None
        self._db = db
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="ottla-store")

    async def get(self, path: str, watch: Watcher | None = None) -> Node | None:
        self._watch(path, watch)
        return self._read(path)

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Return the names of the znode's children, sorted."""
        if watch is not None and self._read(path) is not None:
            self._watch(path + "/", watch)
        rows = self._query(self._reader, "SELECT path FROM nodes WHERE parent = ? ORDER BY path", path)
        return [str(row[0]).rpartition("/")[2] for row in rows]

    async def multi(self, operations: Sequence[Operation]) -> None:
        """Execute all of the operations or none; on disk on return. Cancelling the caller does not stop the change."""
        await asyncio.shield(asyncio.ensure_future(self._multi(operations)))

    async def _multi(self, operations: Sequence[Operation]) -> None:
        assert self._writer is not None, "call open() first"
        await asyncio.get_running_loop().run_in_executor(self._writer, self._change, operations)
        for operation in operations:
            self._fire_watches(operation)

    def _change(self, operations: Sequence[Operation]) -> None:
        """Write a change, in the writer's thread."""
        self._execute("BEGIN IMMEDIATE")
        try:
            for operation in operations:
                self._apply(operation)
            self._execute("COMMIT")
        except BaseException:
            if self._db is not None and self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _watch(self, key: str, watch: Watcher | None) -> None:
        if watch is not None and watch not in self._watchers.get(key, ()):
            self._watchers.setdefault(key, []).append(watch)

    def _fire_watches(self, operation: Operation) -> None:
        """Fire the watches of a changed znode; like ZooKeeper, once, after the change and not within it."""
        path = operation.path
        keys = [path] if isinstance(operation, Create | Set | Delete) else []
        if isinstance(operation, Create | Delete):
            keys.append((path.rpartition("/")[0] or "/") + "/")
        for key in keys:
            for watch in self._watchers.pop(key, ()):
                asyncio.get_running_loop().call_soon(watch)

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.shutdown(wait=True)
            self._writer = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._db is not None:
            self._db.execute("DELETE FROM nodes WHERE ephemeral")
            self._db.close()
            self._db = None

    def _execute(self, sql: str, *arguments: object) -> list[tuple[object, ...]]:
        return self._query(self._db, sql, *arguments)

    def _query(self, db: sqlite3.Connection | None, sql: str, *arguments: object) -> list[tuple[object, ...]]:
        assert db is not None, "call open() first"
        try:
            return db.execute(sql, arguments).fetchall()
        except sqlite3.Error as error:
            raise KafkaStorageError(f"{self._path}: {error}") from error

    def _get(self, path: str) -> Node | None:
        """Return a znode as the current change sees it."""
        return self._node(self._db, path)

    def _read(self, path: str) -> Node | None:
        """Return a znode as the last complete change has left it."""
        return self._node(self._reader, path)

    def _node(self, db: sqlite3.Connection | None, path: str) -> Node | None:
        rows = self._query(db, "SELECT value, version, created FROM nodes WHERE path = ?", path)
        if not rows:
            return None
        value, version, created = rows[0]
        assert isinstance(value, bytes)
        assert isinstance(version, int)
        assert isinstance(created, int)
        return Node(value, version, created)

    def _apply(self, operation: Operation) -> None:
        match operation:
            case Create(path, value, ephemeral, sequence):
                self._create(path + self._next_number(path) if sequence else path, value, ephemeral)
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

    def _create(self, path: str, value: bytes, ephemeral: bool) -> None:
        parent = path.rpartition("/")[0]
        if parent and self._get(parent) is None:
            raise NoNodeError(parent)
        if self._get(path) is not None:
            raise NodeExistsError(path)
        created = self._count(CREATIONS) + 1
        self._execute("INSERT INTO nodes VALUES (?, ?, ?, 0, ?, ?)", path, parent, value, int(ephemeral), created)

    def _next_number(self, path: str) -> str:
        """Return ten digits that no znode below this parent has had, as ZooKeeper's counter."""
        return f"{self._count(path.rpartition('/')[0]):010d}"

    def _count(self, what: str) -> int:
        row = self._execute("SELECT next FROM sequences WHERE parent = ?", what)
        number = int(str(row[0][0])) if row else 0
        self._execute("INSERT OR REPLACE INTO sequences VALUES (?, ?)", what, number + 1)
        return number

    def _check(self, path: str, version: int) -> Node:
        row = self._get(path)
        if row is None:
            raise NoNodeError(path)
        if version not in (ANY_VERSION, row.version):
            raise BadVersionError(f"{path}: version {row.version}, not {version}")
        return row


def _protect(path: Path) -> None:
    """Let only the owner read and write the file, and the files that SQLite creates beside it with the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY))
    for file in (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))):
        if file.exists():
            file.chmod(OWNER_ONLY)


def _add_created(db: sqlite3.Connection) -> None:
    """Add a column that files of earlier releases do not have."""
    if not any(column[1] == "created" for column in db.execute("PRAGMA table_info(nodes)")):
        db.execute("ALTER TABLE nodes ADD COLUMN created INTEGER NOT NULL DEFAULT 0")
