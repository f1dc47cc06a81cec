"""The entry point of `format("ottla")`. Spark imports all top-level modules whose names start with `pyspark_`.

The format is therefore available wherever Ottla is installed, even if `ottla.spark.register` is not called: in
declarative pipelines, Spark Connect servers, and existing jobs of spark-submit. `register` adds filter pushdown, which
has to be enabled in a session.

Spark imports this module when an application first looks up a data source, and in processes that plan a query of this
format. An error during the lookup would hide all other Python data sources. Ottla's other modules are therefore
imported only when the format is used, which is when missing packages are reported.
"""

from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """Creates `ottla.spark.data_source.OttlaDataSource` when the format is used."""

    def __new__(cls, options: MutableMapping[str, str]) -> Any:
        """Return an OttlaDataSource. Raises ImportError, which says which extra to install, if a package is missing."""
        from ottla.spark.optional_dependencies import optional_dependency

        with optional_dependency("ottla", extra="spark"):
            from ottla.spark.data_source import OttlaDataSource
        return OttlaDataSource(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "ottla"
