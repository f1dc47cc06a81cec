"""The source of changes: a publication and a logical replication slot of PostgreSQL 12 or later.

The slot keeps the WAL from its position on. Changes are read by SQL functions, which need no connection of the
replication protocol: `pg_logical_slot_peek_binary_changes` shows whole committed transactions in the order of their
commits, and `pg_replication_slot_advance` moves the position when they have been stored.

The slot NAME exists from the end of the snapshot on; before that it is called NAME_snapshot. If a process is killed
while it copies the rows, the next one finds that slot and copies the rows again. The changes since the slot was created
follow, so that every row ends with its newest value, and rows deleted meanwhile are deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from ottla.errors import ConfigurationError
from ottla_pipelines.capture.pgoutput import Column, Message, Relation, decode
from ottla_pipelines.capture.rows import unsupported

OPTIONS: Final = (
    "-c datestyle=ISO -c timezone=UTC -c bytea_output=hex -c extra_float_digits=3 -c intervalstyle=iso_8601"
    " -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c row_security=off"
)
"""Settings of the session that make values independent of the server's settings, and let a copy take its time. Without
row security, PostgreSQL reports a policy that would hide rows, as for pg_dump.
"""
APPLICATION: Final = "ottla capture"
"""The name in pg_stat_activity of the connections that `_connect` opens."""
LOCK_SECONDS: Final = 30
READ_ROWS: Final = 1000

Row = list[str | None]


class TableSource(NamedTuple):
    """A captured table: its columns, and the names of those in its primary key."""

    relation: Relation
    key: tuple[str, ...]

    @property
    def identifier(self) -> sql.Identifier:
        """The table's name in SQL."""
        return sql.Identifier(self.relation.namespace, self.relation.name)


def lsn_number(text: str) -> int:
    """Return a position in the WAL (`16/B374D848`) as a number."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(number: int) -> str:
    """Return a position in the WAL as PostgreSQL writes it."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


class PostgresSource:
    """Reads the changes of some tables. Raises psycopg.Error, DecodingError for messages that cannot be decoded, and
    ConfigurationError for problems that the user has to fix.

    Args:
        url: postgresql://user@host/db, for a user with the attribute REPLICATION who owns the tables.
        name: the name of the publication and of the replication slot.
        tables: the tables, NAME or SCHEMA.NAME.
    """

    def __init__(self, url: str, name: str, tables: Sequence[str]) -> None:
        self._url = url
        self._name = name
        self._names = list(dict.fromkeys(map(_qualified, tables)))
        self._connection = _connect(url)
        self._has_created_publication = False

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def open(self) -> list[TableSource]:
        """Check the server, lock the name against other processes, create the publication if it does not exist, and
        return the tables.
        """
        level = self._one("show wal_level")
        if level != "logical":
            raise ConfigurationError(f"wal_level is {level}: set wal_level = logical, and restart PostgreSQL")
        self._lock()
        tables = [self.table(schema, name) for schema, name in self._names]
        published = {(s, t) for s, t in self._rows(PUBLISHED, [self._name])}
        if not published:
            names = sql.SQL(", ").join(sql.SQL("only {}").format(table.identifier) for table in tables)
            self._connection.execute(sql.SQL("create publication {} for table {}").format(self._identifier, names))
            self._has_created_publication = True
        elif published != set(self._names):
            names_text = ", ".join(sorted(".".join(name) for name in published))
            raise ConfigurationError(f"publication {self._name} has {names_text}: use another --name for other tables")
        return tables

    def _lock(self) -> None:
        """Lock the name until the connection is closed. A killed process keeps its lock for a moment longer."""
        self._connection.execute(f"set lock_timeout = '{LOCK_SECONDS}s'")
        try:
            self._connection.execute("select pg_advisory_lock(hashtextextended(%s, 0))", [self._name])
        except psycopg.errors.LockNotAvailable:
            raise ConfigurationError(f"another process captures {self._name}") from None
        self._connection.execute("set lock_timeout = 0")

    def table(self, schema: str, name: str) -> TableSource:
        """Return a table. Raises ConfigurationError if it cannot be captured."""
        shown = f"{schema}.{name}"
        described = self._rows(DESCRIBED, [schema, name])
        if not described:
            raise ConfigurationError(f"--table {shown}: there is no such table")
        oid, kind, identity = described[0]
        if kind == "p":
            raise ConfigurationError(f"--table {shown}: it is partitioned; capture its partitions, which are tables")
        if kind != "r":
            raise ConfigurationError(f"--table {shown}: it is not a table")
        columns = self._columns(oid)
        key = self.primary_key(oid)
        if not key:
            raise ConfigurationError(f"--table {shown}: it has no primary key, which upserts need")
        if identity not in ("d", "f"):
            raise ConfigurationError(f"--table {shown}: run ALTER TABLE {shown} REPLICA IDENTITY DEFAULT (or FULL)")
        if identity == "d" and self._rows(DEFERRABLE, [oid]):
            # As soon as such a table is published, PostgreSQL rejects its updates and deletes.
            raise ConfigurationError(
                f"--table {shown}: its primary key is deferrable; run ALTER TABLE {shown} REPLICA IDENTITY FULL"
            )
        for column, problem in unsupported(columns).items():
            raise ConfigurationError(f"--table {shown}: the column {column!r} {problem}")
        return TableSource(Relation(oid, schema, name, columns), key)

    def _columns(self, oid: int) -> tuple[Column, ...]:
        return tuple(Column(*row) for row in self._rows(COLUMNS, [oid]))

    def primary_key(self, oid: int) -> tuple[str, ...]:
        """Return the names of the columns of a table's primary key."""
        return tuple(name for (name,) in self._rows(PRIMARY_KEY, [oid]))

    @property
    def has_snapshot(self) -> bool:
        """Whether the rows have been copied completely."""
        return self._has_slot(self._name)

    @property
    def has_begun(self) -> bool:
        """Whether the slot of an unfinished copy of the rows exists."""
        return self._has_slot(self._unfinished)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Create the slot NAME_snapshot unless it exists, and yield a snapshot of the rows.

        The snapshot is at the position of the new slot. If an earlier process has created the slot, the snapshot is
        newer. The changes from the slot's position on then repeat some that the snapshot contains, and end with the
        same rows.
        """
        with _connect(self._url) as reading:
            reading.execute("begin isolation level repeatable read read only")
            if not self.has_begun:
                self._create_slot(reading)
            yield Snapshot(reading)

    def _create_slot(self, reading: psycopg.Connection[Any]) -> None:
        """Create the slot, and let a transaction read the rows as they are at the position of the slot."""
        # This command exports a snapshot as well, which can be imported as long as its connection does nothing else.
        command = sql.SQL("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput EXPORT_SNAPSHOT")
        with psycopg.connect(self._url, autocommit=True, replication="database") as connection:
            ((_, _, name, _),) = connection.execute(command.format(sql.Identifier(self._unfinished))).fetchall()
            reading.execute(sql.SQL("set transaction snapshot {}").format(name))

    def end_snapshot(self) -> None:
        """Record that all rows are stored: replace the slot of the unfinished snapshot by the slot NAME, at the same
        position.
        """
        self._connection.execute("select pg_copy_logical_replication_slot(%s, %s)", [self._unfinished, self._name])
        self.drop_unfinished()

    def drop_unfinished(self) -> None:
        """Drop the slot of an unfinished snapshot, if it exists: it would keep the WAL forever."""
        if self.has_begun:
            self._connection.execute("select pg_drop_replication_slot(%s)", [self._unfinished])

    def undo_open(self) -> None:
        """Drop the slot of an unfinished snapshot, because it would keep the WAL. Also drop the publication, if this
        process has created it and no snapshot is complete.
        """
        self.drop_unfinished()
        if self._has_created_publication and not self.has_snapshot:
            self._connection.execute(sql.SQL("drop publication if exists {}").format(self._identifier))

    def changes(self, limit: int) -> Generator[Message, None, None]:
        """Yield the messages of whole transactions from the slot's position on. Stop after the transaction in which
        `limit` is reached, or at the end of the WAL.
        """
        query = sql.SQL(
            "select data from pg_logical_slot_peek_binary_changes({}, pg_current_wal_flush_lsn(), {},"
            " 'proto_version', '1', 'publication_names', {})"
        ).format(self._name, limit, self._identifier.as_string(self._connection))
        with self._connection.transaction(), self._connection.cursor("ottla_changes", binary=True) as cursor:
            cursor.itersize = READ_ROWS
            for (data,) in cursor.execute(query):
                message = decode(data)
                if message is not None:
                    yield message

    def position(self) -> int:
        """Return the position of the slot."""
        return lsn_number(self._one(POSITION, self._name))

    def end(self) -> int:
        """Return the end of the WAL that has been flushed."""
        return lsn_number(self._one("select pg_current_wal_flush_lsn()"))

    def advance(self, lsn: int) -> None:
        """Move the slot to a position. One that is not after the current position is ignored."""
        if lsn > self.position():
            self._connection.execute("select pg_replication_slot_advance(%s, %s)", [self._name, lsn_text(lsn)])

    def row(self, table: TableSource, key: Mapping[str, str | None]) -> dict[str, str | None] | None:
        """Return the current values of the row with this key, by column; None if the row or the table does not exist
        any more.
        """
        oid = table.relation.oid
        named = self._rows(NAMED, [oid])
        if not named:
            return None
        # The table may have another name or other columns by now.
        namespace, name = named[0]
        current = TableSource(Relation(oid, namespace, name, self._columns(oid)), table.key)
        # All of it: to leave a COPY early would cancel it, and the transaction.
        rows = list(rows_of(self._connection, current, key))
        names = [column.name for column in current.relation.columns]
        return dict(zip(names, rows[0], strict=True)) if rows else None

    @property
    def _identifier(self) -> sql.Identifier:
        return sql.Identifier(self._name)

    @property
    def _unfinished(self) -> str:
        return f"{self._name}_snapshot"

    def _has_slot(self, name: str) -> bool:
        return bool(self._rows("select 1 from pg_replication_slots where slot_name = %s", [name]))

    def _rows(self, query: Any, parameters: Sequence[Any]) -> list[Any]:
        return self._connection.execute(query, parameters).fetchall()

    def _one(self, query: Any, *parameters: Any) -> str:
        return str(self._rows(query, parameters)[0][0])


class Snapshot:
    """The rows of the tables at one moment."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def rows(self, table: TableSource) -> Generator[Row, None, None]:
        """Yield all rows of a table, in PostgreSQL's text format."""
        yield from rows_of(self._connection, table)


def rows_of(
    connection: psycopg.Connection[Any], table: TableSource, key: Mapping[str, str | None] | None = None
) -> Iterator[Row]:
    """Yield rows as COPY writes them: in the same text format as pgoutput. `key`: only the row with this key."""
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.relation.columns)
    condition = sql.SQL(" and ").join(
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in (key or {}).items()
    )
    where = sql.SQL(" where {}").format(condition) if key else sql.SQL("")
    query = sql.SQL("copy (select {} from only {}{}) to stdout").format(names, table.identifier, where)
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for row in copy.rows():
            yield [None if value is None else _text(value) for value in row]


def _connect(url: str) -> psycopg.Connection[Any]:
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The message of libpq has all of it, with the password.
        raise ConfigurationError("--database: expected a URL such as postgresql://user@host/db") from None
    # In a database with another encoding, pgoutput and COPY write that of the client.
    return psycopg.connect(url, autocommit=True, options=OPTIONS, application_name=APPLICATION, client_encoding="utf8")


def _qualified(table: str) -> tuple[str, str]:
    schema, dot, name = table.partition(".")
    return (schema, name) if dot else ("public", table)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else bytes(value).decode()


DESCRIBED: Final = """
    select c.oid, c.relkind, c.relreplident from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = %s and c.relname = %s
"""
NAMED: Final = """
    select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = %s
"""
COLUMNS: Final = """
    select attname, atttypid, atttypmod from pg_attribute
    where attrelid = %s and attnum > 0 and not attisdropped and attgenerated = '' order by attnum
"""
PRIMARY_KEY: Final = """
    select a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
    where i.indrelid = %s and i.indisprimary order by array_position(i.indkey::int2[], a.attnum)
"""
DEFERRABLE: Final = "select 1 from pg_index where indrelid = %s and indisprimary and not indimmediate"
POSITION: Final = "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s"
PUBLISHED: Final = "select schemaname, tablename from pg_publication_tables where pubname = %s"
