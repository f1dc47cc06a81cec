"""The registry of a broker by itself: the tree of ZooKeeper in an SQLite file in the data directory.

SQLite, because it is in the standard library, is durable through a crash, and can be looked at with any tool.
Invariant: a change is on disk before `multi` returns. Used from the loop's thread only; a change takes one fsync, and
changes are rare (topics, configurations, blocks of producer ids).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from ottla.cluster.registry import (
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
)
from ottla.errors import KafkaStorageError, StartupError

FILE_NAME = "registry.sqlite"

SCHEMA = """
CREATE TABLE IF NOT EXISTS nodes (
    path TEXT PRIMARY KEY,
    parent TEXT NOT NULL,
    value BLOB NOT NULL,
    version INTEGER NOT NULL,
    ephemeral INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS children ON nodes (parent);
"""


class EmbeddedRegistry:
    """A `Registry` in one file."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._db: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open or make the file; ephemeral nodes of an earlier run are gone. StartupError where it is damaged."""
        try:
            db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.executescript(SCHEMA)
            db.execute("DELETE FROM nodes WHERE ephemeral")
        except sqlite3.Error as error:
            raise StartupError(f"{self._path}: the registry cannot be opened: {error}") from None
        self._db = db

    async def get(self, path: str) -> Node | None:
        """The node, or None."""
        return self._get(path)

    async def children(self, path: str) -> list[str]:
        """Names of the node's children, sorted."""
        rows = self._execute("SELECT path FROM nodes WHERE parent = ? ORDER BY path", path)
        return [str(row[0]).rpartition("/")[2] for row in rows]

    async def multi(self, operations: Sequence[Operation]) -> None:
        """All of the operations or none; on disk on return."""
        self._execute("BEGIN IMMEDIATE")
        try:
            for operation in operations:
                self._apply(operation)
            self._execute("COMMIT")
        except BaseException:
            if self._db is not None and self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    async def close(self) -> None:
        """Close the file; ephemeral nodes go."""
        if self._db is not None:
            self._db.execute("DELETE FROM nodes WHERE ephemeral")
            self._db.close()
            self._db = None

    def _execute(self, sql: str, *arguments: object) -> list[tuple[object, ...]]:
        assert self._db is not None, "open() comes first"
        try:
            return self._db.execute(sql, arguments).fetchall()
        except sqlite3.Error as error:
            raise KafkaStorageError(f"{self._path}: {error}") from error

    def _get(self, path: str) -> Node | None:
        rows = self._execute("SELECT value, version FROM nodes WHERE path = ?", path)
        if not rows:
            return None
        value, version = rows[0]
        assert isinstance(value, bytes)
        assert isinstance(version, int)
        return Node(value, version)

    def _apply(self, operation: Operation) -> None:
        match operation:
            case Create(path, value, ephemeral):
                self._create(path, value, ephemeral)
            case Set(path, value, version):
                found = self._check(path, version)
                self._execute("UPDATE nodes SET value = ?, version = ? WHERE path = ?", value, found.version + 1, path)
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
        self._execute("INSERT INTO nodes VALUES (?, ?, ?, 0, ?)", path, parent, value, int(ephemeral))

    def _check(self, path: str, version: int) -> Node:
        found = self._get(path)
        if found is None:
            raise NoNodeError(path)
        if version not in (ANY_VERSION, found.version):
            raise BadVersionError(f"{path}: version {found.version}, not {version}")
        return found
