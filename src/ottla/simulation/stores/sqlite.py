"""The file of the embedded metadata store: the production `SqliteMetadataStore` runs on SQLite, some of whose
statements fail.

All brokers share the file, as those of a node (`ottla broker --brokers N`) do. Their sessions end with their processes,
through simulated pipes (`pipes`). A transaction may fail before or after it is applied; for a host that is cut off from
ZooKeeper's address, the file is locked for writing.
"""

from __future__ import annotations

import random
import sqlite3
import types
from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.cluster.store.process_session import ALIVE
from ottla.cluster.store.sqlite_store import FILE_NAME
from ottla.cluster.store.sqlite_tree import SqliteTree
from ottla.simulation.network import Network
from ottla.simulation.pipes import Pipes
from ottla.simulation.process import PROCESS, Process
from ottla.simulation.stores.zookeeper import HOST

TRIGGERS: Final = """
CREATE TEMP TRIGGER created AFTER INSERT ON main.nodes BEGIN SELECT written(NEW.path, NEW.value); END;
CREATE TEMP TRIGGER changed AFTER UPDATE ON main.nodes BEGIN SELECT written(NEW.path, NEW.value); END;
CREATE TEMP TRIGGER deleted AFTER DELETE ON main.nodes BEGIN SELECT written(OLD.path, NULL); END;
"""
"""SQL triggers that call the function `written` for each znode that a statement inserts, updates or deletes."""
FAILED_READ_SHARE: Final = 0.02
"""The share of the processes' reads outside transactions that fail while responses are lost."""


class StoredNode(NamedTuple):
    """A znode as the file contains it: its value and version."""

    value: bytes
    version: int


class MetadataFile:
    """The file and its failures."""

    def __init__(self, directory: Path, network: Network, pipes: Pipes, rng: random.Random) -> None:
        self.path = directory / FILE_NAME
        self._network = network
        self._pipes = pipes
        self._rng = rng
        self._tree: SqliteTree | None = None
        self.lost_responses = 0.0
        """The share of the processes' commits that fail: half of them after the transaction was applied."""
        self.on_change: Callable[[str], object] | None = None
        self.on_write: Callable[[str, bytes | None], object] | None = None
        """Called with the path and the new value of a znode that was written; None stands for a deletion."""

    def node(self, path: str) -> StoredNode | None:
        """Return a znode; None if it does not exist."""
        stored = self._own_tree().get(path)
        return None if stored is None else StoredNode(stored.value, stored.version)

    @property
    def session_count(self) -> int:
        return len(self._own_tree().sessions())

    def expire_sessions_of(self, host: str) -> None:
        """End the sessions of a host although its processes are alive, as another process does if it considers them
        dead.
        """
        for path in list(self._pipes.held_by(host)):
            name = Path(path).name
            if name.endswith(f".{ALIVE}"):
                self._own_tree().end_session(int(name.partition(".")[0]), 0)

    def _own_tree(self) -> SqliteTree:
        if self._tree is None:
            self._tree = SqliteTree(self.path, shared=True)
            Context().run(self._tree.open)  # it belongs to no process, so that it does not end with one
        return self._tree

    def close(self) -> None:
        if self._tree is not None:
            self._tree.close()

    def before_read(self, process: Process | None) -> None:
        """Raise OperationalError if the seed lets a read of a process fail, which happens only while responses are
        lost.
        """
        if process is not None and self.lost_responses and self._rng.random() < FAILED_READ_SHARE:
            raise sqlite3.OperationalError("disk I/O error (simulated)")

    def before_write(self, process: Process | None) -> None:
        """Raise OperationalError (SQLITE_BUSY) if the host of a process is cut off from ZooKeeper's address."""
        if process is not None and self._network.is_cut(process.host, HOST):
            error = sqlite3.OperationalError("database is locked (simulated)")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    def commit(self, database: sqlite3.Connection, process: Process | None, writes: list[tuple[str, Any]]) -> None:
        """Commit a transaction, and report `writes` to `on_change` and `on_write`. If the seed lets it fail, raise
        OperationalError before or after the commit.
        """
        fails = process is not None and self._rng.random() < self.lost_responses
        error = sqlite3.OperationalError("disk I/O error (simulated)")
        if fails and self._rng.random() < 0.5:
            raise error
        database.execute("COMMIT")
        for path, value in writes:
            if self.on_change is not None:
                self.on_change(f"{'delete' if value is None else 'write'} {path}")
            if self.on_write is not None:
                self.on_write(path, value)
        if fails:
            raise error


class SqliteModule(types.ModuleType):
    """Stands in for the module `sqlite3` in production code."""

    def __init__(self, file: MetadataFile) -> None:
        super().__init__("sqlite3")
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)

    def connect(self, path: Any, **options: Any) -> SimulatedConnection:
        return SimulatedConnection(sqlite3.connect(path, **options), self._file)


class SimulatedConnection:
    """A connection to the file. It is closed when the process that opened it dies."""

    def __init__(self, database: sqlite3.Connection, file: MetadataFile) -> None:
        self._database = database
        self._file = file
        self._process = PROCESS.get()
        self._writes: list[tuple[str, Any]] = []
        self._has_triggers = False
        self.close = database.close
        self.executescript = database.executescript
        if self._process is not None:
            self._process.on_death.append(database.close)

    @property
    def in_transaction(self) -> bool:
        return self._database.in_transaction

    def execute(self, sql: str, arguments: tuple[object, ...] = ()) -> Any:
        match sql.partition(" ")[0]:
            case "BEGIN":
                self._file.before_write(self._process)
                self._add_triggers()
                self._writes.clear()
            case "COMMIT":
                self._file.commit(self._database, self._process, self._writes)
                sql = "SELECT 1 WHERE 0"  # the result of a COMMIT has no rows
            case "SELECT" if not self._database.in_transaction:
                self._file.before_read(self._process)
        return self._database.execute(sql, arguments)

    def _add_triggers(self) -> None:
        if not self._has_triggers:
            self._has_triggers = True
            self._database.create_function("written", 2, self._written)
            self._database.executescript(TRIGGERS)

    def _written(self, path: str, value: bytes | None) -> None:
        self._writes.append((path, value))
