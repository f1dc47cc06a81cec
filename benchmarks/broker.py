"""Ottla and Apache Kafka side by side: start-up, memory, produce, consume, latency, as ratios.

    make bench                       all of it, medians of three, the two in turns
    make bench ARGS="--quick"        smaller loads
    make bench ARGS="--against DIR"  another checkout of Ottla, with its .venv, instead of Apache Kafka

Both serve the same client on loopback with their defaults: acks=all, no fsync per batch. A ratio is the median over
the repeats of Ottla's figure by Kafka's of the same repeat; its least and greatest value stand beside it. Machines
with shared cores scatter: trust the ratios and the CPU seconds more than the rates.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from scripts import apache_kafka

from benchmarks.raw import Done, Raw, batch_of
from ottla.net.ports import free_port

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
START_SECONDS = 60
IDLE_SECONDS = 3
BATCH_BYTES = 65_536
WARM_ROUNDS = 4
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Of the brokers: they load compiled modules, as an installed Ottla does; compiling takes longer than a start."""


class Metric(NamedTuple):
    """One line of the table: whether more or less is better, and the figures of each repeat."""

    name: str
    unit: str
    more_is_better: bool
    ours: list[float]
    theirs: list[float]

    @property
    def ratios(self) -> list[float]:
        return sorted(a / b for a, b in zip(self.ours, self.theirs, strict=True) if b)


class Broker:
    """A broker under test."""

    def __init__(self, name: str, command: Callable[[Path, int], list[str]]) -> None:
        self.name = name
        self._command = command
        self.start_seconds = self.idle_mb = 0.0

    def start(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-"))
        self.port = free_port(in_a_row=2)
        command = self._command(self.directory, self.port)
        began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=ENVIRONMENT
        )
        wait_for_answer(self.port)
        self.start_seconds = time.perf_counter() - began
        time.sleep(IDLE_SECONDS)
        self.idle_mb = self.rss_mb()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_mb(self) -> float:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE / 1e6


def wait_for_answer(port: int) -> None:
    """Until ApiVersions is answered."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as sock:
                sock.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
                if sock.recv(4):
                    return
        except OSError:
            time.sleep(0.005)
    raise SystemExit(f"the broker on port {port} did not start")


def ottla_command(directory: Path, port: int, python: str = sys.executable) -> list[str]:
    options = (f"--override=listeners=PLAINTEXT://127.0.0.1:{port}", f"--override=log.dirs={directory}")
    return [python, "-m", "ottla", "broker", *options]


class Bench:
    """The whole comparison."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.ottla = Broker("ottla", ottla_command)
        self.peer = Broker("peer", args.peer_command)
        self.metrics: list[Metric] = []

    def run(self) -> None:
        self._starts()
        self.ottla.start()
        self.peer.start()
        try:
            self._warm()
            for size, partitions in ((100, 1), (100, 6), (1024, 1)):
                self._throughput(size, partitions)
            self._latency()
            self._add("RSS after the load", "MB", False, [self.ottla.rss_mb()], [self.peer.rss_mb()])
        finally:
            self.ottla.stop()
            self.peer.stop()

    def _in_turns(self, measure: Callable[[Broker], list[float]]) -> tuple[list[list[float]], list[list[float]]]:
        """Both brokers, once each per repeat, the first one changing."""
        figures: dict[str, list[list[float]]] = {"ottla": [], "peer": []}
        for repeat in range(self.args.repeats):
            pair = (self.ottla, self.peer) if repeat % 2 == 0 else (self.peer, self.ottla)
            for broker in pair:
                figures[broker.name].append(measure(broker))
        return figures["ottla"], figures["peer"]

    def _add(self, name: str, unit: str, more_is_better: bool, ours: list[float], theirs: list[float]) -> None:
        metric = Metric(name, unit, more_is_better, ours, theirs)
        self.metrics.append(metric)
        ratios = metric.ratios
        spread = f"[{ratios[0]:.3f} … {ratios[-1]:.3f}]" if len(ratios) > 1 else ""
        better = "↑" if more_is_better else "↓"
        print(
            f"{name:<52} {statistics.median(ours):>10.2f} {statistics.median(theirs):>10.2f} {unit:<10}"
            f" {statistics.median(ratios):>7.3f} {better} {spread}",
            flush=True,
        )

    def _starts(self) -> None:
        def once(broker: Broker) -> list[float]:
            broker.start()
            figures = [broker.start_seconds, broker.idle_mb, broker.cpu_seconds()]
            broker.stop()
            return figures

        ours, theirs = self._in_turns(once)
        for i, (name, unit) in enumerate(
            (("start to the first answer", "s"), ("RSS idle", "MB"), (f"CPU of start and {IDLE_SECONDS} s idle", "s"))
        ):
            self._add(name, unit, False, [f[i] for f in ours], [f[i] for f in theirs])

    def _warm(self) -> None:
        """A JVM needs some load before it is at its best."""
        batch, per_batch = batch_of(100, BATCH_BYTES)
        rounds = max(1, int(self.args.megabytes * 1e6 / len(batch)))
        for broker in (self.ottla, self.peer):
            client = Raw(broker.port)
            client.create("warm", 1)
            for _ in range(WARM_ROUNDS):
                client.produce("warm", 1, batch, per_batch, rounds)
                client.consume("warm", 1, 1)
            client.close()

    def _throughput(self, size: int, partitions: int) -> None:
        batch, per_batch = batch_of(size, BATCH_BYTES)
        rounds = max(1, int(self.args.megabytes * 1e6 / (len(batch) * partitions)))
        numbers = iter(range(10_000))

        def once(broker: Broker) -> list[float]:
            topic = f"t{size}-{partitions}-{next(numbers)}"
            client = Raw(broker.port)
            client.create(topic, partitions)
            figures: list[float] = []
            loads: tuple[Callable[[], Done], ...] = (
                lambda: client.produce(topic, partitions, batch, per_batch, rounds),
                lambda: client.consume(topic, partitions, self.args.seconds),
            )
            for load in loads:
                cpu = broker.cpu_seconds()
                done = load()
                figures += [done.bytes / done.seconds / 1e6, (broker.cpu_seconds() - cpu) / (done.bytes / 1e9)]
            client.close()
            return figures

        ours, theirs = self._in_turns(once)
        for i, (what, unit, more) in enumerate(
            (
                ("produce", "MB/s", True),
                ("produce, broker CPU", "s/GB", False),
                ("consume", "MB/s", True),
                ("consume, broker CPU", "s/GB", False),
            )
        ):
            name = f"{what} ({size} B, {partitions} partition{'s' if partitions > 1 else ''})"
            self._add(name, unit, more, [f[i] for f in ours], [f[i] for f in theirs])

    def _latency(self) -> None:
        batch, _ = batch_of(100, 300)

        def once(broker: Broker) -> list[float]:
            client = Raw(broker.port)
            topic = f"latency-{time.monotonic_ns()}"
            client.create(topic, 1)
            taken = sorted(client.latencies(topic, batch, self.args.rate, self.args.seconds * 2))
            client.close()
            return [taken[len(taken) // 2], taken[int(len(taken) * 0.99)]]

        ours, theirs = self._in_turns(once)
        for i, name in enumerate(("p50", "p99")):
            label = f"latency of acks=all at {self.args.rate}/s, {name}"
            self._add(label, "ms", False, [f[i] for f in ours], [f[i] for f in theirs])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--megabytes", type=float, default=300, help="produced in each cell")
    parser.add_argument("--seconds", type=float, default=2, help="of reading in each cell")
    parser.add_argument("--rate", type=int, default=1000, help="requests per second of the latency part")
    parser.add_argument("--against", metavar="DIR", type=Path, help="a checkout of Ottla to compare with")
    parser.add_argument("--quick", action="store_true", help="50 MB and one second")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    args = parser.parse_args()
    if args.quick:
        args.megabytes, args.seconds = 50, 1
    args.peer_command = apache_kafka.prepare_node
    peer, name = f"Apache Kafka {apache_kafka.VERSION}", "Kafka"
    if args.against:
        args.peer_command = partial(ottla_command, python=str(args.against / ".venv/bin/python"))
        peer = name = args.against.name
    elif reason := apache_kafka.missing():
        print(f"The comparison with Apache Kafka is skipped: {reason}.")
        return 0
    print(f"Ottla and {peer}: medians of {args.repeats}, in turns")
    print("↑ more is better, ↓ less is better\n")
    print(f"{'':<52} {'Ottla':>10} {name:>10} {'':<10} {'ratio':>7}   least … greatest")
    bench = Bench(args)
    bench.run()
    if args.json:
        Path(args.json).write_text(json.dumps([m._asdict() for m in bench.metrics], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
