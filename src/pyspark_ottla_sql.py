"""Spark finds `format("ottla.sql")` here by itself, as `pyspark_ottla` tells."""

from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """Stands for `ottla.spark.sql_sink.SqlSource` until it is used."""

    def __new__(cls, options: MutableMapping[str, str]) -> Any:
        """The source itself. ConfigurationError, naming the extra to install, where sqlalchemy is missing."""
        from ottla.spark.optional_dependencies import optional_dependency

        with optional_dependency("ottla.sql", extra="sql"):
            from ottla.spark.sql_sink import SqlSource
        return SqlSource(options)

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "ottla.sql"
