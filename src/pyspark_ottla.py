"""Entry point of `format("ottla")` for Spark, which imports each top-level module whose name starts with pyspark_.

Sessions without a call of `ottla.spark.register` (declarative pipelines, Spark Connect servers, spark-submit of
existing jobs) thus know the format wherever Ottla is installed. `register` adds filter pushdown, which a session must
enable.

Spark imports this at the start of every session and query, and an error here would hide all other Python sources. So
nothing else is imported before the format is used; missing packages are reported then.
"""

from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """Placeholder of `ottla.spark.data_source.OttlaDataSource` until it is used."""

    def __new__(cls, options: MutableMapping[str, str]) -> Any:
        """Return the source itself. Raises ImportError, which names the extra to install, if a package is missing."""
        from ottla.spark.optional_dependencies import optional_dependency

        with optional_dependency("ottla", extra="spark"):
            from ottla.spark.data_source import OttlaDataSource
        return OttlaDataSource(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "ottla"
