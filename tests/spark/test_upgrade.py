"""Checkpoints of streaming queries: this version continues those of the earlier one, and vice versa.

One session runs both versions, because the data sources run in Spark's Python workers: the environment at the time of
`register` decides which code they import.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.upgrade.earlier_version import ROOT, source_of_earlier_version
from tests.whole_topic import whole_topic

pytest.importorskip("pyspark")
pytest.importorskip("sqlalchemy")

import ottla.spark
from ottla import Broker, KafkaProducer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 3
SECONDS = 120


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return source_of_earlier_version(tmp_path_factory.mktemp("earlier"))


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": PARTITIONS}) as started:
        yield started


@contextlib.contextmanager
def version_of(source: Path, spark: SparkSession) -> Iterator[None]:
    """Run the data sources with the code in `source`."""
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment["PYTHONPATH"] = str(source)
    ottla.spark.register(spark)
    try:
        yield
    finally:
        environment.clear()
        environment.update(before)
        ottla.spark.register(spark)


def imported_by_workers(spark: SparkSession) -> Path:
    def path(_: object) -> Iterator[str]:
        import ottla

        yield str(ottla.__file__)

    (file,) = spark.sparkContext.parallelize([0], 1).mapPartitions(path).collect()
    return Path(file).parents[1]


def copy(spark: SparkSession, servers: str, directory: Path) -> None:
    """Copy new records of the topic `rows` to the topic `copies` and to a database, with checkpointed queries."""
    queries = []
    sinks = {
        "ottla": {"kafka.bootstrap.servers": servers, "topic": "copies"},
        "ottla.sql": {"url": f"sqlite:///{directory / 'copies.db'}", "dbtable": "copies"},
    }
    for sink, options in sinks.items():
        rows = spark.readStream.format("ottla").options(
            **{"kafka.bootstrap.servers": servers, "subscribe": "rows", "startingOffsets": "earliest"}
        )
        values = rows.load().selectExpr("cast(value as string) as value")
        writer = values.writeStream.format(sink).options(**options)
        checkpoint = str(directory / f"checkpoint-{sink}")
        queries.append(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
    for query in queries:
        assert query.awaitTermination(SECONDS)


def delete_last_commits(directory: Path) -> int:
    """Remove the last commit of each query, as if Spark had been killed after its sinks had committed."""
    commits = list(directory.glob("checkpoint-*/commits"))
    for folder in commits:
        last = max(int(path.name) for path in folder.iterdir() if path.name.isdigit())
        (folder / str(last)).unlink()
        (folder / f".{last}.crc").unlink(missing_ok=True)
    return len(commits)


@pytest.mark.slow
def test_checkpoint_is_continued_after_upgrade_and_downgrade(
    spark: SparkSession, broker: Broker, earlier: Path, tmp_path: Path
) -> None:
    servers, values = broker.bootstrap_servers, []
    for turn, source in enumerate([earlier, ROOT / "src", earlier]):
        with KafkaProducer(bootstrap_servers=servers) as producer:
            for n in range(30):
                values.append(f"{turn}.{n}")
                producer.send("rows", values[-1].encode(), partition=n % PARTITIONS)
        with version_of(source, spark):
            assert imported_by_workers(spark) == source
            copy(spark, servers, tmp_path)
        copies = whole_topic(servers, "copies", PARTITIONS, isolation_level="read_committed")
        assert sorted(record.value.decode() for record in copies) == sorted(values)
        with contextlib.closing(sqlite3.connect(tmp_path / "copies.db")) as database:
            assert sorted(row[0] for row in database.execute("select value from copies")) == sorted(values)
        # The next version retries the last micro-batch, whose rows are already in the target.
        assert delete_last_commits(tmp_path) == 2
