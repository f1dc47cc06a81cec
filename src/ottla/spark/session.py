"""A SparkSession as a laptop, a test and the demo want it: local, quiet, small, in UTC, knowing `format("ottla")`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.spark import register
from ottla.spark.java import java_home

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LOCAL_DEFAULTS: dict[str, str] = {
    # Without these Spark takes the address of the first network card, and listens there.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.sql.session.timeZone": "UTC",
    # Spark's default is INT96, which loses the zone and which others have given up.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A few cores need few shuffle partitions; 200, the default, costs seconds per micro-batch.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def local_session(
    name: str = "ottla",
    *,
    cores: int | str = 2,
    memory: str = "1g",
    warehouse: Path | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start (or get) a local SparkSession with `format("ottla")` registered.

    Args:
        name: the application's name.
        cores: worker threads, or "*" for every core.
        memory: the JVM's heap, in Java's notation.
        warehouse: directory of Spark's own tables; default Spark's, `./spark-warehouse`.
        config: more Spark settings; they win over `LOCAL_DEFAULTS`.

    Raises:
        ConfigurationError: no Java that Spark runs on was found.
    """
    from pyspark.sql import SparkSession

    # Read by Spark's launcher and by its workers when the JVM starts, so they must stand in our own environment.
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark's default is the python3 of the PATH, which need not be the one that Ottla is installed in.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {**LOCAL_DEFAULTS, "spark.driver.memory": memory, **(config or {})}
    if warehouse is not None:
        settings["spark.sql.warehouse.dir"] = str(warehouse)
    builder = SparkSession.builder.appName(name).master(f"local[{cores}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    register(spark)
    return spark
