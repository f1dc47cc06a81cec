"""How a cluster scales with partitions and brokers, and how fast a new controller takes over.

    python -m benchmarks cluster [--partitions 30,300,1000] [--brokers 3] [--session-ms 3000] [--plot F] [--json F]

For each number of partitions per broker (replicas, spread over all brokers) it starts a cluster with its own ZooKeeper
on this machine, creates one topic with as many partitions and a replica on every broker, reads each idle broker's
memory and processor time, and kills the controller. It reports the seconds from the end of the dead broker's session
(when its znode disappears) until the next controller is elected, and until both other brokers report a live leader for
every partition.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Any, NamedTuple

from ottla.cli.cluster.local_cluster import LocalCluster

REST_SECONDS = 5.0
SECONDS = 300.0
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Row(NamedTuple):
    """The figures of one size."""

    brokers: int
    partitions: int
    create_seconds: float
    controller_mb: float
    other_mb: float
    rest_cores: float
    """Processor time of all brokers at rest, in cores."""
    elected_seconds: float
    led_seconds: float


@contextmanager
def cluster(brokers: int, session_ms: int) -> Iterator[LocalCluster]:
    """Run a cluster on free ports, and kill it at the end."""
    with tempfile.TemporaryDirectory(prefix="ottla-scale-") as directory:
        options = {"zookeeper.session.timeout.ms": str(session_ms), "auto.create.topics.enable": "false"}
        made = LocalCluster.create(Path(directory), brokers, 0, 0, options)
        made.start_zookeeper()
        try:
            made.start(*made.brokers)
            yield made
        finally:
            for broker in made.brokers:
                made.send(broker, SIGKILL)
            made.send_zookeeper(SIGKILL)


class Tree:
    """The znodes of brokers and of the controller."""

    def __init__(self, connect: str) -> None:
        from kazoo.client import KazooClient

        self._client = KazooClient(connect)
        self._client.start()

    def controller(self) -> int | None:
        from kazoo.exceptions import NoNodeError

        try:
            return int(json.loads(self._client.get("/controller")[0])["brokerid"])
        except NoNodeError:
            return None

    def stopped(self, path: str) -> threading.Event:
        """Set when the node is deleted."""
        event = threading.Event()
        if self._client.exists(path, watch=lambda _: event.set()) is None:
            event.set()
        return event

    def close(self) -> None:
        self._client.stop()
        self._client.close()


def measure(brokers: int, partitions: int, session_ms: int) -> Row:
    """Measure one size."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    with cluster(brokers, session_ms) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        began = time.monotonic()
        options = {"min.insync.replicas": "2"}
        created = admin.create_topics([NewTopic("scale", partitions, brokers, config=options)], operation_timeout=120)
        created["scale"].result(SECONDS)
        wait_for_leaders([b.address for b in running.brokers], partitions, range(brokers))
        create_seconds = time.monotonic() - began
        tree = Tree(running.zookeeper_connect)
        controller = next(b for b in running.brokers if b.id == tree.controller())
        others = [b for b in running.brokers if b is not controller]
        memory = {b.id: memory_mb(b.pid) for b in running.brokers}
        rest = cores([b.pid for b in running.brokers], REST_SECONDS)
        removed = tree.stopped(f"/brokers/ids/{controller.id}")
        running.send(controller, SIGKILL)
        assert removed.wait(SECONDS), "the session does not end"
        ended = time.monotonic()
        while tree.controller() in (None, controller.id):
            time.sleep(0.005)
        elected = time.monotonic() - ended
        wait_for_leaders([b.address for b in others], partitions, {b.id for b in others})
        led = time.monotonic() - ended
        tree.close()
        return Row(
            brokers,
            partitions,
            create_seconds,
            memory[controller.id],
            max(memory[b.id] for b in others),
            rest,
            elected,
            led,
        )


def wait_for_leaders(addresses: Sequence[str], partitions: int, alive: Any) -> None:
    """Wait until each of these brokers reports a live leader for every partition."""
    from confluent_kafka.admin import AdminClient

    for address in addresses:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            # a list of one topic is asked of the broker at this address, and of others once they are known
            topic = admin.list_topics("scale", timeout=30).topics.get("scale")
            led = [] if topic is None else list(topic.partitions.values())
            if len(led) == partitions and all(p.leader in alive for p in led):
                break
            time.sleep(0.01)
        else:
            raise TimeoutError(f"{address}: not every partition has a leader")


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cores(pids: Sequence[int], seconds: float) -> float:
    """Return the processor time of processes over some seconds, in cores."""
    before = sum(map(ticks, pids))
    time.sleep(seconds)
    return (sum(map(ticks, pids)) - before) / CLOCK_TICKS / seconds


def ticks(pid: int) -> int:
    """Return user and system time of a process in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def table(rows: Sequence[Row]) -> str:
    """Return the rows in Markdown."""
    lines = [
        "| brokers | partitions each | created, s | controller, MB | others, MB | at rest, cores | controller there, s "
        "| all led again, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.brokers} | {r.partitions} | {r.create_seconds:.2f} | {r.controller_mb:.0f} | {r.other_mb:.0f} "
        f"| {r.rest_cores:.2f} | {r.elected_seconds:.2f} | {r.led_seconds:.2f} |"
        for r in rows
    ]
    return "\n".join(lines)


def plot(rows: Sequence[Row], path: str) -> None:
    """Plot memory, processor time and failover by number of partitions."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    FigureCanvasAgg(figure)
    shown = (
        ("controller_mb", "memory of the controller, MB"),
        ("rest_cores", "at rest, cores"),
        ("led_seconds", "all led again, s"),
    )
    for axis, (name, title) in zip(figure.subplots(1, len(shown)), shown, strict=True):
        for brokers in sorted({row.brokers for row in rows}):
            of_size = [row for row in rows if row.brokers == brokers]
            values = [getattr(row, name) for row in of_size]
            axis.plot([row.partitions for row in of_size], values, "o-", label=f"{brokers} brokers")
        axis.set_title(title)
        axis.set_xlabel("partitions of each broker")
        axis.set_ylim(bottom=0)
        axis.legend()
    figure.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure each size and print the table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", default="30,300,1000", help="of each broker, with commas")
    parser.add_argument("--brokers", default="3", help="how many, with commas")
    parser.add_argument("--session-ms", type=int, default=3000, help="zookeeper.session.timeout.ms")
    parser.add_argument("--plot", help="a PNG of the figures")
    parser.add_argument("--json", help="where the figures go")
    args = parser.parse_args(argv)
    rows = []
    for brokers in map(int, args.brokers.split(",")):
        for partitions in map(int, args.partitions.split(",")):
            rows.append(measure(brokers, partitions, args.session_ms))
            print(rows[-1], file=sys.stderr, flush=True)
    print(table(rows))
    if args.plot:
        plot(rows, args.plot)
    if args.json:
        Path(args.json).write_text(json.dumps([row._asdict() for row in rows], indent=1))
    return 0
