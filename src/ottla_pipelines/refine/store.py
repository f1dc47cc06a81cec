"""The results in a SQL database, written exactly once.

All results of a micro-batch are written in one transaction: its id, the statistics, the new weather, the frontiers, the
waiting flights, and the offsets that were read. After a crash, Spark runs a micro-batch again with the same id and
offsets. If the id is in the database, nothing is done. The primary key keeps two writers from committing the same id.
So the id and the results are committed together or not at all, no matter when a process is killed. SQLite and
PostgreSQL are supported.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Table, case, create_engine, delete, event, func, insert, make_url, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, OperationalError

from ottla.errors import ConfigurationError, IllegalStateError
from ottla.model import TopicPartition
from ottla_pipelines.catalog import BATCHES, FRONTIERS, OBSERVATIONS, PENDING, PROGRESS, TABLES

Rows = Sequence[Mapping[str, Any]]


class Read(NamedTuple):
    """The next offset of a partition, and the number of records that were read from it."""

    next_offset: int
    records: int


@dataclass(frozen=True)
class Results:
    """The results of one micro-batch."""

    reads: Mapping[TopicPartition, Read]
    rows_out: int
    adds: Mapping[str, Rows] = field(default_factory=dict)
    """Rows to add to tables of statistics, by the names of the tables."""
    observations: Rows = ()
    frontiers: Rows = ()
    pending: Rows = ()
    """All flights that wait after this micro-batch. They replace the earlier ones."""


@dataclass(frozen=True)
class State:
    """The committed state, from which a restarted pipeline continues."""

    observations: Rows
    frontiers: Mapping[str, dt.datetime]
    pending: Sequence[str]


class Store:
    """The tables of the pipelines in a database. Thread-safe: every call uses its own connection."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, url: str) -> Store:
        """Return a store for `sqlite:///file` or `postgresql://user@host/database`. Raises ConfigurationError if the
        database cannot be opened.
        """
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise ConfigurationError(f"--database: {url!r} is not a URL such as sqlite:///results.db") from None
        if parsed.get_backend_name() not in _INSERTS:
            raise ConfigurationError(
                f"--database: {parsed.get_backend_name()} is not supported; use sqlite or postgresql"
            )
        if parsed.drivername == "postgresql":
            # SQLAlchemy's default driver for PostgreSQL is psycopg2, which is older.
            parsed = parsed.set(drivername="postgresql+psycopg")
        shown = parsed.render_as_string(hide_password=True)
        try:
            engine = create_engine(parsed)
            if engine.dialect.name == "sqlite":
                _prepare_sqlite(engine)
            with engine.connect():
                pass
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"--database: {error}; install it with `pip install 'ottla[postgresql]'`"
            ) from error
        except OperationalError as error:
            raise ConfigurationError(f"--database: cannot open {shown}: {error.args[0]}") from error
        return cls(engine)

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def create(self) -> None:
        """Create the tables that do not exist."""
        TABLES.create_all(self.engine)

    def drop(self) -> None:
        """Drop the tables of the pipelines. Other tables in the database are not changed."""
        TABLES.drop_all(self.engine)

    def is_committed(self, batch_id: int, query_id: str) -> bool:
        """Return whether the results of a micro-batch are committed. Raises IllegalStateError if the database has
        results of another query.

        If a checkpoint is deleted, ids start at 0 again, and new micro-batches would be mistaken for committed ones.
        """
        with self.engine.connect() as connection:
            return _committed(connection, batch_id, query_id)

    def commit(self, batch_id: int, query_id: str, results: Results) -> bool:
        """Write all results in one transaction. Return False, without writing, if the micro-batch is committed
        already. Raises IllegalStateError if the database has results of another query.
        """
        with self.engine.begin() as connection:
            if _committed(connection, batch_id, query_id):
                return False
            _insert_batch(connection, batch_id, query_id, results)
            for name, rows in results.adds.items():
                add(connection, TABLES.tables[name], rows)
            _advance(connection, results.reads)
            upsert(connection, OBSERVATIONS, results.observations)
            upsert(connection, FRONTIERS, results.frontiers)
            connection.execute(delete(PENDING))
            if results.pending:
                connection.execute(insert(PENDING), list(results.pending))
        return True

    def state(self) -> State:
        """Return the committed state."""
        with self.engine.connect() as connection:
            observations = [dict(row._mapping) for row in connection.execute(select(OBSERVATIONS))]
            frontiers = {row.origin: row.time_hour for row in connection.execute(select(FRONTIERS))}
            pending = list(connection.scalars(select(PENDING.c.value).order_by(PENDING.c.seq)))
        return State(observations, frontiers, pending)

    def progress(self) -> dict[TopicPartition, Read]:
        """Return the next offset of each partition, and the number of its records that were read."""
        with self.engine.connect() as connection:
            rows = connection.execute(select(PROGRESS)).all()
        return {TopicPartition(r.topic, r.partition): Read(r.next_offset, r.records) for r in rows}

    def totals(self) -> tuple[int, int, int]:
        """Return the committed numbers of micro-batches, of records read and of rows written."""
        sums = func.coalesce(func.sum(BATCHES.c.records_in), 0), func.coalesce(func.sum(BATCHES.c.rows_out), 0)
        with self.engine.connect() as connection:
            count, records, rows = connection.execute(select(func.count(), *sums).select_from(BATCHES)).one()
        return int(count), int(records), int(rows)

    def batch_ids(self) -> list[int]:
        """Return the ids of the micro-batches that wrote rows, in ascending order."""
        with self.engine.connect() as connection:
            return list(
                connection.scalars(select(BATCHES.c.batch_id).where(BATCHES.c.rows_out > 0).order_by("batch_id"))
            )

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """Return all rows of a table, sorted by primary key."""
        with self.engine.connect() as connection:
            result = connection.execute(select(table).order_by(*table.primary_key.columns))
            return [dict(row._mapping) for row in result]


def _prepare_sqlite(engine: Engine) -> None:
    """Make transactions begin explicitly, with a write lock. By default, the driver begins one only with the first
    write, so that earlier reads may be outdated.
    """

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma synchronous=full")
        connection.execute("pragma busy_timeout=30000")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("begin immediate")


def _committed(connection: Connection, batch_id: int, query_id: str) -> bool:
    writers = set(connection.scalars(select(BATCHES.c.query_id).distinct()))
    if writers - {query_id}:
        raise IllegalStateError(
            f"the database has results of another run (query {min(writers)}; this one is {query_id}), because the"
            " checkpoint was deleted or replaced. Start a new run without --resume"
        )
    return connection.scalar(select(func.count()).where(BATCHES.c.batch_id == batch_id)) == 1


def _insert_batch(connection: Connection, batch_id: int, query_id: str, results: Results) -> None:
    row = {
        "batch_id": batch_id,
        "query_id": query_id,
        "records_in": sum(read.records for read in results.reads.values()),
        "rows_out": results.rows_out,
        "committed_at": dt.datetime.now(dt.UTC),
    }
    connection.execute(insert(BATCHES), row)


def _advance(connection: Connection, reads: Mapping[TopicPartition, Read]) -> None:
    stored = {TopicPartition(r.topic, r.partition): r.records for r in connection.execute(select(PROGRESS))}
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "next_offset": read.next_offset,
            "records": stored.get(tp, 0) + read.records,
        }
        for tp, read in reads.items()
    ]
    upsert(connection, PROGRESS, rows)


_INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def upsert(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows, or update the rows with the same primary key."""
    _merge(connection, table, rows, lambda name, excluded: excluded[name])


def add(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows, or add their values to the rows with the same primary key. A column whose name ends in `_max` gets
    the larger value.
    """
    _merge(connection, table, rows, lambda name, excluded: _combined(table, name, excluded))


def _combined(table: Table, name: str, excluded: Any) -> Any:
    old, new = table.c[name], excluded[name]
    if not name.endswith("_max"):
        return old + new
    # Either value is null if its group has no values yet.
    both = func.coalesce(old, new), func.coalesce(new, old)
    return case((both[0] > both[1], both[0]), else_=both[1])


def _merge(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]], value: Any) -> None:
    listed = list(rows)
    if not listed:
        return
    statement = _INSERTS[connection.dialect.name](table)
    keys = [column.name for column in table.primary_key.columns]
    others = [column.name for column in table.columns if column.name not in keys]
    changes = {name: value(name, statement.excluded) for name in others}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes), listed)
