"""`spark.read.format("ottla").option("ottla.table", "true")`: the table of a topic and the log after it, as one.

The driver plans a task per file of the table, and one per partition of the log, whose offsets begin where the table
ends.

For a table with a row per key, the whole log is one task, and the tasks of files leave out the keys that the log has.
Each of these tasks has to read the keys from the log. To do so less often, a task has several files, and a worker keeps
the keys for its next task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from ottla.client.admin.admin import KafkaAdminClient
from ottla.config import properties
from ottla.errors import ConfigurationError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.spark.environment.python_workers import freeze_loaded_modules
from ottla.spark.options.options import SourceOptions, connection_options
from ottla_tables.columns import record_batch
from ottla_tables.formats.factory import TableFactory
from ottla_tables.formats.table import TableFile
from ottla_tables.log.lookup import Lookup, TableTopic
from ottla_tables.log.tail import read_tail
from ottla_tables.object_store import ObjectStore
from ottla_tables.parquet import aligned, read_batches
from ottla_tables.reading import TopicRead, plan_read
from ottla_tables.upsert import NewestKeys, Upserts
from ottla_tables.values.factory import ConverterFactory
from ottla_tables.values.rows import Rows

TASK_BYTES: Final = 128 << 20
"""Maximum size in bytes of the files of a task that needs keys of the log, unless it has one larger file. It is the
default of spark.sql.files.maxPartitionBytes.
"""
Offsets = Mapping[TopicPartition, int]


class LogPartition(InputPartition):
    """The task that reads records of the log, up to `ends`.

    Args:
        starts: the first offset to read of each partition, which follows those in the table.
        ends: the offset of each partition at which to stop; it is not read.
        topic: the topic.
        columns: the Arrow schema of the topic's rows.
        widens: whether columns of numbers in the table may get wider types.
    """

    def __init__(self, starts: Offsets, ends: Offsets, topic: TableTopic, columns: Any, widens: bool) -> None:
        super().__init__(None)
        self.topic_id, self.widens = topic.topic_id, widens
        self.starts, self.ends = dict(starts), dict(ends)
        self.topic, self.schema = topic.name, topic.config.ottla_table_schema
        self.is_upsert = topic.config.ottla_table_mode == "upsert"
        self.columns = columns


class FilePartition(InputPartition):
    """The task that reads files of the table.

    Args:
        paths: the paths of the files.
        columns: the Arrow schema of the topic's rows.
        newer: records that replace rows of the files; None if there are none.
        store: the properties of the object store with the files.
    """

    def __init__(
        self, paths: Sequence[str], columns: Any, newer: LogPartition | None, store: Mapping[str, str]
    ) -> None:
        super().__init__(None)
        self.paths = paths
        self.store = dict(store)
        self.columns = columns
        self.newer = newer

    def __repr__(self) -> str:
        # Spark may log it: without credentials.
        return f"FilePartition(paths={self.paths!r})"


class LastKeys:
    """A cache of the keys in the range of the log that was read last."""

    def __init__(self) -> None:
        self._range: object = None
        self._keys = NewestKeys()

    def get(self, log_range: object, read: Callable[[], NewestKeys]) -> NewestKeys:
        """Return the keys of a range of the log. If it is not the last range, call `read` to read them."""
        if log_range != self._range:
            self._range = None  # if it fails
            self._keys = read()
            self._range = log_range
        return self._keys


LAST_KEYS: Final = LastKeys()
"""The keys that this process read last. A worker runs many tasks of a query, one after another."""


class TableSource:
    """Reads one topic with its table. Raises ConfigurationError unless the options name exactly one topic, or
    if the properties file for catalogs cannot be read.
    """

    def __init__(self, options: SourceOptions) -> None:
        topics = options.subscription.topics or ()
        if len(topics) != 1:
            raise ConfigurationError('ottla.table: name one topic, as in .option("subscribe", "topic")')
        self._topic = topics[0]
        self._kafka = dict(options.kafka)
        self._directory = options.table_directory
        config = options.table_catalog_config
        self._properties = dict(properties.load(config)) if config else {}

    def schema(self) -> StructType:
        """Return the columns of the topic's rows as a schema of Spark."""
        with self._planned() as (_, read):
            return _spark_schema(read.converter.schema)

    def reader(self, schema: StructType) -> TableReader:
        """Return a reader of the topic's rows with these columns."""
        return TableReader(self, schema)

    def partitions(self, schema: StructType) -> list[InputPartition]:
        """Return the tasks of a read. Raises ConfigurationError for columns that the topic's rows do not have, or have
        with another type.
        """
        with self._planned() as (topic, read):
            _check_columns(schema, _spark_schema(read.converter.schema))
            ends = {tp: end for tp, end in read.ends.items() if read.starts[tp] < end}
            ranges = [{tp: end} for tp, end in ends.items()]
            if topic.config.ottla_table_mode == "upsert" and ends:
                ranges = [ends]
            starts, columns = read.starts, read.converter.schema
            widens = read.table is not None and read.table.widens
            store = {} if read.table is None else read.table.store_properties
            log = [LogPartition({tp: starts[tp] for tp in part}, part, topic, columns, widens) for part in ranges]
            newer = log[0] if log and log[0].is_upsert else None
            groups = _groups(read.snapshot.files, 0 if newer is None else TASK_BYTES)
            files = (FilePartition([file.path for file in group], columns, newer, store) for group in groups)
            return [*files, *log]

    def rows(self, partition: FilePartition | LogPartition) -> Iterator[Any]:
        """Return an iterator of the rows of a task, as Arrow batches."""
        if isinstance(partition, FilePartition):
            store = ObjectStore(partition.store)
            batches = (batch for path in partition.paths for batch in read_batches(store, path))
            return batches if partition.newer is None else self._newer_keys(partition.newer).others(batches)
        if partition.is_upsert:
            return self._newest(partition).rows()
        return (rows.batch for rows, _ in self._log(partition))

    @contextmanager
    def _planned(self) -> Iterator[tuple[TableTopic, TopicRead]]:
        with KafkaAdminClient(connection_options(self._kafka)) as admin:
            lookup = Lookup(admin)
            topics = lookup.topics([self._topic])
            if not topics:
                raise UnknownTopicOrPartitionError(
                    f"ottla.table: there is no topic {self._topic} with the config ottla.table.format"
                )
            tables = TableFactory(Path(self._directory or lookup.default_directory()), self._properties)
            yield topics[0], plan_read(topics[0], lookup, tables, ConverterFactory(self._properties))

    def _log(self, partition: LogPartition) -> Iterator[tuple[Rows, Any]]:
        """Yield the rows of the log in batches, each with its records."""
        converter = ConverterFactory(self._properties).converter(
            partition.topic, partition.schema, partition.columns, widens=partition.widens
        )
        for number, decoded in read_tail(self._kafka, partition.starts, partition.ends):
            records = record_batch(decoded, number)
            yield converter.convert(records), records

    def _newer_keys(self, partition: LogPartition) -> NewestKeys:
        def read() -> NewestKeys:
            keys = NewestKeys()
            for rows, records in self._log(partition):
                keys.add(rows, records)
            return keys

        log_range = (self._kafka, partition.topic_id, partition.schema, partition.starts, partition.ends)
        return LAST_KEYS.get(log_range, read)

    def _newest(self, partition: LogPartition) -> Upserts:
        upserts = Upserts()
        for rows, records in self._log(partition):
            upserts.add(rows, records)
        return upserts


class TableReader(DataSourceReader):
    """The reader of a topic with its table. Spark serializes it with each task."""

    def __init__(self, source: TableSource, schema: StructType) -> None:
        self._source = source
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks of the read, and return them."""
        return self._source.partitions(self._schema)

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Return an iterator of the rows of a task, as Arrow batches. Runs in a worker."""
        if not isinstance(partition, (FilePartition, LogPartition)):
            # If nothing was planned, Spark reads one partition that it makes itself.
            return iter(())
        freeze_loaded_modules()
        schema = pa.schema([partition.columns.field(name) for name in self._schema.names])
        return (aligned(rows, schema) for rows in self._source.rows(partition) if rows.num_rows)


def _groups(files: Iterable[TableFile], max_bytes: int) -> list[list[TableFile]]:
    """Return files in groups of at most `max_bytes`. A larger file is in a group with no other files."""
    groups: list[list[TableFile]] = []
    size = 0
    for file in files:
        if not groups or size + file.size > max_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups


def _spark_schema(columns: Any) -> StructType:
    return from_arrow_schema(columns, prefer_timestamp_ntz=True)


def _check_columns(requested: StructType, offered: StructType) -> None:
    types = {field.name: field.dataType for field in offered}
    for field in requested:
        if types.get(field.name) != field.dataType:
            raise ConfigurationError(
                f"ottla.table: there is no column {field.name} {field.dataType.simpleString()}; the columns are "
                + ", ".join(f"{name} {kind.simpleString()}" for name, kind in types.items())
            )
