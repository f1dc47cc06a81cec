"""Visits per address, and how far the topic was read: both in one database, changed in one transaction.

The offset row is the lock of its partition. A batch moves it from where this member left it to behind the batch; if it
does not stand there, another member has the partition by now (this one was thought dead, or was only slow), and the
transaction is rolled back. So even a program that wakes up after minutes cannot count a visit twice.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ottla import TopicPartition

TABLES = (
    "CREATE TABLE IF NOT EXISTS read_offsets"
    " (topic VARCHAR(249) NOT NULL, part INTEGER NOT NULL, next_offset BIGINT NOT NULL, PRIMARY KEY (topic, part))",
    "CREATE TABLE IF NOT EXISTS visits (address VARCHAR(100) NOT NULL, visits BIGINT NOT NULL, PRIMARY KEY (address))",
)
TRIES = 20
"""How often a transaction is repeated that the database has given up to resolve a deadlock."""


class TakenOverError(Exception):
    """The offset in the database is not where this member left it: the partition is another member's."""


@dataclass(frozen=True)
class Dialect:
    """What differs between the databases."""

    connect: Callable[[str], Any]
    mark: str
    """The placeholder of a parameter."""
    count: str
    first_offset: str
    collides: Callable[[Exception], bool]
    """Whether the database has rolled a transaction back only because of another one."""


def _sqlite(url: str) -> Any:
    import sqlite3

    return sqlite3.connect(url.removeprefix("sqlite:"), timeout=60, isolation_level="IMMEDIATE")


def _postgresql(url: str) -> Any:
    import psycopg

    return psycopg.connect(url)


def _mysql(url: str) -> Any:
    import pymysql

    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username or "root",
        password=parts.password or "",
        database=parts.path.strip("/"),
    )


ON_CONFLICT = "INSERT INTO visits VALUES (?, ?) ON CONFLICT (address) DO UPDATE SET visits = visits.visits + ?"
NO_CONFLICT = "INSERT INTO read_offsets VALUES (?, ?, 0) ON CONFLICT DO NOTHING"

DIALECTS = {
    "sqlite": Dialect(_sqlite, "?", ON_CONFLICT, NO_CONFLICT, lambda error: "locked" in str(error)),
    "postgresql": Dialect(
        _postgresql,
        "%s",
        ON_CONFLICT,
        NO_CONFLICT,
        lambda error: getattr(error, "sqlstate", None) in ("40001", "40P01"),  # serialization failure, deadlock
    ),
    "mysql": Dialect(
        _mysql,
        "%s",
        "INSERT INTO visits VALUES (?, ?) ON DUPLICATE KEY UPDATE visits = visits + ?",
        "INSERT IGNORE INTO read_offsets VALUES (?, ?, 0)",
        lambda error: error.args[:1] in ((1213,), (1205,), (1020,)),  # deadlock, lock wait timeout, row has changed
    ),
}


class VisitStore:
    """One connection. `url` is `sqlite:PATH`, `postgresql://…` or `mysql://user:password@host:port/database`."""

    def __init__(self, url: str) -> None:
        self._dialect = DIALECTS[url.partition(":")[0]]
        self._connection = self._dialect.connect(url)
        with self._transaction() as run:
            for table in TABLES:
                run(table)

    def close(self) -> None:
        """Close the connection; what is not committed is rolled back."""
        self._connection.close()

    def next_offset(self, tp: TopicPartition) -> int:
        """Where to go on reading a partition: behind what was counted."""

        def work(run: Callable[..., Any]) -> int:
            run(self._dialect.first_offset, tp.topic, tp.partition)
            row = run("SELECT next_offset FROM read_offsets WHERE topic = ? AND part = ?", *tp).fetchone()
            return int(row[0])

        return self._repeated(work)

    def add(self, tp: TopicPartition, addresses: Sequence[str], before: int, behind: int) -> None:
        """Count a batch, and move the offset from `before` to `behind`. TakenOverError when it is not at `before`."""

        def work(run: Callable[..., Any]) -> None:
            moved = run(
                "UPDATE read_offsets SET next_offset = ? WHERE topic = ? AND part = ? AND next_offset = ?",
                *(behind, *tp, before),
            )
            if moved.rowcount != 1:
                raise TakenOverError(f"{tp}: the database is not at offset {before} any more")
            # Sorted: two members that count the same addresses in another order would wait for each other.
            for address, count in sorted(Counter(addresses).items()):
                run(self._dialect.count, address, count, count)

        self._repeated(work)

    def visits(self) -> Mapping[str, int]:
        """All counts."""
        return self._repeated(lambda run: dict(run("SELECT address, visits FROM visits").fetchall()))

    def _repeated(self, work: Callable[[Callable[..., Any]], Any]) -> Any:
        """Do some work in a transaction; once more when the database wants that."""
        for last in range(TRIES):
            try:
                with self._transaction() as run:
                    return work(run)
            except TakenOverError:
                raise
            except Exception as error:  # whichever class the driver has for it
                if last == TRIES - 1 or not self._dialect.collides(error):
                    raise
                time.sleep(0.01 * last)
        raise AssertionError("unreachable")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Callable[..., Any]]:
        cursor = self._connection.cursor()

        def run(statement: str, *parameters: Any) -> Any:
            cursor.execute(statement.replace("?", self._dialect.mark), parameters)
            return cursor

        try:
            yield run
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise
        finally:
            cursor.close()
