"""Ratios of Ottla to Apache Kafka, both measured with the same lightweight client.

    make bench                                       every suite
    python -m benchmarks broker                      this suite: medians of three, the brokers in turns
    python -m benchmarks broker --quick              smaller loads, and fewer rows of the table
    python -m benchmarks broker --parts latency      one part
    python -m benchmarks broker --against DIR        another checkout of Ottla, with its .venv, instead of Apache Kafka

Parts:

    start        time to the first answer, memory and CPU at rest
    table        produce and consume: partitions x record size x acks x codec, as in the OpenMessaging Benchmark
    latency      single records of 100 B at a fixed rate, acks=all; measured from when a request was due, so that
                 a stall counts for all requests that it delayed (no coordinated omission)
    backlog      a consumer reads a backlog while a producer sends at a fixed rate
    connections  the fixed rate again, spread over 1,000 connections

Both brokers have their default configs and listen on loopback: no fsync per batch. A ratio is the median over the
repeats of Ottla's figure divided by the peer's of the same repeat, with minimum and maximum beside it. Rates vary on
machines with shared cores: trust the ratios and the CPU seconds more.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from scripts import apache_kafka

from benchmarks import results
from benchmarks.raw import Connection, Done, Raw, batch_of, fixed_rate, produce_at_fixed_rate
from benchmarks.results import Figure
from benchmarks.servers import IDLE_SECONDS, START_SECONDS, Broker, ottla_command
from ottla.records.compression import CODEC_IDS

BATCH_BYTES = 65_536
BATCHES_IN_A_REQUEST = 16
WARM_ROUNDS = 4
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}
CONNECTIONS = 1000
BACKLOG_BYTES_PER_SECOND = 20_000_000
ACKS = {"1": 1, "all": -1}
PARTS = ("start", "table", "latency", "backlog", "connections")


class Row(NamedTuple):
    """A row of the throughput table."""

    partitions: int
    record_bytes: int
    acks: str
    codec: str

    @property
    def label(self) -> str:
        """Return the row's name."""
        unit = f"{self.record_bytes} B" if self.record_bytes < 1024 else f"{self.record_bytes // 1024} KiB"
        plural = "s" if self.partitions > 1 else ""
        return f"{self.partitions} partition{plural}, {unit}, acks={self.acks}, {self.codec}"


ROWS = [Row(*cells) for cells in itertools.product((1, 16, 100), (100, 1024), ("1", "all"), ("none", "lz4", "zstd"))]
QUICK_ROWS = [Row(*cells, "all", "none") for cells in ((1, 100), (16, 100), (1, 1024))]


class Bench:
    """The two brokers and their figures."""

    def __init__(self, args: argparse.Namespace, peer: Broker, peer_name: str) -> None:
        self.args = args
        self.ottla = Broker("ottla", ottla_command)
        self.peer = peer
        self.peer_name = peer_name
        self.parts: dict[str, list[Figure]] = {}
        self._topics = itertools.count()

    def run(self, parts: Sequence[str]) -> None:
        """Measure some parts."""
        if "start" in parts:
            self._starts()
        loads = {
            "table": self._table,
            "latency": self._latency,
            "backlog": self._backlog,
            "connections": self._connections,
        }
        chosen = [name for name in loads if name in parts]
        if not chosen:
            return
        self.ottla.start()
        self.peer.start()
        try:
            self._warm()
            for name in chosen:
                loads[name]()
                self._add(name, "RSS after it", "MB", False, [self.ottla.rss_mb()], [self.peer.rss_mb()])
        finally:
            self.ottla.stop()
            self.peer.stop()

    def _in_turns(self, measure: Callable[[Broker], list[float]]) -> tuple[list[list[float]], list[list[float]]]:
        """Measure both brokers once per repeat, the first one changing."""
        figures: dict[str, list[list[float]]] = {self.ottla.name: [], self.peer.name: []}
        for repeat in range(self.args.repeats):
            pair = (self.ottla, self.peer) if repeat % 2 == 0 else (self.peer, self.ottla)
            for broker in pair:
                figures[broker.name].append(measure(broker))
        return figures[self.ottla.name], figures[self.peer.name]

    def _measure(
        self, part: str, figures: Sequence[tuple[str, str, bool]], once: Callable[[Broker], list[float]]
    ) -> None:
        """Add figures (name, unit, whether more is better). `once` returns a value of each."""
        ours, theirs = self._in_turns(once)
        for i, (name, unit, more_is_better) in enumerate(figures):
            self._add(part, name, unit, more_is_better, [f[i] for f in ours], [f[i] for f in theirs])

    def _add(
        self, part: str, name: str, unit: str, more_is_better: bool, ours: list[float], theirs: list[float]
    ) -> None:
        figure = Figure(name, unit, more_is_better, {"ottla": ours, self.peer_name: theirs})
        self.parts.setdefault(part, []).append(figure)
        results.print_pair(figure, "ottla", self.peer_name)

    def _client(self, broker: Broker, partitions: int) -> tuple[Raw, str]:
        client, topic = Raw(broker.port), f"t{next(self._topics)}"
        client.create(topic, partitions, {"file.delete.delay.ms": "1000"})
        return client, topic

    def _starts(self) -> None:
        def once(broker: Broker) -> list[float]:
            broker.start()
            figures = [broker.start_seconds, broker.idle_mb, broker.cpu_seconds()]
            broker.stop()
            return figures

        names = ("start to the first answer", "RSS idle", f"CPU of start and {IDLE_SECONDS} s idle")
        self._measure("start", [(n, u, False) for n, u in zip(names, ("s", "MB", "s"), strict=True)], once)

    def _warm(self) -> None:
        """Warm both brokers up, so that the JVM has compiled its hot code."""
        for broker in (self.ottla, self.peer):
            for codec, rounds in (("none", WARM_ROUNDS), ("lz4", 1), ("zstd", 1)):
                batch = batch_of(100, BATCH_BYTES, CODEC_IDS[codec])
                client, topic = self._client(broker, 1)
                for _ in range(rounds):
                    client.produce(topic, 1, batch, self._rounds(1))
                    client.consume(topic, 1, self.args.seconds / 2)
                client.delete(topic)
                client.close()

    def _rounds(self, partitions: int) -> int:
        return max(1, int(self.args.megabytes * 1e6 / (BATCH_BYTES * partitions)))

    def _table(self) -> None:
        for row in QUICK_ROWS if self.args.quick else ROWS:
            if self.args.only in row.label:
                self._throughput(row)

    def _throughput(self, row: Row) -> None:
        batch = batch_of(row.record_bytes, BATCH_BYTES, CODEC_IDS[row.codec])
        # what is read does not depend on the acknowledgement
        reads = row.acks == "all"

        def once(broker: Broker) -> list[float]:
            client, topic = self._client(broker, row.partitions)
            at_once = min(row.partitions, BATCHES_IN_A_REQUEST)
            client.produce(topic, row.partitions, batch, 1, at_once)  # makes the files of the first segments
            loads: list[Callable[[], Done]] = [
                lambda: client.produce(
                    topic, row.partitions, batch, self._rounds(row.partitions), at_once, ACKS[row.acks]
                )
            ]
            if reads:
                loads.append(lambda: client.consume(topic, row.partitions, self.args.seconds))
            figures: list[float] = []
            for load in loads:
                cpu = broker.cpu_seconds()
                done = load()
                figures += [done.bytes / done.seconds / 1e6, (broker.cpu_seconds() - cpu) / (done.bytes / 1e9)]
            client.delete(topic)
            client.close()
            return figures

        names = [(f"produce: {row.label}", "MB/s", True), (f"produce CPU: {row.label}", "s/GB", False)]
        if reads:
            names += [(f"consume: {row.label}", "MB/s", True), (f"consume CPU: {row.label}", "s/GB", False)]
        self._measure("table", names, once)

    def _latency(self) -> None:
        self._at_fixed_rate("latency", 1, self.args.seconds * 10)

    def _connections(self) -> None:
        self._at_fixed_rate("connections", CONNECTIONS, self.args.seconds * 5)

    def _at_fixed_rate(self, part: str, connections: int, seconds: float) -> None:
        batch = batch_of(100, 300)

        def once(broker: Broker) -> list[float]:
            client, topic = self._client(broker, 1)
            began = time.perf_counter()
            links = [Connection(broker.port) for _ in range(connections)]
            connected, cpu, began = time.perf_counter() - began, broker.cpu_seconds(), time.perf_counter()
            taken = fixed_rate(links, topic, batch, self.args.rate, seconds)
            cores = (broker.cpu_seconds() - cpu) / (time.perf_counter() - began)
            for link in links:
                link.sock.close()
            client.delete(topic)
            client.close()
            return [*percentiles(taken), cores, connected]

        where = f"{self.args.rate}/s" if connections == 1 else f"{self.args.rate}/s over {connections} connections"
        names = [(f"{name} at {where}", "ms", False) for name in PERCENTILES]
        names += [(f"CPU at {where}", "cores", False)]
        if connections > 1:
            names += [(f"{connections} connections opened", "s", False)]
        self._measure(part, names, once)

    def _backlog(self) -> None:
        """Read a backlog to its end while another process produces."""
        batch = batch_of(1024, BATCH_BYTES)
        per_second = max(1, BACKLOG_BYTES_PER_SECOND // len(batch.data))
        seconds = self.args.seconds * 3

        def once(broker: Broker) -> list[float]:
            client, topic = self._client(broker, 1)
            client.produce(topic, 1, batch, self._rounds(1) * 4)
            cpu = broker.cpu_seconds()
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                job = pool.apply_async(produce_at_fixed_rate, (broker.port, topic, batch, per_second, seconds))
                done = client.consume(topic, 1, seconds)
                taken = job.get(seconds + START_SECONDS)
            cpu = broker.cpu_seconds() - cpu
            client.delete(topic)
            client.close()
            p50, p99, *_ = percentiles(taken)
            return [done.bytes / done.seconds / 1e6, p50, p99, cpu / (done.bytes / 1e9)]

        while_reading = f"of producing {BACKLOG_BYTES_PER_SECOND // 1_000_000} MB/s meanwhile"
        names = [("read of the backlog", "MB/s", True), (f"p50 {while_reading}", "ms", False)]
        names += [(f"p99 {while_reading}", "ms", False), ("CPU of both", "s/GB", False)]
        self._measure("backlog", names, once)


def percentiles(milliseconds: list[float]) -> list[float]:
    """Return the values of PERCENTILES."""
    ordered = sorted(milliseconds)
    return [ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in PERCENTILES.values()]


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks broker", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--megabytes", type=float, default=200, help="produced in each cell, uncompressed")
    parser.add_argument("--seconds", type=float, default=1, help="of reading in each cell; other parts take multiples")
    parser.add_argument("--rate", type=int, default=2000, help="requests per second of latency and connections")
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts, separated by commas")
    parser.add_argument("--only", default="", help="rows of the table whose name contains this")
    parser.add_argument("--against", metavar="DIR", type=Path, help="a checkout of Ottla to compare with")
    parser.add_argument("--quick", action="store_true", help="50 MB, half a second, three rows")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results and a row of the history")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures there")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the requested parts, print and save them."""
    args = parser().parse_args(argv)
    if args.quick:
        args.megabytes, args.seconds = 50, 0.5
    command: Callable[[Path, int], list[str]] = apache_kafka.prepare_node
    peer, name = f"Apache Kafka {apache_kafka.VERSION}", "kafka"
    if args.against:
        command = partial(ottla_command, python=str(args.against / ".venv/bin/python"))
        peer = name = str(args.against)
    elif reason := apache_kafka.missing():
        print(f"The comparison with Apache Kafka is skipped: {reason}.")
        return 0
    print(f"Ottla and {peer}: medians of {args.repeats}, in turns")
    print("↑ more is better, ↓ less is better\n")
    print(f"{'':<58} {'Ottla':>10} {name[-10:]:>10} {'':<10} {'ratio':>7}   least … greatest")
    bench = Bench(args, Broker("peer", command), name)
    bench.run(args.parts.split(","))
    if args.json:
        figures = {part: [f._asdict() for f in listed] for part, listed in bench.parts.items()}
        args.json.write_text(json.dumps({"stamp": results.stamp(), "parts": figures}, indent=1))
    if args.save and not args.against:
        print(f"\nwritten: {results.save('broker', bench.parts, [('ottla', 'kafka')])}")
    return 0
