"""A running stream whose broker is killed and restarted, with new leader epochs and added partitions."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.interop.kafka_jars import server
from tests.spark.connector.jobs import Jobs
from tests.spark.connector.table import first_or_all

from ottla import KafkaProducer, NewTopic
from ottla.client.admin.admin import KafkaAdminClient
from ottla.net.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SECONDS = 90
DOWN_SECONDS = 3.0


@contextmanager
def broker(data: Path, port: int, *, kill: bool) -> Iterator[str]:
    """Run a broker in its own process, which is killed or stopped at the end."""
    options = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": str(data)}
    command = [sys.executable, "-m", "ottla", "broker"]
    command += [part for name, value in options.items() for part in ("--override", f"{name}={value}")]
    with server(command, port, data.parent / "broker.log", kill=kill):
        yield f"127.0.0.1:{port}"


def send(address: str, partition: int, *numbers: int) -> list[str]:
    values = [f"{partition}-{n}" for n in range(*numbers)]
    with KafkaProducer(bootstrap_servers=address) as producer:
        for value in values:
            producer.send("t", value.encode(), partition=partition)
    return values


def wait_until(reached: Callable[[], bool], query: StreamingQuery, what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not reached():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.mark.parametrize("name", first_or_all("ottla", "kafka"))
def test_running_stream_survives_broker_restarts(
    name: str, spark: SparkSession, tmp_path: Path, no_connector: str | None
) -> None:
    if name == "kafka" and no_connector:
        pytest.skip(no_connector)
    port, seen = free_port(), Counter[str]()

    def collect(rows: DataFrame, _: int) -> None:
        seen.update(row.v for row in rows.selectExpr("cast(value as string) v").collect())

    with broker(tmp_path / "data", port, kill=True) as address:
        with KafkaAdminClient(bootstrap_servers=address) as admin:
            admin.create_topics([NewTopic("t", 2, 1)])
        sent = send(address, 0, 10) + send(address, 1, 10)
        frame = Jobs(spark, name, address).stream_of({"subscribe": "t", "startingOffsets": "earliest"})
        query = (
            frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        )
        wait_until(lambda: len(seen) == 20, query, "the first records")
    try:
        time.sleep(DOWN_SECONDS)
        with broker(tmp_path / "data", port, kill=False) as address:
            sent += send(address, 0, 10, 20)
            with KafkaAdminClient(bootstrap_servers=address) as admin:
                admin.create_partitions({"t": 3})
            sent += send(address, 2, 5)
            wait_until(lambda: len(seen) == 35, query, f"{len(seen)} of 35 after a kill")
        with broker(tmp_path / "data", port, kill=False) as address:
            sent += send(address, 2, 5, 10)
            wait_until(lambda: len(seen) == 40, query, f"{len(seen)} of 40 after a stop")
            query.stop()
    finally:
        query.stop()
    assert seen == Counter(sent)
    assert query.exception() is None
