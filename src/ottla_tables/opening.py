"""Opens writers of topics."""

from __future__ import annotations

from ottla_tables.columns import RECORD
from ottla_tables.formats.factory import TableFactory
from ottla_tables.formats.table import TableIdentity
from ottla_tables.log.lookup import TableTopic
from ottla_tables.writer import TableWriter


class WriterFactory:
    """Opens the writer of a topic with its table."""

    def __init__(self, tables: TableFactory) -> None:
        self._tables = tables

    def open(self, topic: TableTopic) -> TableWriter:
        """Open the writer of a topic. Raises TableError or ConfigurationError."""
        table = self._tables.open(TableIdentity(topic.name, topic.topic_id), topic.config, RECORD)
        return TableWriter(topic.name, table, topic.config.ottla_table_flush_bytes)
