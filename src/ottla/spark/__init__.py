"""Spark reads Ottla's topics: `register(spark)`, then `spark.read` or `spark.readStream` with `format("ottla")`.

Option names, row schema and semantics are those of Spark's own Kafka connector; changing "ottla" to "kafka" is all that
separates the two.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make `format("ottla")` known to a session, and with sqlalchemy `format("ottla.sql")`. May be called again.

    Turns `spark.sql.python.filterPushdown.enabled` on, so that conditions on offset, partition, topic and timestamp
    save reading. Raises ImportError, naming the extra to install, where pyspark or pyarrow is missing.
    """
    from ottla.spark.source import PUSHDOWN, FilteringSource

    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(FilteringSource)
    if importlib.util.find_spec("sqlalchemy") is not None:
        from ottla.spark.sql_sink import SqlSource

        spark.dataSource.register(SqlSource)
