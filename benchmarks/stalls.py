"""The latency of one client while others keep the broker's disk or CPU busy.

    python -m benchmarks stalls [--quick] [--save]

A producer in its own process sends single records at a fixed rate with acks=all. A latency is measured from the time at
which the record was due, so that a stall counts for all records that it delays. Each row is a disturbance by
other clients. The broker has two log directories; a preloaded library slows the disk of the second one down. The
brokers take turns. Last, a producer sends as fast as it can, alone and while another topic is compacted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from scripts import apache_kafka

from benchmarks import results
from benchmarks.raw import Batch, Raw, batch_of, produce_at_fixed_rate
from benchmarks.results import Figure
from benchmarks.servers import Broker, ottla_command
from ottla.records.builder import BatchBuilder

PERCENTILES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
SMALL_BATCH = 300
LARGE_BATCH = 1_000_000
SEGMENT_BYTES = 64 << 20
THROUGHPUT_BATCH = 65_536
THROUGHPUT_ROUNDS = 1500
"""Batches after which the producer's rate is computed."""
THROUGHPUT = ("produce alone", "produce beside a compaction")
COMPACTION_SECONDS = 60


class Load(NamedTuple):
    """The sizes of the disturbances."""

    seconds: float
    rate: int
    cold_bytes: int
    deleted_bytes: int
    dirty_bytes: int
    compacted_bytes: int
    """Size of the topic whose compaction a producer is measured beside."""


FULL = Load(8, 500, 4 << 30, 1 << 30, 256 << 20, 4 << 30)
QUICK = Load(4, 500, 512 << 20, 256 << 20, 64 << 20, 1200 << 20)


class SlowDisk:
    """The library that slows down one directory of a broker."""

    def __init__(self, folder: Path) -> None:
        self._control = folder / "control"
        self._library = folder / "slow_disk.so"
        self.set()
        source = Path(__file__).with_name("slow_disk.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", self._library, source, "-ldl"], check=True)

    def environment(self, directory: Path) -> dict[str, str]:
        """Return the environment variables that slow a broker down in `directory`."""
        return {
            "LD_PRELOAD": str(self._library),
            "SLOW_DISK_CONTROL": str(self._control),
            "SLOW_DISK_PATH": str(directory),
        }

    def set(self, write_ms: int = 0, fsync_ms: int = 0) -> None:
        """Set the delays of writes and fsyncs."""
        with self._control.open("r+b" if self._control.exists() else "wb") as control:
            control.write(struct.pack("=ii", write_ms, fsync_ms))

    @contextmanager
    def slow(self, write_ms: int = 0, fsync_ms: int = 0) -> Iterator[None]:
        self.set(write_ms, fsync_ms)
        try:
            yield
        finally:
            self.set()


def latencies(port: int, topic: str, batch: Batch, rate: int, seconds: float) -> list[float]:
    """Send a batch at a fixed rate from another process, and return the percentiles of its latency in milliseconds."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        taken = sorted(process.submit(produce_at_fixed_rate, port, topic, batch, rate, seconds).result())
    return [taken[min(len(taken) - 1, int(len(taken) * share))] for _, share in PERCENTILES]


@contextmanager
def beside(port: int, load: Callable[[Raw], object]) -> Iterator[None]:
    """Run a load of another client repeatedly in the background."""
    stopped = threading.Event()

    def run() -> None:
        client = Raw(port)
        while not stopped.is_set():
            load(client)
        client.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(60)


class Disturbed:
    """A broker with two log directories, and the clients that disturb it."""

    def __init__(self, broker: Broker, load: Load, disk: SlowDisk) -> None:
        self.broker = broker
        self.load = load
        self.disk = disk
        self.client = Raw(broker.port)
        self._number = 0
        self.small = batch_of(100, SMALL_BATCH)
        self.large = batch_of(1024, LARGE_BATCH)
        self.topic = self.create("fast")
        self.slow_topic = self.create("slow", **{"flush.messages": "1"})
        self.cold_topic = self.create("fast", **{"segment.bytes": str(SEGMENT_BYTES)})
        self.fill(self.cold_topic, load.cold_bytes)

    def create(self, directory: str, **configs: str) -> str:
        """Create a topic of one partition whose log is in this directory, and return its name."""
        while True:
            self._number += 1
            topic = f"t{self._number}"
            self.client.create(topic, 1, configs)
            if (self.broker.directory / directory / f"{topic}-0").exists():
                return topic

    def fill(self, topic: str, nbytes: int) -> None:
        self.client.produce(topic, 1, self.large, max(1, nbytes // len(self.large.data)))

    def latencies(self) -> list[float]:
        """Return the percentiles of the producer, in milliseconds."""
        return latencies(self.broker.port, self.topic, self.small, self.load.rate, self.load.seconds)

    def evict(self, topic: str) -> None:
        """Write a topic's segments to the disk and remove them from the page cache."""
        for path in self.broker.directory.rglob(f"{topic}-0/*.log"):
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
                if sys.platform == "linux":
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)

    @contextmanager
    def beside(self, load: Callable[[Raw], object]) -> Iterator[None]:
        """Run a load of another client repeatedly in the background."""
        with beside(self.broker.port, load):
            try:
                yield
            finally:
                self.disk.set()  # the load ends sooner

    # Disturbances

    def cold_reads(self) -> list[float]:
        self.evict(self.cold_topic)
        with self.beside(lambda client: self._read_cold(client)):
            return self.latencies()

    def _read_cold(self, client: Raw) -> None:
        client.consume(self.cold_topic, 1, 0.001)
        self.evict(self.cold_topic)

    def compaction(self) -> list[float]:
        topic = self.create(
            "fast",
            **{
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0.01",
                "segment.bytes": str(8 << 20),
                "segment.ms": "1000",
            },
        )
        keyed = keyed_batch(LARGE_BATCH, 1000, 1000)
        self.client.produce(topic, 1, keyed, max(1, self.load.dirty_bytes // len(keyed.data)))
        with self.beside(lambda client: _append(client, topic, keyed)):
            return self.latencies()

    def throughput(self) -> list[float]:
        """Return the MB/s of a producer alone, and while another topic is compacted."""
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.9", "segment.bytes": str(SEGMENT_BYTES)}
        topic, other = self.create("fast", **configs), self.create("fast")
        batch = batch_of(100, THROUGHPUT_BATCH)

        def rate() -> float:
            done = self.client.produce(other, 1, batch, THROUGHPUT_ROUNDS)
            return done.bytes / done.seconds / 1e6

        alone = [rate() for _ in range(10)]
        keyed = keyed_batch(THROUGHPUT_BATCH, 90, 100_000)
        self.client.produce(topic, 1, keyed, self.load.compacted_bytes // len(keyed.data))
        beside = []
        deadline = time.monotonic() + COMPACTION_SECONDS
        while self._size(topic) > self.load.compacted_bytes / 8 and time.monotonic() < deadline:
            beside.append(rate())
        return [statistics.median(alone), statistics.median(beside)]

    def _size(self, topic: str) -> int:
        return sum(path.stat().st_size for path in self.broker.directory.glob(f"fast/{topic}-0/*.log"))

    def deletion(self) -> list[float]:
        topic = self.create("fast", **{"file.delete.delay.ms": "0"})
        self.fill(topic, self.load.deleted_bytes)
        timer = threading.Timer(self.load.seconds / 4, lambda: _delete(self.broker.port, topic))
        timer.start()
        try:
            return self.latencies()
        finally:
            timer.join()

    def slow_fsync(self) -> list[float]:
        return self._slow(fsync_ms=300)

    def slow_writes(self) -> list[float]:
        return self._slow(write_ms=50)

    def hung_disk(self) -> list[float]:
        return self._slow(write_ms=1500)

    def _slow(self, write_ms: int = 0, fsync_ms: int = 0) -> list[float]:
        with self.beside(lambda client: self._write(client)), self.disk.slow(write_ms, fsync_ms):
            return self.latencies()

    def _write(self, client: Raw) -> None:
        client.produce(self.slow_topic, 1, self.small, 5)


def keyed_batch(batch_bytes: int, value_bytes: int, keys: int) -> Batch:
    """Return a batch of records with so many different keys."""
    builder = BatchBuilder(bytearray(batch_bytes))
    now = time.time_ns() // 1_000_000
    while builder.append(now, b"%d" % (builder.record_count % keys), bytes(value_bytes)):
        pass
    data = bytes(builder.close())
    return Batch(data, builder.record_count, len(data))


def _append(client: Raw, topic: str, batch: Batch) -> None:
    client.produce(topic, 1, batch, 1)
    time.sleep(0.1)


def _delete(port: int, topic: str) -> None:
    client = Raw(port)
    client.delete(topic)
    client.close()


ROWS: tuple[tuple[str, Callable[[Disturbed], list[float]]], ...] = (
    ("at rest", Disturbed.latencies),
    ("a consumer of cold records", Disturbed.cold_reads),
    ("a compaction", Disturbed.compaction),
    ("the deletion of a large topic", Disturbed.deletion),
    ("an fsync of 300 ms on the other disk", Disturbed.slow_fsync),
    ("writes of 50 ms on the other disk", Disturbed.slow_writes),
    ("writes of 1.5 s on the other disk", Disturbed.hung_disk),
)


def measure(command: Callable[[Path, int], list[str]], name: str, load: Load) -> dict[str, list[float]]:
    """Start a broker, and return the percentiles of each row."""
    with tempfile.TemporaryDirectory(prefix="bench-disk-") as folder:
        disk = SlowDisk(Path(folder))
        broker = Broker(name, command)
        broker.start(lambda directory: disk.environment(directory / "slow"))
        try:
            disturbed = Disturbed(broker, load, disk)
            disturbed.latencies()  # a JVM needs some load before it is at its best
            return {row: run(disturbed) for row, run in ROWS} | {"throughput": disturbed.throughput()}
        finally:
            disk.set()
            broker.stop()


def _ottla(directory: Path, port: int) -> list[str]:
    options = (
        f"--override=log.dirs={directory / 'fast'},{directory / 'slow'}",
        "--override=log.cleaner.backoff.ms=500",
        "--override=file.delete.delay.ms=0",
    )
    return [*ottla_command(directory, port), *options]


def _kafka(directory: Path, port: int) -> list[str]:
    return apache_kafka.prepare_node(
        directory,
        port,
        configs={
            "log.dirs": f"{directory / 'fast'},{directory / 'slow'}",
            "metadata.log.dir": directory / "metadata",
            "log.cleaner.backoff.ms": 500,
        },
    )


def main(argv: Sequence[str]) -> int:
    """Measure both brokers in turns, print a table, and save the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="smaller loads")
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/stalls.json")
    args = parser.parse_args(argv)
    if shutil.which("cc") is None:
        print("The benchmark of stalls is skipped: it needs a C compiler.")
        return 0
    load = QUICK if args.quick else FULL
    contestants = {"ottla": _ottla}
    reason = "--alone" if args.alone else apache_kafka.missing()
    if reason is None:
        contestants["kafka"] = _kafka
    else:
        print(f"Without Apache Kafka: {reason}.")
    measured: dict[str, list[dict[str, list[float]]]] = {name: [] for name in contestants}
    for _ in range(args.repeats):
        for name, command in contestants.items():
            measured[name].append(measure(command, name, load))
    figures = [
        Figure(
            f"{row}, {percentile}", "ms", False, {name: [m[row][i] for m in runs] for name, runs in measured.items()}
        )
        for row, _ in ROWS
        for i, (percentile, _) in enumerate(PERCENTILES)
    ]
    throughput = [
        Figure(name, "MB/s", True, {who: [m["throughput"][i] for m in runs] for who, runs in measured.items()})
        for i, name in enumerate(THROUGHPUT)
    ]
    for figure in figures + throughput:
        medians = "  ".join(f"{name} {figure.median(name):>9.2f}" for name in measured)
        print(f"{figure.name:<52} {medians} {figure.unit}", flush=True)
    if args.save:
        results.save("stalls", {"stalls": figures, "compaction": throughput}, [("ottla", "kafka")])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
