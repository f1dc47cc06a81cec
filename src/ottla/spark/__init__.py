"""Ottla's Spark data source: `register(spark)`, then `spark.read` or `spark.readStream` with `format("ottla")`.
`monitor` shows the progress of streaming queries.

The data source accepts the options of Spark's Kafka connector and has its columns, so that most jobs only have to
change "kafka" to "ottla".
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

    from ottla.metrics.metrics import MetricsReporter
    from ottla.spark.data_source import OttlaDataSource
    from ottla.spark.monitoring.query_monitor import QueryMonitor

__all__ = ["OttlaDataSource", "monitor", "register", "watch"]


def __getattr__(name: str) -> object:
    # Imported on demand: the class, for `spark.dataSource.register`, imports Spark and Arrow.
    if name != "OttlaDataSource":
        raise AttributeError(f"module 'ottla.spark' has no attribute {name!r}")
    from ottla.spark.optional_dependencies import optional_dependency

    with optional_dependency("ottla", extra="spark"):
        from ottla.spark.data_source import OttlaDataSource
    return OttlaDataSource


def register(spark: SparkSession) -> None:
    """Register `format("ottla")` and `format("ottla.sql")` with a session, local or remote. May be called repeatedly.

    Sets `spark.sql.python.filterPushdown.enabled`, so that, from Spark 4.1 on, batch reads with the option
    filterPushdown=true skip offsets that conditions on topic, partition, offset and timestamp exclude. Raises
    ImportError, which names the extra to install, if pyspark or pyarrow is missing, and ConfigurationError, which names
    PYSPARK_PYTHON, if the workers of a local session would run a Python that does not start, cannot import Ottla, or
    has another minor version than this one.

    With Spark Connect, Ottla must be installed on the server as well, because only the names of the classes are sent.
    """
    from ottla.spark.optional_dependencies import optional_dependency

    with optional_dependency("ottla", extra="spark"):
        from ottla.spark.data_source import PUSHDOWN, FilteringSource
        from pyspark_ottla_sql import DefaultSource as SqlSource
    _check_local_workers(spark)
    spark.conf.set(PUSHDOWN, "true")
    _register(spark, FilteringSource)
    _register(spark, SqlSource)


def _register(spark: SparkSession, source: type[DataSource]) -> None:
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        # Spark 4.0 does not replace a source that it has found itself, which is `pyspark_ottla`. That has no filter
        # pushdown, and neither has Spark 4.0.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def _check_local_workers(spark: SparkSession) -> None:
    """Call `check_workers` for the workers of a local session. The Python of a cluster is on other machines, and Spark
    Connect does not report it.
    """
    from pyspark.sql.utils import is_remote

    if is_remote() or not str(spark.sparkContext.master).startswith("local"):
        return
    from ottla.spark.environment.python_workers import check_workers

    check_workers(spark.sparkContext.pythonExec)


def monitor(
    spark: SparkSession,
    *,
    terminal: bool | None = None,
    reporters: Iterable[MetricsReporter] = (),
    progress_dir: str | Path | None = None,
) -> QueryMonitor:
    """Monitor all streaming queries of a session, regardless of their sources. Use the monitor as a context manager, or
    close it.

    Args:
        spark: the session, local or remote (Spark Connect).
        terminal: whether to show queries on stderr, and without Spark Connect also the tasks of running jobs. If
            stderr is a terminal and rich is installed, they are a table that is updated in place, otherwise lines,
            which are printed every five seconds if they have changed. Default: only if stderr is a terminal.
        reporters: reporters of `QueryMonitor.metrics`, such as `ottla.metrics.prometheus.PrometheusReporter()`.
        progress_dir: a directory to write the progress of the queries to, so that `ottla console --progress-dir`
            shows it.

    Returns:
        the monitor, with `report("report.html")`, `to_json()` and `metrics`.

    Raises:
        ImportError: pyspark is missing; the error names the extra to install.
        ConfigurationError: the progress directory cannot be written.
    """
    from ottla.spark.optional_dependencies import optional_dependency

    with optional_dependency("monitor", extra="spark"):
        from ottla.spark.monitoring.query_monitor import QueryMonitor
    is_shown = sys.stderr.isatty() if terminal is None else terminal
    directory = None if progress_dir is None else Path(progress_dir)
    return QueryMonitor(spark, terminal=is_shown, reporters=reporters, progress_dir=directory).start()


def watch(
    spark: SparkSession, *, terminal: bool | None = None, reporters: Iterable[MetricsReporter] = ()
) -> QueryMonitor:
    """Monitor queries: the deprecated name of `monitor`, without `progress_dir`."""
    warnings.warn("ottla.spark.watch is deprecated: use ottla.spark.monitor", DeprecationWarning, stacklevel=2)
    return monitor(spark, terminal=terminal, reporters=reporters)
