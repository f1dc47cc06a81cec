"""format("ottla") with the option ottla.table: a table and the newer records of the log, read as one."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")

from tests.effort import repeats
from tests.unit.tables.topics import TableWorld, table_world

from ottla import Broker, TopicPartition
from ottla_tables.log import tail

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


def test_concurrent_reads_see_every_offset_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
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
            for _ in range(repeats(brief=2, thorough=100)):
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


def test_file_tasks_read_the_log_once_per_worker(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.spark.options.options import read_options
    from ottla_tables.spark import source as module

    with table_world(
        broker, "tasks", tmp_path, format="parquet", schema="text", mode="upsert", partition_by="key", compact_files="0"
    ) as world:
        for number in range(6):
            world.send(b"%d" % number, key=b"k%d" % number)
        world.write()
        world.send(b"newer", key=b"k1")
        world.send(None, key=b"k2")
        reads = []

        def read_tail(*args: Any) -> Any:
            reads.append(args)
            return tail.read_tail(*args)

        monkeypatch.setattr(module, "read_tail", read_tail)
        options = {
            **{"kafka.bootstrap.servers": world.servers, "subscribe": "tasks"},
            **{"ottla.table": "true", "ottla.table.directory": str(tmp_path)},
        }
        source = module.TableSource(read_options(options, streaming=False))
        assert len(world.snapshot().files) == 6
        for task_bytes, tasks, files in ((module.TASK_BYTES, 2, 6), (1, 7, 1)):
            monkeypatch.setattr(module, "TASK_BYTES", task_bytes)
            reader = source.reader(source.schema())
            partitions: Any = [pickle.loads(pickle.dumps(partition)) for partition in reader.partitions()]
            assert len(partitions) == tasks
            assert len(partitions[0].paths) == files
            rows = [row for task in partitions for batch in reader.read(task) for row in batch.to_pylist()]
            values = sorted((row["key"], row["value"]) for row in rows)
            assert values == [("k0", "0"), ("k1", "newer"), *((f"k{n}", f"{n}") for n in (3, 4, 5))]
        assert len(reads) == 3, "the keys are cached, and the rows are read by each query"
        world.send(b"newest", key=b"k3")
        partitions = reader.partitions()
        rows = [row for task in partitions for batch in reader.read(task) for row in batch.to_pylist()]
        assert ("k3", "newest") in [(row["key"], row["value"]) for row in rows]
        assert len(rows) == 5


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
