"""format("ottla") reports the cause of a connection mistake and its fix, in reads, streams and writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cryptography")

from tests.unit.client.connection_mistakes import MISTAKES

import ottla.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMITS = {"kafka.default.api.timeout.ms": "2000", "kafka.max.block.ms": "2000"}
KAFKA_NAMES = {"sasl_plain_username": "sasl.plain.username", "sasl_plain_password": "sasl.plain.password"}
CAUSES = {
    "nothing listens on the port": r"connection refused; is a broker running at this address\?",
    "plaintext client, TLS listener": r"the listener uses TLS; set security\.protocol to SSL or SASL_SSL",
    "wrong password": r"Invalid username or password \(sasl\.mechanism=PLAIN user=ann\)",
}


def read(spark: SparkSession, options: dict[str, str], _: Path) -> None:
    spark.read.format("ottla").options(**options, subscribe="t").load().count()


def stream(spark: SparkSession, options: dict[str, str], directory: Path) -> None:
    rows = spark.readStream.format("ottla").options(**options, subscribe="t").load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(directory / "c")).start()
    query.awaitTermination()


def write(spark: SparkSession, options: dict[str, str], _: Path) -> None:
    rows = spark.range(1, numPartitions=1).selectExpr("cast(id as string) as value")
    rows.write.format("ottla").options(**options, topic="t").mode("append").save()


@pytest.mark.parametrize("mistake", CAUSES)
@pytest.mark.parametrize("job", [read, stream, write])
def test_job_reports_the_cause_of_a_connection_mistake(
    spark: SparkSession, tmp_path: Path, job: Callable[[SparkSession, dict[str, str], Path], None], mistake: str
) -> None:
    ottla.spark.register(spark)
    configs = MISTAKES[mistake].configs
    kafka = {f"kafka.{KAFKA_NAMES.get(name, name.replace('_', '.'))}": str(value) for name, value in configs.items()}
    with MISTAKES[mistake].server() as servers:
        options = {"kafka.bootstrap.servers": servers, **LIMITS, **kafka}
        with pytest.raises(Exception, match=r"(?s)ottla\.errors\.") as raised:
            job(spark, options, tmp_path)
    assert re.search(CAUSES[mistake], str(raised.value))
