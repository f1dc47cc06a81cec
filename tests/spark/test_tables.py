"""format("ottla") with the option ottla.table: a table and the log after it, read as one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")

from tests.unit.tables.topics import TableWorld, table_world

from ottla import Broker, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def read(spark: SparkSession, world: TableWorld, directory: Path, **options: str) -> DataFrame:
    """Read the topic with its table."""
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", world.servers)
    reader = reader.option("subscribe", world.topic).option("ottla.table", "true")
    schema = options.pop("schema", None)
    return reader.option("ottla.table.directory", str(directory)).options(**options).load(schema=schema)


def test_reads_while_producing_and_flushing_are_exact_to_an_offset(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    with table_world(broker, "exact", tmp_path, format="iceberg", compact_files="3") as world:
        world.send(*(b"old %d" % i for i in range(1000)))
        world.write()
        world.admin.delete_records({TopicPartition("exact", 0): 900})
        stopping = threading.Event()

        def produce() -> None:
            number = 0
            while not stopping.wait(0.05):
                world.send(*(b"%d" % (number + i) for i in range(50)), partition=number // 50 % 2)
                number += 50

        def flush() -> None:
            service = world.service()
            while not stopping.wait(0.5):
                service.write_all()

        threads = [threading.Thread(target=work) for work in (produce, flush)]
        for thread in threads:
            thread.start()
        reached: dict[int, int] = {}
        try:
            for _ in range(2):
                rows = read(spark, world, tmp_path).select("partition", "offset", "value").collect()
                for partition in (0, 1):
                    offsets = sorted(row.offset for row in rows if row.partition == partition)
                    assert offsets == list(range(len(offsets)))
                    assert len(offsets) >= reached.get(partition, 0)
                    reached[partition] = len(offsets)
        finally:
            stopping.set()
            for thread in threads:
                thread.join()
        assert reached[0] > 1000
        values = {(row.partition, row.offset): row.value for row in read(spark, world, tmp_path).collect()}
        assert values[0, 899] == b"old 899"
        assert values[1, 0] == b"50"


def test_upserts_have_the_last_row_of_each_key(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    with table_world(broker, "latest", tmp_path, format="delta", schema="json", mode="upsert") as world:
        for key, number in ((b"a", 1), (b"b", 2), (b"c", 3)):
            world.send(b'{"n": %d, "part": {"x": "%d"}}' % (number, number), key=key)
        world.write()
        world.send(b'{"n": 4}', b'{"n": 5, "part": {"x": "y"}}', b"bad", key=b"a")
        world.send(None, key=b"b")
        frame = read(spark, world, tmp_path)
        rows = sorted((bytes(row.key), row.n, row.x) for row in frame.select("key", "n", "part.x").collect())
        assert rows == [(b"a", 5, "y"), (b"c", 3, "3")]
        assert frame.where("n > 3").count() == 1
        for options, message in (
            ({"startingOffsets": '{"latest": {"0": 1}}'}, "read as a whole"),
            ({"subscribe": "latest,exact"}, "name one topic"),
            ({"schema": "n string"}, "there is no column n string; the columns are offset bigint"),
            ({"subscribe": "nothing"}, "no topic nothing with the config"),
        ):
            mistakes: Any = options
            with pytest.raises(Exception, match=message):
                read(spark, world, tmp_path, **mistakes).collect()
