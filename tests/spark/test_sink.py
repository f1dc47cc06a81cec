"""Writing with `format("ottla")`."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.whole_topic import whole_topic

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from ottla.broker.embedded import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 3
KILLS = int(os.environ.get("OTTLA_SINK_KILLS", "1"))
SECONDS = 300


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Broker({"num.partitions": PARTITIONS}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic() -> str:
    return f"sink-{uuid.uuid4().hex[:8]}"


def values_of(address: str, topic: str) -> list[Any]:
    """Return the records that a read_committed consumer reads."""
    return whole_topic(address, topic, PARTITIONS, isolation_level="read_committed")


def test_batch_is_written_and_read_back(spark: SparkSession, address: str, topic: str) -> None:
    rows = spark.range(1000).selectExpr(
        "cast(id as string) as key",
        "concat('value ', id) as value",
        "cast(id % 3 as int) as partition",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) as headers",
    )
    options = {"kafka.bootstrap.servers": address, "topic": topic}
    rows.write.format("ottla").options(**options).mode("append").save()
    actual = (
        spark.read.format("ottla")
        .options(**{"kafka.bootstrap.servers": address, "subscribe": topic, "includeHeaders": "true"})
        .load()
        .selectExpr("cast(key as string)", "cast(value as string)", "partition", "headers[0].value as header")
        .collect()
    )
    assert {(r.key, r.value, r.partition, bytes(r.header)) for r in actual} == {
        (str(i), f"value {i}", i % 3, str(i).encode()) for i in range(1000)
    }
    assert len(actual) == 1000


def test_invalid_writes_are_rejected_before_the_job_runs(spark: SparkSession, address: str, topic: str) -> None:
    rows = spark.range(1).selectExpr("id as value")
    options = {"kafka.bootstrap.servers": address, "topic": topic}
    with pytest.raises(Exception, match="the column value is of type bigint"):
        rows.write.format("ottla").options(**options).mode("append").save()
    with pytest.raises(Exception, match="a topic only grows"):
        rows.write.format("ottla").options(**options).mode("overwrite").save()


def test_named_write_in_foreach_batch_is_done_once(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    with KafkaProducer(bootstrap_servers=address) as producer:
        for i in range(100):
            producer.send(topic, b"%d" % i)
    failures = [RuntimeError("after the write")]

    def write(rows: Any, batch_id: int) -> None:
        sink = {"kafka.bootstrap.servers": address, "topic": f"{topic}-out", "sinkId": "copy"}
        rows.select("value").write.format("ottla").options(**sink).mode("append").save()
        if failures:
            raise failures.pop()

    source = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}

    def run() -> None:
        rows = spark.readStream.format("ottla").options(**source).load()
        query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
        query.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="after the write"):
        run()
    run()
    assert sorted(int(r.value) for r in values_of(address, f"{topic}-out")) == list(range(100))


RECORDS = int(os.environ.get("OTTLA_SINK_RECORDS", "6000"))


def kill_and_resume(command: list[str], written: Callable[[], int], folder: Path) -> None:
    """Kill a query KILLS times, each time shortly after it has written rows, and then run it to its end."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    dice = random.Random(seed)
    with (folder / "log").open("ab") as log:
        for _ in range(KILLS):
            before = written()
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            deadline = time.monotonic() + SECONDS
            while process.poll() is None and written() == before:
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.1)
            time.sleep(dice.uniform(0, 1.5))
            os.killpg(process.pid, signal.SIGKILL)  # driver, JVM and workers
            process.wait()
        assert subprocess.run(command, stdout=log, stderr=log, timeout=SECONDS).returncode == 0


@pytest.fixture
def sent(address: str, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=address) as producer:
        for i in range(RECORDS):
            producer.send(topic, b"row %d" % i, key=b"%d" % (i % 100))


@pytest.mark.slow
@pytest.mark.usefixtures("sent")
def test_killed_query_writes_every_record_once(address: str, topic: str, tmp_path: Path) -> None:
    target = f"{topic}-copy"

    def written() -> int:
        with KafkaConsumer(bootstrap_servers=address) as consumer:
            return sum(consumer.end_offsets([TopicPartition(target, p) for p in range(PARTITIONS)]).values())

    command = [sys.executable, "-m", "tests.spark.copy_job", address, topic, target, str(tmp_path / "checkpoint")]
    kill_and_resume(command, written, tmp_path)
    copies = values_of(address, target)
    assert Counter(r.value for r in copies) == Counter(b"ROW %d" % i for i in range(RECORDS))
    for key in range(100):
        numbers = [int(r.value.split()[1]) for r in copies if r.key == b"%d" % key]
        assert numbers == sorted(numbers)


@pytest.mark.slow
@pytest.mark.usefixtures("sent")
def test_killed_micro_batch_retried_with_fewer_tasks_is_rejected(address: str, topic: str, tmp_path: Path) -> None:
    """Otherwise the rows of tasks that no longer exist would be stored twice without an error."""
    target = f"{topic}-copy"
    command = [sys.executable, "-m", "tests.spark.copy_job", address, topic, target, str(tmp_path / "checkpoint")]
    with KafkaAdminClient(bootstrap_servers=address) as admin:

        def markers() -> list[str]:
            names = [g.group_id for g in admin.list_consumer_groups() if f"{target}-" in g.group_id]
            states = admin.describe_transactions(names)
            return [name for name in names if states[name].state == "CompleteCommit"]

        log = tmp_path / "log"
        with log.open("ab") as output:
            # Six tasks, of which the first three block before they write.
            process = subprocess.Popen([*command, "6", "3"], stdout=output, stderr=output, start_new_session=True)
            deadline = time.monotonic() + SECONDS
            while len(markers()) < 3:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        left = markers()
        written = {r.value for r in values_of(address, target)}
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        assert ended.returncode != 0
        reported = re.search(r"micro-batch 0 of query .* --delete((?: --group \S+)+)", ended.stderr)
        assert reported is not None, ended.stderr
        assert sorted(reported[1].replace("--group", "").split()) == sorted(left)
        admin.delete_consumer_groups(left)
        assert subprocess.run(command, capture_output=True, timeout=SECONDS).returncode == 0
    copies = Counter(r.value for r in values_of(address, target))
    assert copies == Counter({b"ROW %d" % i: 1 for i in range(RECORDS)}) + Counter(written)


@pytest.mark.slow
@pytest.mark.usefixtures("sent")
def test_killed_query_writes_every_row_to_the_database_once(address: str, topic: str, tmp_path: Path) -> None:
    database = tmp_path / "copy.db"

    def rows(columns: str) -> list[tuple[str, ...]]:
        with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection:
            try:
                return connection.execute(f"select {columns} from copy").fetchall()
            except sqlite3.OperationalError:  # not created yet
                return []

    target = f"sqlite:///{database}"
    command = [sys.executable, "-m", "tests.spark.copy_job", address, topic, target, str(tmp_path / "checkpoint")]
    kill_and_resume(command, lambda: len(rows("key")), tmp_path)
    assert Counter(rows("key, value")) == Counter((str(i % 100), f"ROW {i}") for i in range(RECORDS))
