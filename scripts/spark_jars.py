"""Spark's own Kafka connector from Maven Central, as the peer of `format("ottla")` in tests and benchmarks.

If `missing()` returns a reason, tests skip. The versions are the newest in Maven Central that run on the
Spark of `ottla[spark]` (4.3): the connector ends at 4.2.0 there, and its token provider, which only delegation tokens
need, at 4.0.0. Each jar comes without its dependencies: Spark brings the rest.
"""

from __future__ import annotations

import subprocess

from scripts import maven

CONNECTOR = "4.2.0"
CLIENTS = "3.9.2"
JARS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    f"org.apache.kafka:kafka-clients:{CLIENTS}",
    "org.apache.commons:commons-pool2:2.12.1",
)


def missing() -> str | None:
    """Return why the connector is not available on this machine, or None. The first call downloads it."""
    reason = maven.missing()
    if reason is not None:
        return reason
    try:
        paths()
    except subprocess.SubprocessError as error:
        return f"Maven could not fetch Spark's Kafka connector {CONNECTOR}: {error}"
    return None


def paths() -> str:
    """Return the value of `spark.jars`. Raises subprocess.SubprocessError if Maven fails."""
    libs = maven.jars(f"spark-kafka-{CONNECTOR}", *JARS, alone=True)
    return ",".join(str(jar) for jar in sorted(libs.glob("*.jar")))
