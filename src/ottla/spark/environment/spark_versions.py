"""Support for Spark 4.0 and 4.1: names that pyspark lacks in these versions, and configs that they need.

`HAS_READ_LIMITS` also decides which stream reader is used.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

HAS_READ_LIMITS: Final = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether Spark passes the position of a stream and a limit to `latestOffset`: since Spark 4.2 (SPARK-53898)."""
AVAILABLE_NOW_CONFIGS: Final[dict[str, str]] = (
    {} if HAS_READ_LIMITS else {"spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true"}
)
"""Configs for queries with `trigger(availableNow=True)`, which pipelines use for all flows.

Python data sources do not support this trigger in Spark 4.0 and 4.1. Without the config, Spark runs a single
micro-batch for them instead. It then leaves out the micro-batch without rows that follows when the watermark has moved,
so windows, sessions and timers that have ended stay in the state (SPARK-45178).
"""

if TYPE_CHECKING or HAS_READ_LIMITS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable as ReadAllAvailable
    from pyspark.sql.streaming.datasource import ReadLimit as ReadLimit
    from pyspark.sql.streaming.datasource import ReadMaxRows as ReadMaxRows
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as SupportsTriggerAvailableNow
else:

    class ReadLimit:
        """Stands for Spark's class, of which Spark creates no instances."""

    class ReadAllAvailable(ReadLimit):
        """Stands for Spark's class."""

    class ReadMaxRows(ReadLimit):
        """Stands for Spark's class."""

    class SupportsTriggerAvailableNow:
        """Stands for Spark's class. With AVAILABLE_NOW_CONFIGS, Spark 4.0 and 4.1 look up the end offsets of a query
        only once.
        """


if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """The base class of stream writers that get Arrow batches, in Spark 4.0: its workers pass Arrow to every
        DataSourceArrowWriter, also in a stream. The class is new in Spark 4.1.
        """
