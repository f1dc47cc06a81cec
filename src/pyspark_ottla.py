"""Spark finds `format("ottla")` here by itself: it looks into each top-level module whose name begins with pyspark_.

So sessions that nobody calls `ottla.spark.register` on (declarative pipelines, Spark Connect servers, spark-submit of a
job as it is) know the format wherever ottla is installed. `register` adds filter pushdown, which a session must allow.

Spark looks at the start of every session and query, and an error here would hide every other Python source, too. So
nothing else is imported before the format is used; what is missing then is named.
"""

from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """Stands for `ottla.spark.source.OttlaDataSource` until it is used."""

    def __new__(cls, options: MutableMapping[str, str]) -> Any:
        """The source itself. ImportError, naming the extra to install, where a package is missing."""
        from ottla.spark.optional_dependencies import optional_dependency

        with optional_dependency("ottla", extra="spark"):
            from ottla.spark.source import OttlaDataSource
        return OttlaDataSource(options)

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "ottla"
