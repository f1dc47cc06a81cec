"""The account of captured tables: each row and value of the database compared with the table of the topic.

psycopg converts the database's values to Python's types, so that the comparison needs no code of the capture.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from ottla_pipelines.topic_tables import TopicTables


class TableAccount(NamedTuple):
    """The result of comparing a table of the database with the table of its topic."""

    table: str
    in_database: int
    in_table: int
    missing: int
    """The number of rows of the database that are missing in the table, or have a different value there."""
    surplus: int
    """The number of rows of the table that are missing in the database, or have a different value there."""
    values: int
    """The number of single values that were compared."""
    example: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether all rows and values are equal."""
        return not (self.missing or self.surplus)

    @property
    def line(self) -> str:
        """The account as one line of text."""
        counts = f"{self.in_database:,} rows in the database, {self.in_table:,} in the table"
        result = "all equal" if self.is_exact else f"{self.missing:,} missing, {self.surplus:,} surplus: {self.example}"
        return f"{self.table}: {counts}, {self.values:,} values compared, {result}"


def account(database: str, tables: TopicTables, table: str, topic: str) -> TableAccount:
    """Compare a table of the database with the table of its topic, and return the result."""
    with psycopg.connect(database, row_factory=dict_row) as connection:
        query = sql.SQL("select * from {}").format(sql.Identifier(table))
        cursor = connection.execute(query)
        names = [column.name for column in cursor.description or ()]
        expected = Counter(tuple(comparable(row[name]) for name in names) for row in cursor)
    rows = tables.read(topic, names).select(names).to_pylist()
    actual = Counter(tuple(comparable(row[name]) for name in names) for row in rows)
    missing, surplus = expected - actual, actual - expected
    example = next(iter([*missing, *surplus]), ())
    return TableAccount(
        table,
        expected.total(),
        actual.total(),
        missing.total(),
        surplus.total(),
        expected.total() * len(names),
        repr(example),
    )


def comparable(value: Any) -> Any:
    """Return a datetime in UTC, and other values unchanged. A datetime without a time zone is taken to be in UTC."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    return value
