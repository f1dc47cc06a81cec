"""The SQL sink, `format("ottla.sql")`: executors write rows to PostgreSQL, MySQL/MariaDB and SQLite, without JDBC.

Each task writes its rows in a transaction, together with a marker in the table `ottla_sink_batches`, which contains the
query and the micro-batch. `writer` describes how this makes writes exactly once. The row of the marker is locked first.
If an attempt of a task that Spark considers lost is still running, the next attempt waits for it, and finds its marker
if it has committed. A task stores its rows until the commit (`spill_buffer`), because it may have to write them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ottla.errors import ConfigurationError, KafkaError
from ottla.spark.options.options import OptionRow, warn_of_unknown
from ottla.spark.options.sink_options import ONCE_OPTIONS, batch_id
from ottla.spark.sink.spill_buffer import SpillBuffer
from ottla.spark.sink.writer import BatchWriter, StaleTask, StreamWriter, Task, Written, recognized

try:
    import sqlalchemy as sa
    from sqlalchemy.dialects import mysql
    from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

    from ottla.spark.sink.commit_markers import (
        BATCHES,
        INSERTS,
        METADATA,
        TABLE_LENGTH,
        locked_marker,
        mark,
        stale_task,
    )
    from ottla.spark.sink.sql_rows import rows_of
    from ottla.spark.sink.sql_types import column_types
except ImportError as error:
    raise ConfigurationError('format("ottla.sql") needs sqlalchemy: pip install "ottla[sql]"') from error

SQL_OPTIONS: Final = (
    OptionRow(
        "url",
        "",
        "both",
        "URL of the database: sqlite:///FILE, postgresql://user@host/db, or mysql://user@host/db (also for MariaDB).",
    ),
    OptionRow(
        "dbtable",
        "",
        "both",
        "TABLE or SCHEMA.TABLE to write to; created with the DataFrame's columns if it does not exist.",
    ),
    OptionRow(
        "keyColumns",
        "",
        "both",
        "Columns, separated by commas, that identify a row, so that it is updated; without them rows are appended.",
    ),
    *ONCE_OPTIONS,
)
"""All options of the sink."""

DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
ROWS_AT_ONCE: Final = 5_000
TRIES: Final = 5
"""Maximum number of attempts at a transaction that the database rolls back because of other transactions."""
CONNECT_SECONDS: Final = 30
"""The connect timeout in seconds if the URL has no connect_timeout. The drivers' own defaults may be minutes."""
SINK_ID_LENGTH: Final = 160
"""Maximum length of sinkId in characters. Together with the query's id (36 characters) it must fit into a column of
BATCHES.
"""


@dataclass(frozen=True)
class SqlOptions:
    """The validated options of a write."""

    url: str
    table: str
    keys: tuple[str, ...] = ()
    sink_id: str | None = None
    batch_id: int | None = None


def sql_options(options: Mapping[str, str]) -> SqlOptions:
    """Validate the options of a write, and return them. Their names are case-insensitive, and unknown ones are logged.
    Raises ConfigurationError, which names the option.
    """
    lowered = {name.lower(): value.strip() for name, value in options.items()}
    warn_of_unknown(options, [row.name for row in SQL_OPTIONS], "sink", "ottla.sql")
    for name in ("url", "dbtable"):
        if not lowered.get(name):
            raise ConfigurationError(f'{name} is required: .option("{name}", …)')
    for name, most in (("dbtable", TABLE_LENGTH), ("sinkId", SINK_ID_LENGTH)):
        length = len(lowered.get(name.lower(), ""))
        if length > most:
            raise ConfigurationError(
                f"{name}: it has {length} characters, but at most {most} are allowed; choose a shorter name"
            )
    _checked_url(lowered["url"])
    keys = tuple(dict.fromkeys(key.strip() for key in lowered.get("keycolumns", "").split(",") if key.strip()))
    return SqlOptions(lowered["url"], lowered["dbtable"], keys, lowered.get("sinkid") or None, batch_id(lowered))


def _checked_url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):  # ValueError: a port that is not a number
        # The text is not shown: the password cannot be separated from the rest of it.
        example = "postgresql://user:password@host:port/database"
        raise ConfigurationError(
            f"url: expected a URL such as {example}, with special characters encoded like %40"
        ) from None
    backend = url.get_backend_name()
    if backend not in DRIVERS:
        raise ConfigurationError(f"url: {backend} is not supported: use sqlite, postgresql or mysql")
    if backend == "sqlite" and (not url.database or ":memory:" in url.database):
        raise ConfigurationError(
            f"url: {text} is in memory, so each task would have its own database: use sqlite:///FILE"
        )
    return url.set(drivername=DRIVERS[backend]) if "+" not in url.drivername else url


class SqlSource(DataSource):
    """`format("ottla.sql")`: it can only be written to. Spark's own JDBC source reads tables."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "ottla.sql"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Create missing tables, and return the writer for `df.write`. Raises ConfigurationError for mode("overwrite"),
        for invalid options or columns, and if the database or the table cannot be used.
        """
        if overwrite:
            raise ConfigurationError(
                'mode("overwrite") is not supported: delete the rows of the table, and use mode("append")'
            )
        return BatchWriter(self._sink(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - the name is Spark's
        """Create missing tables, and return the writer for `df.writeStream`. Raises ConfigurationError for output mode
        complete without keyColumns, for invalid options or columns, and if the database or the table cannot be used.
        """
        if overwrite and not sql_options(self.options).keys:
            raise ConfigurationError(
                'outputMode("complete") needs the option keyColumns, by which rows are updated; or use append'
            )
        return StreamWriter(self._sink(schema))

    def _sink(self, schema: StructType) -> SqlSink:
        options = sql_options(self.options)
        sink = SqlSink(options, column_types(schema, options.keys))
        sink.make_tables()
        return sink


class SqlSink:
    """Writes rows to a table. Spark serializes it for the workers."""

    def __init__(self, options: SqlOptions, types: Mapping[str, Any]) -> None:
        self.options = options
        self.sink_id: str | None = options.sink_id
        self.batch_id: int | None = options.batch_id
        self.types: dict[str, Any] = dict(types)

    def make_tables(self) -> None:
        """Create the tables that do not exist, and check them. Runs in the driver, because tasks would interfere with
        each other. Raises ConfigurationError if the database or a table cannot be used for this write.
        """
        engine = self._engine()
        try:
            with _reached(engine) as connection:
                METADATA.create_all(connection)
                self._table(sa.MetaData()).create(connection, checkfirst=True)
                connection.commit()
                inspector = sa.inspect(connection)
                self._check_columns(inspector)
                self._check_keys(inspector)
                self._check_transactions(connection)
        except DBAPIError as error:
            raise ConfigurationError(f"dbtable: cannot create or use {self.options.table}: {error.orig}") from error
        finally:
            engine.dispose()

    def _check_columns(self, inspector: sa.Inspector) -> None:
        """Raise ConfigurationError if an existing table lacks columns. Otherwise all tasks would fail."""
        schema, name = _schema_and_name(self.options.table)
        columns = [str(column["name"]) for column in inspector.get_columns(name, schema)]
        # Only PostgreSQL has case-sensitive names.
        same = str if inspector.dialect.name == "postgresql" else str.lower
        missing = [column for column in self.types if same(column) not in map(same, columns)]
        if missing:
            raise ConfigurationError(
                f"dbtable: the table {self.options.table} has no column {', '.join(missing)} (it has"
                f" {', '.join(columns)}): rename or drop columns of the DataFrame, or add them to the table"
            )

    def _check_keys(self, inspector: sa.Inspector) -> None:
        """Raise ConfigurationError if an existing table has no unique index on keyColumns. MySQL would then append rows
        instead of updating them.
        """
        keys = self.options.keys
        if not keys:
            return
        schema, name = _schema_and_name(self.options.table)
        constraints: list[Any] = [inspector.get_pk_constraint(name, schema)["constrained_columns"]]
        constraints += [one["column_names"] for one in inspector.get_unique_constraints(name, schema)]
        constraints += [one["column_names"] for one in inspector.get_indexes(name, schema) if one["unique"]]
        if {key.lower() for key in keys} not in [{str(column).lower() for column in one} for one in constraints]:
            raise ConfigurationError(
                f"keyColumns: the table {self.options.table} has no primary key or unique index of just"
                f" {', '.join(keys)}, so they do not identify rows: create one, or set other columns"
            )

    def _check_transactions(self, connection: sa.Connection) -> None:
        """Raise ConfigurationError if a table in MySQL does not support transactions, because the rows of a failed task
        would remain.
        """
        if connection.dialect.name != "mysql":
            return
        schema, name = _schema_and_name(self.options.table)
        for place, table in ((schema, name), (BATCHES.schema, BATCHES.name)):
            engine = connection.scalar(_WITHOUT_TRANSACTIONS, {"place": place, "name": table})
            if engine is not None:
                named = f"{place}.{table}" if place else table
                raise ConfigurationError(
                    f"dbtable: the table {named} has the engine {engine}, which has no transactions: a task that runs"
                    f" again would write rows twice: alter table {named} engine=InnoDB, or name another table"
                )

    def _table(self, metadata: sa.MetaData) -> sa.Table:
        columns: list[Any] = [
            sa.Column(name, kind, primary_key=name in self.options.keys, autoincrement=False)
            for name, kind in self.types.items()
        ]
        schema, name = _schema_and_name(self.options.table)
        return sa.Table(name, metadata, *columns, schema=schema)

    def _engine(self) -> sa.Engine:
        url = _checked_url(self.options.url)
        try:
            # Parameters are the rows: not for logs.
            engine = sa.create_engine(url, poolclass=sa.NullPool, connect_args=_patience(url), hide_parameters=True)
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"url: {error}; install the driver, such as pip install 'psycopg[binary]'"
            ) from error
        if url.get_backend_name() == "sqlite":
            _make_transactions_real(engine)
        if url.get_backend_name() == "mysql":
            _make_strict(engine)
        return engine

    def write(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows and its marker in one transaction, unless the marker says that they have been written."""
        engine = self._engine()
        try:
            with SpillBuffer() as rows:
                rows.extend(batches)
                return self._write_held(engine, task, rows)
        finally:
            engine.dispose()

    def _write_held(self, engine: sa.Engine, task: Task, rows: SpillBuffer) -> Written:
        for last in range(TRIES):
            try:
                return self._write_once(engine, task, rows)
            except OperationalError as error:
                if last == TRIES - 1 or not _is_collision(error):
                    raise KafkaError(
                        f"dbtable: cannot write {self.options.table} of {_shown(engine)}: {error.orig}"
                    ) from error
            except DBAPIError as error:
                raise ConfigurationError(
                    f"dbtable: the table {self.options.table} rejects a row: {error.orig}. Cast the columns"
                    " to the types of the table, and remove rows that it does not accept"
                ) from error
        raise AssertionError("unreachable")

    def _write_once(self, engine: sa.Engine, task: Task, rows: SpillBuffer) -> Written:
        with engine.begin() as connection:
            before = locked_marker(connection, task, self.options.table)
            if before.batch_id >= task.batch_id:
                return recognized(task, before, rows.count, "dbtable")
            table = self._table(sa.MetaData())
            statement = _insert(connection.dialect.name, table, self.options.keys)
            for batch in rows:
                for first in range(0, batch.num_rows, ROWS_AT_ONCE):
                    connection.execute(statement, rows_of(batch.slice(first, ROWS_AT_ONCE), self.options.keys))
            mark(connection, task, self.options.table, rows.count)
        return Written(task, rows.count)

    def place(self, task: Task) -> str:
        """Return a name of the target that is the same for all tasks of a query: the query, the table and the URL."""
        return f"{task.query} {self.options.table} {self.options.url}"

    def stale_task(self, task: Task, tasks: set[int]) -> StaleTask | None:
        """Return the tasks other than `tasks` that have written rows of the micro-batch of `task`, and the number of
        these rows. Return None if there are none, or with keyColumns, because a row that is written again is then
        updated to the same values. Runs in the driver.
        """
        if self.options.keys:
            return None  # Writing a row again updates it to the same values.
        engine = self._engine()
        try:
            with engine.connect() as connection:
                return stale_task(connection, task, self.options.table, tasks)
        finally:
            engine.dispose()


_WITHOUT_TRANSACTIONS: Final = sa.text(
    "select e.engine from information_schema.tables t join information_schema.engines e on e.engine = t.engine"
    " where t.table_schema = coalesce(:place, database()) and t.table_name = :name and e.transactions <> 'YES'"
)
"""Selects the engine of a MySQL table if it does not support transactions; no row otherwise."""


def _reached(engine: sa.Engine) -> sa.Connection:
    """Return a connection. Raises ConfigurationError if the database cannot be connected to."""
    try:
        return engine.connect()
    except DBAPIError as error:
        raise ConfigurationError(f"url: cannot use {_shown(engine)}: {error.args[0]}") from error


def _shown(engine: sa.Engine) -> str:
    return engine.url.render_as_string(hide_password=True)


def _schema_and_name(table: str) -> tuple[str | None, str]:
    """Return the schema (None if there is none) and the table name from `table` or `schema.table`."""
    schema, _, name = table.rpartition(".")
    return schema or None, name


def _insert(dialect: str, table: sa.Table, keys: tuple[str, ...]) -> Any:
    """Return the statement that inserts rows. With keys, rows whose keys exist are updated instead."""
    statement = INSERTS[dialect](table)
    if not keys:
        return statement
    others = [column.name for column in table.columns if column.name not in keys]
    if isinstance(statement, mysql.Insert):
        if not others:
            # Not IGNORE, which would also cut keys that are too long, and take them for those that begin like them.
            return statement.on_duplicate_key_update({name: table.c[name] for name in keys})
        return statement.on_duplicate_key_update({name: statement.inserted[name] for name in others})
    if not others:
        return statement.on_conflict_do_nothing()
    changes = {name: statement.excluded[name] for name in others}
    return statement.on_conflict_do_update(index_elements=list(keys), set_=changes)


def _is_collision(error: OperationalError) -> bool:
    """Return whether the transaction failed because of a concurrent one (deadlock, lock timeout or serialization
    failure), so that it can be retried.
    """
    original = error.orig
    if getattr(original, "sqlstate", None) in ("40001", "40P01"):
        return True
    code = original.args[0] if original is not None and original.args else None
    return code in (1213, 1205, 1020) or "locked" in str(original)


def _patience(url: sa.URL) -> dict[str, Any]:
    """Return the argument for the connect timeout, or no argument if the URL contains one or the database is a file."""
    named = "connect_timeout" in url.query or url.get_backend_name() == "sqlite"
    return {} if named else {"connect_timeout": CONNECT_SECONDS}


def _make_strict(engine: sa.Engine) -> None:
    """Let the MySQL server reject values that do not fit. By default it may truncate texts, even keys, and limit
    numbers.
    """

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("set session sql_mode = concat_ws(',', nullif(@@sql_mode, ''), 'STRICT_ALL_TABLES')")


def _make_transactions_real(engine: sa.Engine) -> None:
    """Let SQLite lock the database when a transaction begins. Its driver would do so only at the first write, when
    values that were read may be outdated.
    """

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma busy_timeout=60000")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("begin immediate")
