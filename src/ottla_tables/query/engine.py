"""Runs SQL in DuckDB: each topic in a query is a view of its table's files and of the later records in its log.

The table's offsets show where the log continues, so that no record is missing or duplicated. A topic without the config
ottla.table.format is read from its first offset.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from ottla.config.options import nearest
from ottla_tables.columns import record_batch
from ottla_tables.errors import TableError
from ottla_tables.formats.factory import TableFactory, table_name
from ottla_tables.log.lookup import Lookup, TableTopic
from ottla_tables.log.tail import read_tail
from ottla_tables.reading import TopicRead, plan_read
from ottla_tables.values.arrow_types import lacks
from ottla_tables.values.factory import ConverterFactory

log: Final = logging.getLogger("ottla.tables")

ATTEMPTS: Final = 10
"""Maximum number of attempts of a query whose files are renamed or deleted while it runs."""
MISSING_TABLE: Final = re.compile(r"^Catalog Error: Table with name (.+) does not exist!")
MISSING_COLUMN: Final = re.compile(r"^Binder Error: Referenced column .+ not found in FROM clause!")
WITHOUT_FIELDS: Final = ("bytes", "text")
"""Values of ottla.table.schema with which the fields of values do not become columns."""
FETCH_ROWS: Final = 10_000
TOMBSTONE: Final = "ottla_is_tombstone"


class Result(NamedTuple):
    """The result of a query: the names of its columns, its rows, and by topic and partition the offset up to which the
    query has read.
    """

    names: list[str]
    rows: Iterator[tuple[Any, ...]]
    offsets: dict[str, dict[int, int]]


class QueryEngine:
    """Runs queries over the topics of a cluster.

    Args:
        lookup: looks up topics and offsets.
        tables: opens the tables.
        configs: configs of the consumer that reads the log.
    """

    def __init__(self, lookup: Lookup, tables: TableFactory, configs: Mapping[str, Any]) -> None:
        self._lookup = lookup
        self._tables = tables
        self._converters = ConverterFactory(tables.properties)
        self._configs = configs

    def run(self, sql: str) -> Result:
        """Run a query, and return its result. Raises TableError for errors in the SQL, and KafkaError or an error
        of a catalog or object store if topics or tables cannot be read.
        """
        for attempt in range(ATTEMPTS):
            try:
                return self._run(sql)
            except duckdb.IOException as error:  # a file has expired after the table was loaded
                if attempt == ATTEMPTS - 1:
                    raise TableError(f"files of a table cannot be read: {error}") from error
            except duckdb.Error as error:
                raise TableError(self._described(str(error), sql)) from error
        raise AssertionError("unreachable")

    def _described(self, message: str, sql: str) -> str:
        """Return DuckDB's message about a query. If a table is missing, return instead that the topic does not exist,
        with the most similar topic, if any. If a column is missing, add which topics have no columns for fields.
        """
        if MISSING_COLUMN.search(message):
            with duckdb.connect() as connection:
                topics = self._topics_in(connection, sql)
            return "\n".join([message, *(hint for topic in topics if (hint := _hint_about_fields(topic)))])
        missing = MISSING_TABLE.search(message)
        if missing is None:
            return message
        return f"topic {missing[1]} does not exist{nearest(missing[1], map(table_name, self._lookup.names()))}"

    def _run(self, sql: str) -> Result:
        connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        offsets = {}
        for topic in self._topics_in(connection, sql):
            offsets[topic.name] = View(
                connection, topic, self._lookup, self._tables, self._converters, self._configs
            ).create()
        cursor = connection.execute(sql)
        names = [column[0] for column in cursor.description or ()]
        return Result(names, _rows(cursor), offsets)

    def _topics_in(self, connection: Any, sql: str) -> list[TableTopic]:
        tables = {name.lower() for name in _tables_in(connection, sql)}
        topics = [name for name in self._lookup.names() if {name.lower(), table_name(name).lower()} & tables]
        return self._lookup.topics(topics, all_formats=True) if topics else []


def _hint_about_fields(topic: TableTopic) -> str | None:
    schema = topic.config.ottla_table_schema
    if schema not in WITHOUT_FIELDS:
        return None
    return (
        f"topic {topic.name} has ottla.table.schema={schema}, with which the fields of its values are no columns; "
        "they are with json or registry"
    )


def _tables_in(connection: Any, sql: str) -> set[str]:
    """Return the names of the tables in a query. In statements other than SELECT, such as COPY, any word may be the
    name of a table, so all words are returned.
    """
    # Not get_table_names(): it looks for columns, too, and there are none before the views.
    ((serialized,),) = connection.execute("select json_serialize_sql(?::varchar)", [sql]).fetchall()
    tree = json.loads(serialized)
    return set(re.findall(r"[\w.-]+", sql)) if tree.get("error") else set(_base_tables(tree))


def _base_tables(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            yield node["table_name"]
        for child in node.values():
            yield from _base_tables(child)
    elif isinstance(node, list):
        for child in node:
            yield from _base_tables(child)


def _rows(cursor: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query. Raises TableError if it fails meanwhile, for example in a cast."""
    try:
        while rows := cursor.fetchmany(FETCH_ROWS):
            yield from rows
    except duckdb.Error as error:
        raise TableError(str(error)) from error


class View:
    """The view of one topic in a connection of DuckDB."""

    def __init__(
        self,
        connection: Any,
        topic: TableTopic,
        lookup: Lookup,
        tables: TableFactory,
        converters: ConverterFactory,
        configs: Mapping[str, Any],
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._lookup = lookup
        self._tables = tables
        self._converters = converters
        self._configs = configs
        self._name = table_name(topic.name)

    def create(self) -> dict[int, int]:
        """Create the view, and return the offset of each partition up to which the topic was read."""
        read = plan_read(self._topic, self._lookup, self._tables, self._converters)
        self._create_tail(read)
        tail = f"select * exclude ({TOMBSTONE}) from {_quoted(self._tail)}"
        source = self._files(read)
        if self._topic.config.ottla_table_mode == "upsert":
            key = "table_row.partition = tail_row.partition and table_row.key = tail_row.key"
            source = source and (
                f"select * from ({source}) table_row where not exists "
                f"(select 1 from {_quoted(self._tail)} tail_row where {key})"
            )
            tail = (
                f"select * exclude ({TOMBSTONE}) from (select * from {_quoted(self._tail)} qualify row_number() "
                f'over (partition by partition, key order by "offset" desc) = 1) where not {TOMBSTONE}'
            )
        query = f"{source} union all by name {tail}" if source else tail
        for name in {self._name, self._topic.name}:
            self._connection.execute(f"create or replace temp view {_quoted(name)} as {query}")
        return {tp.partition: end for tp, end in read.ends.items()}

    @property
    def _tail(self) -> str:
        return f"{self._name}__tail"

    def _create_tail(self, read: TopicRead) -> None:
        # A table of DuckDB: it may be read several times, and moves to disk if it does not fit into memory.
        name, converter = _quoted(self._tail), read.converter
        columns = pa.struct(list(converter.schema))
        self._insert(f"create or replace temp table {name} as select * from ottla_rows", [_empty(converter.schema)])
        for number, decoded in read_tail(self._configs, read.starts, read.ends):
            records = record_batch(decoded, number)
            rows = converter.convert(records).batch
            present = pa.struct(list(converter.schema))
            if lacks(columns, present):  # inferred from these records, or from a newer schema
                self._insert(
                    f"create or replace temp table {name} as from {name} union all by name from ottla_rows",
                    [_empty(converter.schema)],
                )
                columns = present
            self._insert(f"insert into {name} by name select * from ottla_rows", [_with_tombstones(rows, records)])

    def _insert(self, sql: str, batches: list[Any]) -> None:
        self._connection.register("ottla_rows", pa.Table.from_batches(batches))
        self._connection.execute(sql)
        self._connection.unregister("ottla_rows")

    def _files(self, read: TopicRead) -> str:
        paths = [file.path.removeprefix("file://") for file in read.snapshot.files]
        if not paths:
            return ""
        if "://" not in paths[0]:
            texts = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
            return f"select * from read_parquet([{texts}], union_by_name = true, hive_partitioning = false)"
        assert read.table is not None, "it has files"
        file_system, _ = read.table.file_system(paths[0])
        keys = [read.table.file_system(path)[1] for path in paths]
        name = f"{self._name}__files"
        dataset = pyarrow.dataset.dataset(keys, read.table.schema, "parquet", file_system)
        self._connection.register(name, dataset)
        return f"select * from {_quoted(name)}"


def _with_tombstones(rows: Any, records: Any) -> Any:
    """Return rows with the column TOMBSTONE, which is true for rows of tombstones."""
    tombstones = records.column("offset").filter(records.column("value").is_null())
    return rows.append_column(TOMBSTONE, pc.is_in(rows.column("offset"), tombstones))


def _empty(schema: Any) -> Any:
    columns = [pa.array([], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema).append_column(TOMBSTONE, pa.array([], pa.bool_()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
