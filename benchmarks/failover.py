"""Time for which a partition cannot be written when its leader fails.

    python -m benchmarks failover [--rounds 5] [--session-ms 6000 | --embedded] [--json FILE]

Three brokers on this machine, with a ZooKeeper or their embedded metadata store, one topic with three replicas,
min.insync.replicas=2. A producer writes to one partition with acks=all, one record after the other. The result is the
longest time between two acknowledged records when the partition's leader is killed (SIGKILL; the session timeout of
ZooKeeper is subtracted), and when it shuts down (SIGTERM). The producer's errors, if any, are counted.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ottla import KafkaAdminClient, KafkaProducer, NewTopic
from ottla.cli.cluster.local_cluster import LocalCluster

TOPIC = "failover"
QUIET_SECONDS = 1.0
SECONDS = 60.0
QUICK = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 20}
"""How often the producer asks again: with the defaults up to a second would be its own."""


class Gap(NamedTuple):
    """The figures of one fault."""

    seconds: float
    errors: int


class Writer:
    """Writes one record after the other, and records when each was acknowledged."""

    def __init__(self, servers: str) -> None:
        self.times: list[float] = []
        self.errors = 0
        self._stop = threading.Event()
        self._producer = KafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=0, **QUICK)  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                self._producer.send(TOPIC, b"%d" % number, partition=0).get(SECONDS)
                self.times.append(time.monotonic())
            except Exception:
                # whatever it is: that an error came is the figure
                self.errors += 1
            number += 1

    def longest(self, since: float) -> float:
        """Return the longest time without an acknowledged record."""
        times = [since, *(t for t in self.times if t >= since)]
        return max(b - a for a, b in pairwise(times))

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.close()


def measure(cluster: LocalCluster, kill: bool) -> Gap:
    """Fail the leader of the partition, and wait until the cluster has recovered."""
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        leader = admin.describe_topics([TOPIC])[TOPIC].partitions[0].leader
        victim = cluster.broker(leader.id if hasattr(leader, "id") else int(leader))
        writer = Writer(cluster.bootstrap_servers)
        time.sleep(QUIET_SECONDS)
        began = time.monotonic()
        if kill:
            cluster.send(victim, signal.SIGKILL)
        else:
            cluster.stop(victim)
        count = len(writer.times)
        deadline = time.monotonic() + SECONDS
        while len(writer.times) < count + 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(QUIET_SECONDS)
        gap = Gap(writer.longest(began), writer.errors)
        writer.close()
        cluster.start(victim)
        while any(len(p.isr) < 3 for p in admin.describe_topics([TOPIC])[TOPIC].partitions):
            time.sleep(0.05)
    return gap


def main(argv: Sequence[str] | None = None) -> int:
    """Measure kills and shutdowns in turns."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks failover", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--session-ms", type=int, default=6000, help="zookeeper.session.timeout.ms")
    parser.add_argument("--embedded", action="store_true", help="no ZooKeeper: the embedded metadata store")
    parser.add_argument("--json", help="where the figures go")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="ottla-failover-") as directory:
        options = {"zookeeper.session.timeout.ms": str(args.session_ms)}
        cluster = LocalCluster.create(Path(directory), 3, 0, None if args.embedded else 0, options)
        cluster.start_zookeeper()
        try:
            cluster.start(*cluster.brokers)
            with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
                admin.create_topics([NewTopic(TOPIC, 3, 3, topic_configs={"min.insync.replicas": "2"})])
            rounds = [(measure(cluster, True), measure(cluster, False)) for _ in range(args.rounds)]
        finally:
            for broker in cluster.brokers:
                cluster.send(broker, signal.SIGKILL)
            cluster.send_zookeeper(signal.SIGKILL)
    session = 0.0 if args.embedded else args.session_ms / 1000
    beyond = [1000 * (killed.seconds - session) for killed, _ in rounds]
    stopped = [1000 * gap.seconds for _, gap in rounds]
    errors = sum(gap.errors for pair in rounds for gap in pair)
    print(f"killed: {_spread(beyond)} ms beyond the session's {session:g} s")
    print(f"stopped in order: {_spread(stopped)} ms")
    print(f"errors at the producer: {errors}")
    if args.json:
        Path(args.json).write_text(json.dumps({"killed_beyond_ms": beyond, "stopped_ms": stopped, "errors": errors}))
    return 0


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"
