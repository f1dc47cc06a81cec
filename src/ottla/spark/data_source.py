"""`format("ottla")` as Spark sees it: a name, a schema, readers and writers for batches and for streams.

Spark pickles the data source and sends it to other Python processes, so it contains only the unchanged options. They
are validated when the schema, a reader or a writer is requested. Readers and writers are imported when they are first
used, because Spark starts a process for each step of planning.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from ottla.errors import ConfigurationError
from ottla.spark.environment.python_workers import freeze_loaded_modules
from ottla.spark.options.option_values import boolean, get_or
from ottla.spark.options.options import SourceOptions, check_early, read_options
from ottla.spark.options.sink_options import check_columns, sink_options
from ottla.spark.source.arrow import column_names, spark_schema
from ottla.spark.source.tables import table_source

if TYPE_CHECKING:
    from ottla.spark.sink.topic_sink import TopicSink
    from ottla.spark.sink.writer import BatchWriter, StreamWriter
    from ottla.spark.source.stream import StreamReader


class OttlaDataSource(DataSource):
    """A data source whose rows are records: the columns key, value, topic, partition, offset, timestamp and
    timestampType, and headers if includeHeaders is true. With the option ottla.table, batch reads return the rows of
    the topic's table instead.
    """

    sees_filters = False
    """Whether the Spark session pushes filters down to Python data sources.

    If it does not, it rejects readers that implement pushFilters().
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.raw_options: dict[str, str] = dict(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`. It cannot be "kafka", for which Spark uses its own connector."""
        return "ottla"

    def schema(self) -> str | StructType:
        """Return the schema, which is that of Spark's Kafka connector, or with the option ottla.table that of the
        topic's table. Raises ConfigurationError for options that batch and streaming reads reject with the same error,
        and with ottla.table for those that batch reads reject.

        Like the connector, this raises errors in `load()`. If readers raised them, a flow of a pipeline would fail only
        after spark.sql.pipelines.maxFlowRetryAttempts.
        """
        freeze_loaded_modules()
        check_early(self.raw_options)
        if self._has_table():
            return table_source(read_options(self.raw_options, streaming=False)).schema()
        return spark_schema(self._columns())

    def _has_table(self) -> bool:
        lowered = {name.lower(): value for name, value in self.raw_options.items()}
        return get_or(lowered, "ottla.table", boolean, False)

    def _columns(self) -> tuple[str, ...]:
        lowered = {name.lower(): value for name, value in self.raw_options.items()}
        return column_names(get_or(lowered, "includeHeaders", boolean, False))

    def _options(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        """Validate the options, and return them with the requested columns: all, or those in `.schema(...)`."""
        freeze_loaded_modules()
        options = read_options(self.raw_options, streaming=streaming)
        columns = [f"{field.name} {field.dataType.simpleString()}" for field in schema.fields]
        offered = [spark_schema([name]) for name in self._columns()]
        if not columns or set(columns) - set(offered):
            raise ConfigurationError(
                f".schema({schema.simpleString()!r}) is not allowed: the columns are {', '.join(offered)};"
                " name some of these, or leave it out, and cast or parse the column value"
            )
        return replace(options, columns=tuple(schema.names), include_headers="headers" in schema.names)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `spark.read`."""
        if self._has_table():
            return table_source(read_options(self.raw_options, streaming=False)).reader(schema)
        options = self._options(schema, streaming=False)
        # Only on request: Spark keeps one plan per DataFrame, and would use that of one query's conditions for the
        # next query, and for the other side of a join or union.
        filtered = self.sees_filters and options.filter_pushdown
        if options.log_dirs:
            from ottla.spark.source.log_dir_source import FilteredLogDirReader, LogDirReader

            return FilteredLogDirReader(options) if filtered else LogDirReader(options)
        from ottla.spark.source.reader import BatchReader, FilteredReader

        return FilteredReader(options) if filtered else BatchReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer for `df.write`. Raises ConfigurationError for mode("overwrite"), because rows can only be
        appended to a topic, and for invalid options or columns.
        """
        if overwrite:
            raise ConfigurationError('mode("overwrite") is not allowed: a topic only grows; use mode("append")')
        from ottla.spark.sink.writer import BatchWriter

        return BatchWriter(self._sink(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - the name is Spark's
        """Return the writer for `df.writeStream`. With output mode complete, each micro-batch appends all rows of the
        result again.
        """
        from ottla.spark.sink.writer import StreamWriter

        return StreamWriter(self._sink(schema))

    def _sink(self, schema: StructType) -> TopicSink:
        from ottla.spark.sink.topic_sink import TopicSink

        options = sink_options(self.raw_options)
        check_columns(schema, options)
        return TopicSink(options)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - the name is Spark's
        """Return the reader for `spark.readStream`."""
        from ottla.spark.environment.spark_versions import HAS_READ_LIMITS
        from ottla.spark.source.stream import StreamReader
        from ottla.spark.source.unlimited_stream import UnlimitedStreamReader

        reader = StreamReader if HAS_READ_LIMITS else UnlimitedStreamReader
        return reader(self._options(schema, streaming=True))


class FilteringSource(OttlaDataSource):
    """The data source for a session in which PUSHDOWN is true: with the option filterPushdown, its batch readers of
    topics skip offsets that filters exclude.
    """

    sees_filters = True


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
