"""Local SparkSessions for laptops, tests and the demo: few log messages, few resources, UTC, and `format("ottla")`
registered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.java import cache_dir, find_spark_java, java_home
from ottla.spark import register
from ottla.spark.environment.aot import JAVA_OPTIONS, java_options
from ottla.spark.environment.python_workers import check_workers
from ottla.spark.environment.spark_home import use_installed_pyspark
from ottla.spark.optional_dependencies import optional_dependency

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_DEFAULTS: dict[str, str] = {
    # Otherwise Spark takes the address of the first network card, and listens there.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.sql.session.timeZone": "UTC",
    # Spark's default is INT96, which loses the time zone and is deprecated elsewhere.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A few cores need few shuffle partitions; the default of 200 costs seconds per micro-batch.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


FIRST_COMPILER_ONLY: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Options for a JVM that runs for minutes only, so that its optimizing compiler would take more time than it saves.

With only the first compiler, Java reserves 48 MiB for compiled code. A pipeline with many flows can fill it, and Spark
then exits (VirtualMachineError, exit code 50). Therefore the code cache gets the default size for both compilers.
"""

TRUST_ARROW: Final = {"ARROW_ENABLE_UNSAFE_MEMORY_ACCESS": "true", "ARROW_ENABLE_NULL_CHECK_FOR_GET": "false"}
"""Environment variables with which the JVM reads Arrow buffers without checks of bounds and null.

With them, writing a topic to Parquet takes 20 % less time.
"""


def prepare_environment() -> None:
    """Set environment variables of Spark's launcher, JVM and workers for sessions that start in this process.

    They are JAVA_HOME, SPARK_LOCAL_IP, PYSPARK_PYTHON, and those for Arrow's checks in the JVM. Call this before
    you create a session yourself, such as `SparkSession.builder.remote("local[2]")`. Variables that are set already are
    not changed, except a JAVA_HOME with which Spark cannot start.

    Raises:
        ConfigurationError: there is no Java that Spark supports, or PYSPARK_PYTHON is a Python that does not start,
            cannot import Ottla, or has another minor version than this one.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in TRUST_ARROW.items():
        os.environ.setdefault(name, value)
    # Spark's default is the python3 of the PATH, which may lack Ottla.
    check_workers(os.environ.setdefault("PYSPARK_PYTHON", sys.executable))


def local_session(
    name: str = "ottla",
    *,
    cores: int | str = 2,
    memory: str = "1g",
    warehouse: Path | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the local SparkSession, with `format("ottla")` registered. It is started if there is none.

    Args:
        name: name of the application.
        cores: number of worker threads, or "*" for all cores.
        memory: heap size of the JVM, in Java's notation.
        warehouse: directory of Spark's tables; default `./spark-warehouse`, as in Spark.
        config: more Spark settings, which override `LOCAL_DEFAULTS`.

    Raises:
        ConfigurationError: there is no Java that Spark supports; PYSPARK_PYTHON is a Python that does not start,
            cannot import Ottla, or has another minor version; or SPARK_HOME has no Spark, or another minor version than
            pyspark.
        ImportError: pyspark or pyarrow is missing; the error names the extra to install.
    """
    with optional_dependency("local_session", extra="spark"):
        from pyspark.sql import SparkSession

    from ottla.spark.environment.spark_versions import AVAILABLE_NOW_CONFIGS

    prepare_environment()
    use_installed_pyspark()
    settings = {**LOCAL_DEFAULTS, **AVAILABLE_NOW_CONFIGS, "spark.driver.memory": memory, **(config or {})}
    settings[JAVA_OPTIONS] = " ".join(filter(None, (_cached_classes(), settings.get(JAVA_OPTIONS))))
    if warehouse is not None:
        settings["spark.sql.warehouse.dir"] = str(warehouse)
    builder = SparkSession.builder.appName(name).master(f"local[{cores}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    register(spark)
    return spark


def _cached_classes() -> str:
    """Return the JVM options for the cache that `ottla spark-warm-up` creates; empty if there is none."""
    import pyspark

    return java_options(Path(pyspark.__file__).parent, find_spark_java(), cache_dir())
