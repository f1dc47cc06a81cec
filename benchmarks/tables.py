"""Cost and freshness of an Iceberg table of a topic, and its equality to the topic after kills.

    python -m benchmarks tables [--records 10000000] [--kills 10] [--compared 5000000]
    python -m benchmarks tables --records 100000000 --kills 50          20 GB of disk, less than an hour on two cores

Records of 100 random digits in four partitions. The same job, records to Parquet with zstd, in turns:

    table      `ottla tables run --once`, with its start; all records
    consumer   confluent-kafka's consumer and pyarrow; --compared records
    spark      Spark's own Kafka connector, local[2]; --compared records

CPU is that of the job's processes, Spark's without the start of its session. Then a second table of the same topic is
written by processes that are killed at random moments. Both tables have to have the records of the topic as
confluent-kafka reads it: the number of rows, and a sum over all rows of a hash of partition, offset and value, by
Polars, DuckDB and Spark. Freshness is the time from the acknowledgement of a record to its row, while a writer with
ottla.table.flush.ms=1000 runs, at rest and with other records arriving. Ends with 1 if a table differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.servers import ENVIRONMENT, Broker, ottla_command
from ottla import KafkaAdminClient, KafkaProducer, NewTopic

TOPIC, FRESH = "rows", "fresh"
PARTITIONS = 4
RECORD_BYTES = 100
BATCH_ROWS = 100_000
DIGITS = 10
"""Digits of a value that the hash takes as one number."""
MODULUS = 2**31 - 1
FACTORS = (400_000_009, 300_000_007, 200_000_033, 100_000_007, 90_000_049) * 2
"""One factor for each number of a value, so that their order counts. Products are below 2**63."""
OFFSET_FACTOR, PARTITION_FACTOR = 48_271, 69_621
WRITER_START_SECONDS = 1.5
FRESH_SECONDS = 20.0
FRESH_RECORDS = 10
QUIET: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Cost(NamedTuple):
    """CPU seconds, seconds and records of a job."""

    records: int
    seconds: float
    cpu_seconds: float

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds per million records."""
        return self.cpu_seconds / self.records * 1e6

    def line(self, name: str) -> str:
        """Return a row of the output."""
        rate = 1 / self.cpu_per_million
        return f"{name:<10} {self.records:>12,} {self.seconds:>8.1f} {self.cpu_per_million:>9.2f} {rate:>9.2f}"


class Content(NamedTuple):
    """The number of rows, and the sum of their hashes."""

    rows: int
    hashes: int


def fill(bootstrap: str, records: int) -> None:
    """Create the topic, and send its records."""
    import numpy as np
    import pyarrow as pa

    configs = {"ottla.table.format": "iceberg"}
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, topic_configs=configs)], wait_for_metadata=True)
    generator = np.random.default_rng(1)
    offsets = pa.py_buffer(np.arange(0, (BATCH_ROWS + 1) * RECORD_BYTES, RECORD_BYTES, dtype=np.int32))
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(-(-records // BATCH_ROWS)):
            rows = min(BATCH_ROWS, records - number * BATCH_ROWS)
            digits = pa.py_buffer(generator.integers(48, 58, rows * RECORD_BYTES, np.uint8))
            values = pa.Array.from_buffers(pa.binary(), rows, [None, offsets, digits])
            producer.send_batch(TOPIC, values, partition=number % PARTITIONS)


def measured(records: int, command: Sequence[str]) -> Cost:
    """Run a command, and return its cost with that of its children, or its output. Raises SystemExit if it fails."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    printed = process.stdout.read().split()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    cpu_seconds = float(printed[-1]) if "--part" in command and printed else usage.ru_utime + usage.ru_stime
    return Cost(records, time.perf_counter() - began, cpu_seconds)


def writer_command(bootstrap: str, directory: Path, *options: str) -> list[str]:
    """Return the command of a table writer."""
    address = ["--bootstrap-server", bootstrap, "--directory", str(directory)]
    return [sys.executable, "-m", "ottla", "tables", "run", *address, *options]


def write_with_kills(bootstrap: str, directory: Path, kills: int, seconds: float) -> int:
    """Write a table by processes that are killed at random moments, and a last one. Return the number of kills.

    `seconds`: time that the whole table took without kills.
    """
    moments, killed = random.Random(7), 0
    command = writer_command(bootstrap, directory, "--topic", TOPIC, "--once")
    while killed < kills:
        process = subprocess.Popen(command, env=ENVIRONMENT, **QUIET, start_new_session=True)
        try:
            process.wait(0.5 + moments.random() * 2 * (WRITER_START_SECONDS + 0.6 * seconds / kills))
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
    measured(1, command)
    return killed


def files_of(directory: Path) -> list[str]:
    """Return the paths of a table's files, by its catalog."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("ottla", type="sql", uri=f"sqlite:///{directory / 'catalog.db'}")
    tasks = catalog.load_table(f"ottla.{TOPIC}").scan().plan_files()
    return [task.file.file_path.removeprefix("file://") for task in tasks]


def row_hash(text: str, quote: str) -> str:
    """Return the hash of a row in SQL. `text`: the value as text; `quote`: the quotation mark of names."""
    numbers = [
        f"cast(substring({text}, {1 + i * DIGITS}, {DIGITS}) as bigint) * {factor} % {MODULUS}"
        for i, factor in enumerate(FACTORS)
    ]
    offset = f"cast({quote}offset{quote} as bigint) * {OFFSET_FACTOR} % {MODULUS}"
    partition = f"cast({quote}partition{quote} as bigint) * {PARTITION_FACTOR}"
    return " + ".join([*numbers, offset, partition])


def content_by_duckdb(files: Sequence[str]) -> Content:
    """Read files with DuckDB."""
    import duckdb

    hashes = row_hash("decode(value)", '"')
    row = duckdb.execute(
        f"select count(*), cast(sum({hashes}) as bigint) from read_parquet($1)", [list(files)]
    ).fetchone()
    assert row is not None
    return Content(*row)


def content_by_polars(files: Sequence[str]) -> Content:
    """Read files with Polars."""
    import polars as pl

    text = pl.col("value").cast(pl.String)
    hashes: Any = pl.col("offset").cast(pl.Int64) * OFFSET_FACTOR % MODULUS
    hashes += pl.col("partition").cast(pl.Int64) * PARTITION_FACTOR
    for i, factor in enumerate(FACTORS):
        hashes += text.str.slice(i * DIGITS, DIGITS).cast(pl.Int64) * factor % MODULUS
    frame = pl.scan_parquet(list(files)).select(pl.len().alias("rows"), hashes.sum().alias("hashes"))
    return Content(*frame.collect(engine="streaming").row(0))


def content_by_spark(spark: Any, files: Sequence[str]) -> Content:
    """Read files with Spark."""
    hashes = row_hash("cast(value as string)", "`")
    rows = spark.read.parquet(*files).selectExpr("count(*)", f"sum({hashes})")
    return Content(*rows.collect()[0])


def print_content_by_consumer(bootstrap: str, partitions: Sequence[int]) -> None:
    """Read partitions of the topic with confluent-kafka, and print their content as JSON."""
    import numpy as np

    powers = 10 ** np.arange(DIGITS - 1, -1, -1, dtype=np.int64)
    factors = np.array(FACTORS, np.int64)
    rows = hashes = 0
    for messages in consumed(bootstrap, partitions):
        values = np.frombuffer(b"".join(m.value() for m in messages), np.uint8).reshape(-1, len(FACTORS), DIGITS)
        numbers = (values - 48).astype(np.int64) @ powers * factors % MODULUS
        offsets = np.array([m.offset() for m in messages], np.int64) * OFFSET_FACTOR % MODULUS
        of_partitions = sum(m.partition() for m in messages) * PARTITION_FACTOR
        rows += len(messages)
        hashes += int(numbers.sum()) + int(offsets.sum()) + of_partitions
    print(json.dumps([rows, hashes]))


def consumed(bootstrap: str, partitions: Sequence[int], limit: int | None = None) -> Any:
    """Yield lists of messages: `limit` of them, or those up to the ends of the partitions."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "benchmark", "enable.auto.commit": False}
    consumer = Consumer({**settings, "queued.max.messages.kbytes": 65_536})
    total = sum(consumer.get_watermark_offsets(TopicPartition(TOPIC, p))[1] for p in partitions)
    consumer.assign([TopicPartition(TOPIC, p, 0) for p in partitions])
    left = total if limit is None else min(limit, total)
    while left:
        messages = consumer.consume(min(left, 10_000), 10.0)
        if not messages:
            raise SystemExit(f"confluent-kafka reads nothing, although {left} records are left")
        left -= len(messages)
        yield messages
    consumer.close()


def consume_to_parquet(bootstrap: str, limit: int, path: Path) -> None:
    """Write a topic to Parquet with confluent-kafka's consumer and pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = (("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")))
    schema = pa.schema([*columns, ("key", pa.binary()), ("value", pa.binary())])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for messages in consumed(bootstrap, range(PARTITIONS), limit):
            rows = [(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value()) for m in messages]
            writer.write_table(pa.table(list(zip(*rows, strict=True)), schema=schema))


def spark_to_parquet(bootstrap: str, limit: int, path: Path) -> None:
    """Do the same with Spark's own connector."""
    from benchmarks.spark import spark_cpu, spark_session

    ends = json.dumps({TOPIC: {str(p): limit // PARTITIONS for p in range(PARTITIONS)}})
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC, "endingOffsets": ends}
    with spark_session("2g") as spark:
        before = spark_cpu()  # of the start of the JVM, which a cluster does not pay for each job
        rows = spark.read.format("kafka").options(**options, startingOffsets="earliest").load()
        columns = ("partition", "offset", "timestamp", "key", "value")
        rows.select(*columns).write.option("compression", "zstd").parquet(str(path))
        print(json.dumps(spark_cpu() - before))


def content_of_topic(bootstrap: str) -> Content:
    """Read the topic with two processes."""
    halves = [part_command("content", bootstrap, *map(str, range(first, PARTITIONS, 2))) for first in (0, 1)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in halves]
    parts = [json.loads(process.communicate()[0]) for process in processes]
    return Content(*map(sum, zip(*parts, strict=True)))


def part_command(*arguments: str) -> list[str]:
    """Return the command of a part that runs in its own process."""
    return [sys.executable, "-m", "benchmarks.tables", "--part", *arguments]


def freshness(bootstrap: str, directory: Path) -> dict[str, list[float]]:
    """Return the seconds from acknowledgements to rows, at rest and with 100,000 records per second arriving."""
    configs = {"ottla.table.format": "iceberg", "ottla.table.flush.ms": "1000"}
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(FRESH, 1, 1, topic_configs=configs)], wait_for_metadata=True)
        end = _end_of_table(admin, directory)
        writer = subprocess.Popen(writer_command(bootstrap, directory, "--topic", FRESH), env=ENVIRONMENT, **QUIET)
        stopping = threading.Event()
        loading = threading.Thread(target=_load, args=(bootstrap, stopping))
        try:
            with KafkaProducer(bootstrap_servers=bootstrap) as producer:
                _seconds_to_row(producer, end)  # the table is created
                at_rest = [_seconds_to_row(producer, end) for _ in range(FRESH_RECORDS)]
                loading.start()
                loaded = [_seconds_to_row(producer, end) for _ in range(FRESH_RECORDS)]
        finally:
            stopping.set()
            if loading.ident:
                loading.join()
            writer.terminate()
            writer.wait()
    return {"at rest": at_rest, "under load": loaded}


def _end_of_table(admin: KafkaAdminClient, directory: Path) -> Callable[[], int]:
    """Return a function for the offset up to which the table has rows."""
    from ottla_tables.formats.factory import TableFactory
    from ottla_tables.formats.table import TableIdentity
    from ottla_tables.log.lookup import Lookup

    (topic,) = Lookup(admin).topics([FRESH])
    factory, identity = TableFactory(directory, {}), TableIdentity(FRESH, topic.topic_id)

    def end() -> int:
        table = factory.open_existing(identity, topic.config)
        return 0 if table is None else table.load().offsets.get(0, 0)

    return end


def _seconds_to_row(producer: KafkaProducer, end: Callable[[], int]) -> float:
    offset = producer.send(FRESH, bytes(RECORD_BYTES)).get(FRESH_SECONDS).offset
    began = time.perf_counter()
    while end() <= offset:
        if time.perf_counter() - began > FRESH_SECONDS:
            raise SystemExit(f"the row of offset {offset} is not in the table after {FRESH_SECONDS} s")
        time.sleep(0.02)
    return time.perf_counter() - began


def _load(bootstrap: str, stopping: threading.Event) -> None:
    values = [bytes(RECORD_BYTES)] * 1_000
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        while not stopping.wait(0.01):
            producer.send_batch(FRESH, values)


def check(name: str, files: Sequence[str], spark: Any, expected: Content) -> bool:
    """Print whether the engines read the content of the topic from a table's files."""
    is_equal = True
    for engine, actual in (
        ("Polars", content_by_polars(files)),
        ("DuckDB", content_by_duckdb(files)),
        ("Spark", content_by_spark(spark, files)),
    ):
        is_equal = is_equal and actual == expected
        verdict = "equal to the topic" if actual == expected else f"DIFFERENT, expected {expected}"
        print(f"{name}, {engine}: {actual.rows:,} rows, hashes {actual.hashes}: {verdict}", flush=True)
    return is_equal


def main(argv: Sequence[str] | None = None) -> int:
    """Print costs, files, content and freshness."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks tables", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--compared", type=int, default=5_000_000, help="records of the other jobs")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.part:
        run_part(*args.part)
        return 0
    broker = Broker("tables", ottla_command)
    broker.start()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-tables-") as scratch:
            return run(f"127.0.0.1:{broker.port}", Path(scratch), args)
    finally:
        broker.stop()


def run_part(name: str, bootstrap: str, *arguments: str) -> None:
    """Run a part in this process."""
    if name == "content":
        print_content_by_consumer(bootstrap, [int(partition) for partition in arguments])
    else:
        limit, path = arguments
        (consume_to_parquet if name == "consumer" else spark_to_parquet)(bootstrap, int(limit), Path(path))


def run(bootstrap: str, scratch: Path, args: argparse.Namespace) -> int:
    """Run all parts against a broker."""
    from benchmarks.spark import spark_session

    began = time.perf_counter()
    fill(bootstrap, args.records)
    print(f"{args.records:,} records sent in {time.perf_counter() - began:.0f} s", flush=True)
    print(f"{'job':<10} {'records':>12} {'s':>8} {'CPU s/M':>9} {'M/CPU s':>9}   CPU of the table : of the job")
    whole, killed = scratch / "whole", scratch / "killed"
    table = measured(args.records, writer_command(bootstrap, whole, "--topic", TOPIC, "--once"))
    print(table.line("table"), flush=True)
    for job in ("consumer", "spark"):
        command = part_command(job, bootstrap, str(args.compared), str(scratch / job))
        cost = measured(args.compared, command)
        print(f"{cost.line(job)}   {table.cpu_per_million / cost.cpu_per_million:.2f}", flush=True)
    sizes = sorted(Path(file).stat().st_size / 1e6 for file in files_of(whole))
    print(f"{len(sizes)} files of {sizes[0]:.0f} to {sizes[-1]:.0f} MB, median {statistics.median(sizes):.0f}")
    expected = content_of_topic(bootstrap)
    with spark_session("2g") as spark:
        is_equal = check("table", files_of(whole), spark, expected)
        shutil.rmtree(whole)
        kills = write_with_kills(bootstrap, killed, args.kills, table.seconds)
        is_equal = check(f"table after {kills} kills", files_of(killed), spark, expected) and is_equal
    for name, seconds in freshness(bootstrap, scratch / "fresh").items():
        print(f"freshness {name}: median {statistics.median(seconds):.2f} s, at most {max(seconds):.2f} s")
    return 0 if is_equal and expected.rows == args.records else 1


if __name__ == "__main__":
    sys.exit(main())
