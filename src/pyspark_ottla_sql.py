"""Entry point of `format("ottla.sql")` for Spark; see `pyspark_ottla`."""

from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """Creates `ottla.spark.sink.sql_sink.SqlSource` when the format is used."""

    def __new__(cls, options: MutableMapping[str, str]) -> Any:
        """Return an SqlSource. Raises ConfigurationError if sqlalchemy is missing, and ImportError for other packages;
        both name the extra to install.
        """
        from ottla.spark.optional_dependencies import optional_dependency

        with optional_dependency("ottla.sql", extra="sql"):
            from ottla.spark.sink.sql_sink import SqlSource
        return SqlSource(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "ottla.sql"
