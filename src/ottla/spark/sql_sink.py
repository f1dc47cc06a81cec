"""Writing tables with `format("ottla.sql")`: PostgreSQL, MySQL/MariaDB and SQLite, without JDBC, from the executors.

Each task writes its rows in one transaction, and in the same one its line of the table `ottla_sink_batches`: which
micro-batch of which query that was. See `writer` for what that makes of it. That line is locked first, so a task that
was thought dead and its second attempt go one after the other, and whoever comes second finds the rows written. A task
holds its rows in memory until then, as it may have to write them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.errors import ConfigurationError
from ottla.spark.options import OptionRow, warn_of_unknown
from ottla.spark.sink_options import ONCE_OPTIONS, batch_id
from ottla.spark.writer import BatchWriter, Marker, Share, StreamWriter, Written, recognized

try:
    import sqlalchemy as sa
    from sqlalchemy.dialects import mysql, postgresql, sqlite
    from sqlalchemy.exc import ArgumentError, OperationalError
except ImportError as error:
    raise ConfigurationError('format("ottla.sql") needs sqlalchemy: pip install "ottla[sql]"') from error

SQL_OPTIONS: Final = (
    OptionRow("url", "", "both", "sqlite:///FILE, postgresql://user@host/db or mysql://user@host/db."),
    OptionRow("dbtable", "", "both", "TABLE or SCHEMA.TABLE to write; made of the DataFrame's columns where missing."),
    OptionRow("keyColumns", "", "both", "Columns, separated by commas, that rows are updated by; without: appended."),
    *ONCE_OPTIONS,
)
"""Every option of the sink."""

DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
ROWS_AT_ONCE: Final = 5_000
TRIES: Final = 5
"""How often a transaction is made again that the database has given up to resolve a deadlock."""
CONNECT_SECONDS: Final = 30
"""The time limit of a connection, as the URL's connect_timeout: the drivers' own may be minutes."""
KEY_LENGTH: Final = 255
"""Characters of a text column that is part of a key: MySQL indexes no text without a length."""
KEY_TEXT: Final = sa.String(KEY_LENGTH).with_variant(
    mysql.VARCHAR(KEY_LENGTH, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
)
"""By its default collation MySQL takes /a and /A for the same key, and would update one row with the other."""

METADATA: Final = sa.MetaData()
BATCHES: Final = sa.Table(
    "ottla_sink_batches",
    METADATA,
    sa.Column("query", sa.String(200), primary_key=True),
    # A copied checkpoint, or one sinkId for two writes, must not take the rows of one table for those of another.
    sa.Column("written_table", sa.String(128), primary_key=True),
    sa.Column("task", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("batch_id", sa.BigInteger, nullable=False),
    sa.Column("row_count", sa.BigInteger, nullable=False),
)


@dataclass(frozen=True)
class SqlOptions:
    """The options of one write, checked."""

    url: str
    table: str
    keys: tuple[str, ...] = ()
    sink_id: str | None = None
    batch_id: int | None = None


def sql_options(given: Mapping[str, str]) -> SqlOptions:
    """Check what the user set. Names are case-insensitive, as in Spark. Raises ConfigurationError naming the option."""
    lowered = {name.lower(): value.strip() for name, value in given.items()}
    warn_of_unknown(given, [row.name for row in SQL_OPTIONS], "sink", "ottla.sql")
    for name in ("url", "dbtable"):
        if not lowered.get(name):
            raise ConfigurationError(f'{name} is required: .option("{name}", …)')
    _checked_url(lowered["url"])
    keys = tuple(key.strip() for key in lowered.get("keycolumns", "").split(",") if key.strip())
    return SqlOptions(lowered["url"], lowered["dbtable"], keys, lowered.get("sinkid") or None, batch_id(lowered))


def _checked_url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        # The text is not shown: who cannot be told from the rest of it is the password.
        wanted = "postgresql://user:password@host:port/database"
        raise ConfigurationError(f"url: it is not a URL such as {wanted}; write special characters as %40") from None
    backend = url.get_backend_name()
    if backend not in DRIVERS:
        raise ConfigurationError(f"url: {backend} is not known; sqlite, postgresql or mysql is wanted")
    return url.set(drivername=DRIVERS[backend]) if "+" not in url.drivername else url


def column_types(schema: StructType, keys: tuple[str, ...]) -> dict[str, Any]:
    """The SQL type of each column. ConfigurationError for a type that has none, and for keys that are no columns."""
    missing = [key for key in keys if key not in schema.fieldNames()]
    if missing:
        raise ConfigurationError(f"keyColumns: {', '.join(missing)} is no column ({', '.join(schema.fieldNames())})")
    return {field.name: _sql_type(field.name, field.dataType, field.name in keys) for field in schema.fields}


def _sql_type(name: str, kind: DataType, is_key: bool) -> Any:
    if isinstance(kind, StringType):
        return KEY_TEXT if is_key else sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
    if isinstance(kind, DecimalType):
        return sa.Numeric(kind.precision, kind.scale)
    for spark, sql in TYPES.items():
        if isinstance(kind, spark):
            return sql
    raise ConfigurationError(f"the column {name} is of type {kind.simpleString()}, which has no SQL type: cast it")


TYPES: Final[dict[type[DataType], Any]] = {
    BooleanType: sa.Boolean(),
    ShortType: sa.SmallInteger(),
    IntegerType: sa.Integer(),
    LongType: sa.BigInteger(),
    FloatType: sa.Float(24),
    DoubleType: sa.Float(53),
    BinaryType: sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb"),
    DateType: sa.Date(),
    TimestampType: sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb"),
    TimestampNTZType: sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb"),
}
"""Spark's types and what stands for them."""


class SqlSource(DataSource):
    """`format("ottla.sql")`: a sink; tables are read by Spark's own JDBC source."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "ottla.sql"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For `df.write`."""
        if overwrite:
            raise ConfigurationError('mode("overwrite") is not offered: empty the table, and use mode("append")')
        return BatchWriter(self._sink(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - the name is Spark's
        """For `df.writeStream`. The output mode complete updates rows by keyColumns; ConfigurationError without."""
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
    """Writes rows. Travels to the workers."""

    def __init__(self, options: SqlOptions, types: Mapping[str, Any]) -> None:
        self.options = options
        self.sink_id = options.sink_id
        self.batch_id = options.batch_id
        self.types = dict(types)

    def make_tables(self) -> None:
        """Make the tables that are missing, in the driver: tasks that did would get into each other's way."""
        engine = self._engine()
        try:
            METADATA.create_all(engine)
            self._table(sa.MetaData()).create(engine, checkfirst=True)
            self._check_keys(engine)
        except OperationalError as error:
            shown = engine.url.render_as_string(hide_password=True)
            raise ConfigurationError(f"url: cannot use {shown}: {error.args[0]}") from error
        finally:
            engine.dispose()

    def _check_keys(self, engine: sa.Engine) -> None:
        """ConfigurationError where a table of the user's has no unique keyColumns: MySQL would append silently."""
        keys = self.options.keys
        if not keys:
            return
        schema, name = _schema_and_name(self.options.table)
        inspector = sa.inspect(engine)
        found: list[Any] = [inspector.get_pk_constraint(name, schema)["constrained_columns"]]
        found += [one["column_names"] for one in inspector.get_unique_constraints(name, schema)]
        found += [one["column_names"] for one in inspector.get_indexes(name, schema) if one["unique"]]
        if {key.lower() for key in keys} not in [{str(column).lower() for column in one} for one in found]:
            raise ConfigurationError(
                f"keyColumns: the table {self.options.table} has no primary key or unique index of just"
                f" {', '.join(keys)}, so rows cannot be updated by them: make one, or name other columns"
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
            engine = sa.create_engine(url, poolclass=sa.NullPool, connect_args=_patience(url))
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"url: {error}; install the driver, such as pip install psycopg[binary]"
            ) from error
        if url.get_backend_name() == "sqlite":
            _make_transactions_real(engine)
        return engine

    def write(self, share: Share, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows and its line of BATCHES in one transaction, unless that has the micro-batch."""
        held = [batch for batch in batches if batch.num_rows]
        engine = self._engine()
        try:
            for last in range(TRIES):
                try:
                    return self._write(engine, share, held)
                except OperationalError as error:
                    if last == TRIES - 1 or not _is_collision(error):
                        raise
        finally:
            engine.dispose()
        raise AssertionError("unreachable")

    def _write(self, engine: sa.Engine, share: Share, batches: list[pa.RecordBatch]) -> Written:
        count = sum(batch.num_rows for batch in batches)
        with engine.begin() as connection:
            before = _locked_marker(connection, share, self.options.table)
            if before.batch_id >= share.batch_id:
                return recognized(share, before, count, "checkpoint and table")
            table = self._table(sa.MetaData())
            statement = _insert(connection.dialect.name, table, self.options.keys)
            for batch in batches:
                for first in range(0, batch.num_rows, ROWS_AT_ONCE):
                    connection.execute(statement, _rows(batch.slice(first, ROWS_AT_ONCE), self.options.keys))
            here = _line_of(share, self.options.table)
            connection.execute(sa.update(BATCHES).where(here).values(batch_id=share.batch_id, row_count=count))
        return Written(count)


def _schema_and_name(table: str) -> tuple[str | None, str]:
    """As in Spark's JDBC: `table` or `schema.table`."""
    schema, _, name = table.rpartition(".")
    return schema or None, name


def _rows(batch: pa.RecordBatch, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows, in the order of their keys: tasks that update the same rows then wait for each other in one order."""
    rows: list[dict[str, Any]] = _in_utc(batch).to_pylist()
    if keys:
        # A key that comes twice in a statement is an error in PostgreSQL; the last one counts.
        rows = sorted({tuple(row[key] for key in keys): row for row in rows}.values(), key=lambda r: _order(r, keys))
    return rows


def _in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Instants come in the session's time zone; what has no zone in a database would be another time by it.

    And where clocks are set back, two instants would become one, and with keyColumns one row.
    """
    fields = [f.with_type(pa.timestamp(f.type.unit, "UTC")) if _has_zone(f.type) else f for f in batch.schema]
    return batch.cast(pa.schema(fields))


def _has_zone(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _order(row: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(repr(row[key]) for key in keys)


def _line_of(share: Share, table: str) -> Any:
    """The condition that finds a share's line."""
    is_ours = (BATCHES.c.query == share.query) & (BATCHES.c.written_table == table)
    return is_ours & (BATCHES.c.task == share.partition)


def _locked_marker(connection: sa.Connection, share: Share, table: str) -> Marker:
    """What the share has written last, with its line locked until the end of the transaction."""
    nothing = {"query": share.query, "written_table": table, "task": share.partition, "batch_id": -1, "row_count": 0}
    connection.execute(_insert_missing(connection.dialect.name), nothing)
    chosen = sa.select(BATCHES.c.batch_id, BATCHES.c.row_count).where(_line_of(share, table))
    row = connection.execute(chosen.with_for_update()).one()
    return Marker(row.batch_id, row.row_count)


def _insert_missing(dialect: str) -> Any:
    if dialect in ("mysql", "mariadb"):
        return mysql.insert(BATCHES).prefix_with("IGNORE")
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    return insert(BATCHES).on_conflict_do_nothing()


def _insert(dialect: str, table: sa.Table, keys: tuple[str, ...]) -> Any:
    """Appends, or with keys updates what is there."""
    others = [column.name for column in table.columns if column.name not in keys]
    if dialect in ("mysql", "mariadb"):
        statement: Any = mysql.insert(table)
        if not keys:
            return statement
        if not others:
            return statement.prefix_with("IGNORE")
        return statement.on_duplicate_key_update({name: statement.inserted[name] for name in others})
    statement = postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)
    if not keys:
        return statement
    if not others:
        return statement.on_conflict_do_nothing()
    changes = {name: statement.excluded[name] for name in others}
    return statement.on_conflict_do_update(index_elements=list(keys), set_=changes)


def _is_collision(error: OperationalError) -> bool:
    """Whether the database has rolled the transaction back only because of another one."""
    original = error.orig
    if getattr(original, "sqlstate", None) in ("40001", "40P01"):
        return True
    code = original.args[0] if original is not None and original.args else None
    return code in (1213, 1205, 1020) or "locked" in str(original)


def _patience(url: sa.URL) -> dict[str, Any]:
    """How long a server that does not answer is waited for; what the URL says wins."""
    named = "connect_timeout" in url.query or url.get_backend_name() == "sqlite"
    return {} if named else {"connect_timeout": CONNECT_SECONDS}


def _make_transactions_real(engine: sa.Engine) -> None:
    """By itself the driver of SQLite begins transactions late, when what a writer looked up may have changed."""

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma busy_timeout=60000")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("begin immediate")
