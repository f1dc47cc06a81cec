"""Visits per address and the next offset of each partition, in one database and changed in one transaction.

The row with the offset is the lock of its partition. A batch moves it from the offset that this member has stored to
the end of the batch. If the row has another offset, another member owns the partition now, because this one was slow or
seemed dead, and the transaction is rolled back. So a program that was suspended for minutes cannot count a visit twice.
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
"""Maximum number of attempts of a transaction that the database rolls back because of a deadlock."""


class TakenOverError(Exception):
    """The database has another offset than this member has stored: another member owns the partition."""


@dataclass(frozen=True)
class Dialect:
    """Differences between the databases."""

    connect: Callable[[str], Any]
    mark: str
    """The placeholder of a parameter."""
    count: str
    first_offset: str
    collides: Callable[[Exception], bool]
    """Returns whether the database rolled a transaction back only because of another one."""


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
        """Close the connection. An open transaction is rolled back."""
        self._connection.close()

    def next_offset(self, tp: TopicPartition) -> int:
        """Return the offset after the records that were counted."""

        def work(run: Callable[..., Any]) -> int:
            run(self._dialect.first_offset, tp.topic, tp.partition)
            row = run("SELECT next_offset FROM read_offsets WHERE topic = ? AND part = ?", *tp).fetchone()
            return int(row[0])

        return self._repeated(work)

    def add(self, tp: TopicPartition, addresses: Sequence[str], before: int, after: int) -> None:
        """Count a batch, and move the offset from `before` to `after`. Raises TakenOverError if it is not `before`."""

        def work(run: Callable[..., Any]) -> None:
            moved = run(
                "UPDATE read_offsets SET next_offset = ? WHERE topic = ? AND part = ? AND next_offset = ?",
                *(after, *tp, before),
            )
            if moved.rowcount != 1:
                raise TakenOverError(f"{tp}: the database is no longer at offset {before}")
            # Sorted, because two members that count the same addresses in different orders could deadlock.
            for address, count in sorted(Counter(addresses).items()):
                run(self._dialect.count, address, count, count)

        self._repeated(work)

    def visits(self) -> Mapping[str, int]:
        """Return the visits of each address."""
        return self._repeated(lambda run: dict(run("SELECT address, visits FROM visits").fetchall()))

    def _repeated(self, work: Callable[[Callable[..., Any]], Any]) -> Any:
        """Do some work in a transaction, and repeat it if the database has rolled it back."""
        for last in range(TRIES):
            try:
                with self._transaction() as run:
                    return work(run)
            except TakenOverError:
                raise
            except Exception as error:  # each driver has its own class for it
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
            # after a signal in a statement, the connection may be unusable; the error of the block counts
            with contextlib.suppress(Exception):
                self._connection.rollback()
            raise
        finally:
            cursor.close()
