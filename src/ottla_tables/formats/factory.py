"""Opens the table of a topic in its format, and creates it if necessary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ottla.config.topic import TableConfig
from ottla_tables.errors import MissingTableError
from ottla_tables.formats.table import Table, TableIdentity
from ottla_tables.object_store import CREDENTIALS, ObjectStore
from ottla_tables.partitioning import check_partition_by, source_column
from ottla_tables.values.factory import REGISTRY_PREFIX

CATALOG_FILE: Final = "catalog.db"


class TableFactory:
    """Opens the tables of topics, and creates those that do not exist.

    Args:
        directory: for tables without ottla.table.location, and for the SQLite catalog (the default catalog).
        properties: further properties of catalogs, object stores and the schema registry, such as credentials.
    """

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        self.directory = directory.absolute()
        self.properties = properties
        others = {name: value for name, value in properties.items() if not name.startswith(REGISTRY_PREFIX)}
        self._store = ObjectStore(others)
        self._catalogs: dict[tuple[str, bool], Any] = {}

    def open_existing(self, owner: TableIdentity, config: TableConfig) -> Table | None:
        """Open the table of a topic to read it; None if there is none. Neither table nor catalog is created."""
        try:
            return self.open(owner, config, None)
        except MissingTableError:
            return None

    def open(self, owner: TableIdentity, config: TableConfig, schema: Any | None, suffix: str = "") -> Table:
        """Open the table of a topic. If it does not exist, create it with `schema`.

        Args:
            owner: the topic.
            config: its configs.
            schema: the columns of a table that does not exist yet; None to raise MissingTableError instead.
            suffix: appended to the table's name and location, for a second table of the topic.

        Raises ConfigurationError if the configs do not allow such a table.
        """
        name = table_name(owner.topic) + suffix
        location = (config.ottla_table_location.rstrip("/") or str(self.directory / name.removesuffix(suffix))) + suffix
        partition_by = config.ottla_table_partition_by
        if suffix and schema is not None:  # dead letters have no fields of values
            partition_by = tuple(text for text in partition_by if source_column(text) in schema.names)
        if schema is not None:
            check_partition_by(schema, partition_by)
        if config.ottla_table_format == "iceberg":
            from ottla_tables.formats.iceberg import IcebergTable

            return IcebergTable(
                self._catalog(config, creates=schema is not None), name, location, schema, partition_by, owner
            )
        if config.ottla_table_format == "delta":
            from ottla_tables.formats.delta import DeltaLakeTable

            return DeltaLakeTable(location, schema, partition_by, owner, self._store)
        from ottla_tables.formats.parquet_table import ParquetTable

        return ParquetTable(location, schema, partition_by, owner)

    def _catalog(self, config: TableConfig, *, creates: bool) -> Any:
        from ottla_tables.formats.iceberg import is_rest, open_catalog

        url = config.ottla_table_catalog or f"sqlite:///{self.directory / CATALOG_FILE}"
        if (url, creates) not in self._catalogs:
            properties = self._store.properties
            if is_rest(url):
                # The catalog may send credentials with a table. Those of the environment would be mixed with them.
                own = self.properties
                properties = {n: value for n, value in properties.items() if n in own or n not in CREDENTIALS}
            self._catalogs[url, creates] = open_catalog(url, properties, creates=creates)
        return self._catalogs[url, creates]


def table_name(topic: str) -> str:
    """Return the name of a topic's table: the topic's, with underscores instead of characters such as `-` and `.`."""
    return re.sub(r"\W", "_", topic)
