"""The tables of topics (`ottla.table.format`) on this machine: write the committed records to them, and read and
query them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ottla.errors import ConfigurationError

if TYPE_CHECKING:
    from ottla_tables.query.engine import Result


class WrittenTable(NamedTuple):
    """A topic's table after a write: its format, its name in SQL, and the number of rows in its files."""

    topic: str
    format: str
    name: str
    rows: int


class TopicTables:
    """Writes and reads the tables of topics whose brokers run on this machine. As a context manager, it closes its
    admin client.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        from ottla import KafkaAdminClient
        from ottla_tables.formats.factory import TableFactory
        from ottla_tables.log.lookup import Lookup

        self._configs: dict[str, Any] = {"bootstrap.servers": bootstrap_servers}
        self._admin = KafkaAdminClient(self._configs)
        self._lookup = Lookup(self._admin)
        self._tables = TableFactory(self._lookup.default_directory(), {})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()

    def write(self) -> list[WrittenTable]:
        """Write all committed records of the topics that have a table, and return these tables. Raises
        ConfigurationError if there are such topics, but a package for tables is missing.
        """
        topics = self._lookup.topics()
        if not topics:
            return []
        check_packages()
        from ottla_tables.formats.factory import table_name
        from ottla_tables.log.tiered import TieredRecords
        from ottla_tables.opening import WriterFactory
        from ottla_tables.service import TableService

        tiered = TieredRecords(self._lookup, self._configs)
        TableService(self._lookup, WriterFactory(self._tables, tiered).open).write_all()
        written = []
        for topic in topics:
            table = self._open(topic.name)
            rows = sum(file.rows for file in table.load().files) if table else 0
            written.append(WrittenTable(topic.name, topic.config.ottla_table_format, table_name(topic.name), rows))
        return written

    def read(self, topic: str, columns: Sequence[str]) -> Any:
        """Return columns of all rows in the files of a topic's table (without newer records) as an Arrow table."""
        import pyarrow as pa

        from ottla_tables.parquet import read_batches

        table = self._open(topic)
        files = table.load().files if table else ()
        batches = [batch for file in files for batch in read_batches(table, file.path, list(columns))]
        return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in columns})

    def _open(self, name: str) -> Any:
        from ottla_tables.formats.table import TableIdentity

        (topic,) = self._lookup.topics([name])
        return self._tables.open_existing(TableIdentity(name, topic.topic_id), topic.config)

    def query(self, sql: str) -> Result:
        """Run SQL over topics: the rows of their tables, and the records that are not in them yet."""
        from ottla_tables.query.engine import QueryEngine

        return QueryEngine(self._lookup, self._tables, self._configs).run(sql)


def check_packages() -> None:
    """Raise ConfigurationError if a package for tables is missing."""
    try:
        import deltalake  # noqa: F401
        import duckdb  # noqa: F401
        import pyiceberg  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"tables need {error.name}: run `pip install 'ottla[tables]'`") from error
