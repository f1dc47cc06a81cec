"""The same Spark jobs over `format("ottla")` and over Spark's own Kafka connector, as ratios.

    python -m benchmarks spark                          5 million records of 100 B, local[2]; some 15 minutes
    python -m benchmarks spark --records 1000000 --brokers ottla --jobs count,parquet

Each broker (Apache Kafka, Ottla) has a topic of 6 partitions. In one session, the jobs run in turns, one source after
the other, after two rounds of warm-up, in which the JVM compiles its hot code:

    count     df.count()
    sum       sum(length(value))
    parquet   key, value, topic, partition, offset and timestamp as Parquet
    stream    AvailableNow into the sink noop
    sink      records of 100 B into a topic, --records of them
    sink20k   20,000 of them, which shows the fixed cost of a write

`floor` is a sink in Python that drops its rows: the time that Spark takes for any sink in Python.
Our sink writes each task exactly once, in a transaction; the connector's writes at least once. `offline` is
`ottla.log.dirs` over the broker's data directory. A ratio is the median over the rounds of rows/s by the connector's of
the same round, with its minimum and maximum; CPU is the seconds of Spark (JVM and Python workers) per million
rows. Trust both more than the rates, which vary on machines with shared cores.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scripts import apache_kafka, spark_jars

from benchmarks import results
from benchmarks.servers import TICKS, Broker, ottla_command
from ottla.storage.checkpoints import HIGH_WATERMARKS, read_offsets

PARTITIONS = 6
BATCH_ROWS = 100_000
TOPIC = "benchmark"
SINK_TOPIC = "benchmark-sink"
SHORT = {"retention.bytes": "300000000", "segment.bytes": "100000000"}
"""Configs of the topic that is written, so that many rounds fit on a disk."""
CHECKPOINT_SECONDS = 60
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
SOURCES = ("kafka", "ottla", "offline")
JOBS = ("count", "sum", "parquet", "stream", "sink", "sink20k")
SINKS = {"sink": None, "sink20k": 20_000}
"""Jobs that write, with their number of rows; None for that of --records."""


class Run(NamedTuple):
    """One run of a job."""

    rows_per_second: float
    cpu: float


def fill(bootstrap: str, records: int) -> None:
    """Create a topic with records of 100 B, which differ within a batch."""
    import pyarrow as pa

    from ottla import KafkaAdminClient, KafkaProducer, NewTopic

    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1), NewTopic(SINK_TOPIC, PARTITIONS, 1, topic_configs=SHORT)])
    values = pa.array([b"%020d" % i * 5 for i in range(BATCH_ROWS)], pa.binary())
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for partition in range(PARTITIONS):
            left = records // PARTITIONS
            while left:
                rows = min(left, BATCH_ROWS)
                producer.send_batch(TOPIC, values.slice(0, rows), partition=partition)
                left -= rows


class Jobs:
    """The jobs over a topic of one broker."""

    def __init__(self, spark: Any, bootstrap: str, logs: Path, records: int, scratch: Path) -> None:
        self.spark = spark
        self._bootstrap = bootstrap
        self._logs = logs
        self._records = records
        self._scratch = scratch

    def run(self, job: str, source: str) -> int:
        """Run one job, and return the number of rows that it read."""
        match job:
            case "count":
                return int(self._rows(source).count())
            case "sum":
                return self._sum(source)
            case "sink" | "sink20k":
                return self._sink(source, SINKS[job] or self._records)
            case "parquet":
                self._rows(source).select(*COLUMNS).write.mode("overwrite").parquet(str(self._scratch / "parquet"))
                return self._records
            case _:
                return self._stream(source)

    def _options(self, source: str) -> dict[str, str]:
        place = {"kafka.bootstrap.servers": self._bootstrap}
        if source == "offline":
            place = {"ottla.log.dirs": str(self._logs)}
        return {**place, "subscribe": TOPIC, "startingOffsets": "earliest"}

    def _rows(self, source: str) -> Any:
        name = "kafka" if source == "kafka" else "ottla"
        return self.spark.read.format(name).options(**self._options(source)).load()

    def _sum(self, source: str) -> int:
        from pyspark.sql import functions as f

        (row,) = self._rows(source).agg(f.sum(f.length("value")), f.count("value")).collect()
        assert row[0] == 100 * row[1], row
        return int(row[1])

    def _sink(self, source: str, records: int) -> int:
        digits = "lpad(cast(id as string), 20, '0')"
        rows = self.spark.range(0, records, numPartitions=PARTITIONS).selectExpr(
            f"cast(repeat({digits}, 5) as binary) as value"
        )
        place = {"kafka.bootstrap.servers": self._bootstrap, "topic": SINK_TOPIC}
        rows.write.format(source).options(**place).mode("append").save()
        return records

    def _stream(self, source: str) -> int:
        from pyspark.sql import functions as f

        checkpoint = tempfile.mkdtemp(dir=self._scratch)
        rows = self.spark.readStream.format(source).options(**self._options(source)).load()
        writer = rows.select(f.length("value")).writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", checkpoint).start()
        query.awaitTermination()
        return sum(progress["numInputRows"] for progress in query.recentProgress)


def floor_sink() -> Any:
    """Return a data source whose writer drops its rows. Local, so that Spark sends the class to its workers."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    class Writer(DataSourceArrowWriter):
        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            for _ in iterator:
                pass
            return WriterCommitMessage()

    class Floor(DataSource):
        @classmethod
        def name(cls) -> str:
            return "floor"

        def schema(self) -> str:
            return "value binary"

        def writer(self, schema: Any, overwrite: bool) -> Writer:
            return Writer()

    return Floor


def measured(jobs: Jobs, job: str, source: str, records: int) -> Run:
    """Run a job, and return its time and CPU. Raises RuntimeError if rows are missing."""
    before, begin = spark_cpu(), time.perf_counter()
    actual = jobs.run(job, source)
    seconds = time.perf_counter() - begin
    cpu = spark_cpu() - before
    if actual != records:
        raise RuntimeError(f"{job} of {source}: {actual} rows, {records} names")
    return Run(records / seconds, cpu / records * 1e6)


def spark_cpu() -> float:
    """Return the CPU seconds of this process's children: the JVM and its Python workers."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                used[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS
    return sum(seconds for pid, seconds in used.items() if _descends(pid, parents))


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False


@contextlib.contextmanager
def spark_session(memory: str) -> Iterator[Any]:
    """Return a session with local[2] and both sources."""
    from ottla.spark.environment.sockets import worker_sockets
    from ottla.spark.session import local_session

    config = {**worker_sockets(), "spark.jars": spark_jars.paths(), "spark.log.level": "ERROR"}
    spark = local_session("benchmark", memory=memory, config=config)
    spark.dataSource.register(floor_sink())
    try:
        yield spark
    finally:
        spark.stop()


def compare(name: str, jobs: Jobs, args: argparse.Namespace) -> dict[str, dict[str, list[Run]]]:
    """Run all jobs over all sources in turns. The first rounds are a warm-up."""
    result: dict[str, dict[str, list[Run]]] = {}
    for repeat in range(-args.warm_ups, args.repeats):
        for job in args.jobs.split(","):
            for source in sources_of(job):
                figure = measured(jobs, job, source, SINKS.get(job) or args.records)
                print(f"{name} {job} {source}: {figure.rows_per_second:,.0f} rows/s", file=sys.stderr)
                if repeat >= 0:
                    result.setdefault(job, {}).setdefault(source, []).append(figure)
    return result


def sources_of(job: str) -> tuple[str, ...]:
    """Return the sources that a job reads from, or the sinks that it writes to."""
    if job in SINKS:
        return ("kafka", "ottla", "floor")
    return ("kafka", "ottla") if job == "stream" else SOURCES


def show(name: str, actual: dict[str, dict[str, list[Run]]]) -> None:
    """Print the table of one broker."""
    print(f"\n{name}: rows/s (CPU s per million), and the ratio to Spark's connector")
    for job, by_source in actual.items():
        theirs = by_source["kafka"]
        for source, ours in by_source.items():
            rate = statistics.median(x.rows_per_second for x in ours)
            cpu = statistics.median(x.cpu for x in ours)
            ratios = sorted(a.rows_per_second / b.rows_per_second for a, b in zip(ours, theirs, strict=True))
            text = f"{statistics.median(ratios):5.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            print(f"  {job:<8} {source:<8} {rate:>12,.0f} ({cpu:4.2f})  {text if source != 'kafka' else ''}")


def brokers(names: str) -> list[Broker]:
    """Run the brokers. Yield them by name."""
    by_name = {"kafka": Broker("kafka", apache_kafka.prepare_node), "ottla": Broker("ottla", ottla_command)}
    return [by_name[name] for name in names.split(",")]


def wait_for_checkpoint(logs: Path, records: int) -> None:
    """Wait until the high watermarks on disk cover all records, because reading log directories ends there."""
    deadline = time.monotonic() + CHECKPOINT_SECONDS
    while sum(n for tp, n in read_offsets(logs / HIGH_WATERMARKS).items() if tp.topic == TOPIC) < records:
        if time.monotonic() > deadline:
            raise SystemExit(f"no checkpoint of all records in {logs}")
        time.sleep(0.2)


def figures(name: str, actual: dict[str, dict[str, list[Run]]]) -> list[results.Figure]:
    """Return rows/s and CPU of each job over one broker."""
    listed = []
    for job, by_source in actual.items():
        rates = {source: [run.rows_per_second for run in runs] for source, runs in by_source.items()}
        cpu = {source: [run.cpu for run in runs] for source, runs in by_source.items()}
        listed.append(results.Figure(f"{job} on {name}", "rows/s", True, rates))
        listed.append(results.Figure(f"CPU of {job} on {name}", "s/M", False, cpu))
    return listed


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all jobs over both brokers, and print the tables."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks spark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warm-ups", type=int, default=2, help="rounds that are not counted")
    parser.add_argument("--brokers", default="kafka,ottla")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--memory", default="2g", help="the JVM's heap")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results and rows of the history")
    args = parser.parse_args(argv)
    args.records -= args.records % PARTITIONS
    reason = apache_kafka.missing() or spark_jars.missing()
    if reason is not None:
        print(f"The comparison with Spark's connector is skipped: {reason}.")
        return 0
    scratch = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    measured_runs = {}
    with spark_session(args.memory) as spark:
        for broker in brokers(args.brokers):
            broker.start()
            try:
                bootstrap = f"127.0.0.1:{broker.port}"
                fill(bootstrap, args.records)
                logs = broker.directory / "log" if broker.name == "kafka" else broker.directory
                wait_for_checkpoint(logs, args.records)
                jobs = Jobs(spark, bootstrap, logs, args.records, scratch)
                measured_runs[broker.name] = compare(broker.name, jobs, args)
            finally:
                broker.stop()
    shutil.rmtree(scratch, ignore_errors=True)
    for name, actual in measured_runs.items():
        show(f"on {name}", actual)
    if args.save:
        parts: dict[str, list[results.Figure]] = {}
        for name, actual in measured_runs.items():
            for job, by_source in actual.items():
                parts.setdefault(job, []).extend(figures(name, {job: by_source}))
        print(f"written: {results.save('spark', parts, [('ottla', 'kafka'), ('offline', 'kafka')])}")
    return 0
