"""A SparkSession as a laptop, a test and the demo want it: local, quiet, small, in UTC, knowing `format("ottla")`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.java import cache_dir, find_java, java_home
from ottla.spark import register
from ottla.spark.aot import JAVA_OPTIONS, java_options
from ottla.spark.optional_dependencies import optional_dependency
from ottla.spark.python_workers import check_workers
from ottla.spark.spark_home import use_installed_pyspark

if TYPE_CHECKING:
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


FIRST_COMPILER_ONLY: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Options of a JVM that lives for minutes: the optimizing compiler would take more than it gives.

Without that one Java has room for 48 MiB of compiled code, which a pipeline of many flows can fill. Then Spark ends
(VirtualMachineError, exit code 50); so it has as much room as with it.
"""

TRUST_ARROW: Final = {"ARROW_ENABLE_UNSAFE_MEMORY_ACCESS": "true", "ARROW_ENABLE_NULL_CHECK_FOR_GET": "false"}
"""The JVM reads what Python sources have made of columns without checking each access to be within its buffer.

Measured: writing Parquet from a topic takes a fifth less."""


def prepare_environment() -> None:
    """Set what Spark's launcher, JVM and workers read when a session starts here.

    JAVA_HOME, SPARK_LOCAL_IP, PYSPARK_PYTHON, and that the JVM need not check each access to Arrow's buffers.
    For sessions of one's own, such as `SparkSession.builder.remote("local[2]")`. What is set already stays, but for a
    JAVA_HOME that Spark does not run on.

    Raises:
        ConfigurationError: no Java that Spark runs on was found, or PYSPARK_PYTHON is a Python without Ottla.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in TRUST_ARROW.items():
        os.environ.setdefault(name, value)
    # Spark's default is the python3 of the PATH, which need not be the one that Ottla is installed in.
    check_workers(os.environ.setdefault("PYSPARK_PYTHON", sys.executable))


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
        ConfigurationError: no Java that Spark runs on was found, or PYSPARK_PYTHON is a Python without Ottla.
        ImportError: pyspark or pyarrow is missing; the error names the extra to install.
    """
    with optional_dependency("local_session", extra="spark"):
        from pyspark.sql import SparkSession

    prepare_environment()
    use_installed_pyspark()
    settings = {**LOCAL_DEFAULTS, "spark.driver.memory": memory, **(config or {})}
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
    """Options of the JVM for what `ottla spark-warm-up` has left."""
    import pyspark

    return java_options(Path(pyspark.__file__).parent, find_java(), cache_dir())
