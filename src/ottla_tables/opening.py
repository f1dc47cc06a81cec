"""Creation of a topic's table writer, with its table and its dead letters."""

from __future__ import annotations

from ottla_tables.dead_letters import SUFFIX, DeadLetters
from ottla_tables.formats.factory import TableFactory
from ottla_tables.formats.table import TableIdentity
from ottla_tables.log.lookup import TableTopic
from ottla_tables.log.tiered import TieredRecords
from ottla_tables.values.factory import ConverterFactory
from ottla_tables.values.rows import DEAD_LETTER, BytesConverter
from ottla_tables.writer import TableWriter


class WriterFactory:
    """Opens the writer of a topic with its table. `tiered`: reads records that are in remote storage only; None if
    there is no remote storage.
    """

    def __init__(self, tables: TableFactory, tiered: TieredRecords | None = None) -> None:
        self._tables = tables
        self._tiered = tiered
        self._converters = ConverterFactory(tables.properties)

    def open(self, topic: TableTopic) -> TableWriter:
        """Open the writer of a topic, and create its tables if they do not exist. Raises KafkaError, such as TableError
        or ConfigurationError, or an error of a catalog or object store.
        """
        owner, config = TableIdentity(topic.name, topic.topic_id), topic.config
        schema = config.ottla_table_schema
        table = self._tables.open(owner, config, self._converters.initial_schema(topic.name, schema))
        rows = self._converters.converter(topic.name, schema, table.schema, widens=table.widens)
        dead_letters = None
        if not isinstance(rows, BytesConverter):
            dead_letters = DeadLetters(self._tables.open(owner, config, DEAD_LETTER, SUFFIX))
        return TableWriter(
            topic.name,
            table,
            rows,
            dead_letters,
            config.ottla_table_flush_bytes,
            is_upsert=config.ottla_table_mode == "upsert",
            tiered=self._tiered,
        )
