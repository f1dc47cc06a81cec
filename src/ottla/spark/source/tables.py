"""`option("ottla.table", "true")`: the table of a topic and the log after it, read by the package of `ottla tables`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.errors import ConfigurationError
from ottla.spark.options.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType

GROUP: Final = "ottla.spark"
"""The entry point group of packages that add sources to `format("ottla")`, such as the tables of topics."""


class TableSource(Protocol):
    """The source of reads of one topic with its table."""

    def schema(self) -> StructType:
        """Return the columns of the table."""
        ...

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the columns in `schema`."""
        ...


def table_source(options: SourceOptions) -> TableSource:
    """Return the source that reads a topic with its table. Raises ConfigurationError if packages are missing, or the
    source rejects the options.
    """
    try:
        (entry,) = entry_points(group=GROUP, name="table")
        source: Any = entry.load()
    except (ValueError, ModuleNotFoundError) as error:
        raise ConfigurationError(f"ottla.table requires pip install 'ottla[tables]': {error}") from None
    opened: TableSource = source(options)
    return opened
