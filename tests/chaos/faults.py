"""The kinds of faults, a row per kind, and the sequence of faults of a seed. There is one fault at a time."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tests.chaos.cluster import BROKERS, Cluster

from ottla import KafkaAdminClient
from ottla.client.admin.topics.partitions import ElectionType
from ottla.errors import KafkaError
from ottla.simulation.history import ORDERED

IN_SYNC_SECONDS = 30.0
ELECTION_MS = 2_000


class Fault(NamedTuple):
    """A fault of a broker, and its duration."""

    kind: str
    broker: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind} of broker {self.broker} for {self.seconds:.1f} s"


class Kind(NamedTuple):
    """How to inject and repair a fault, and the shortest and longest time in between in seconds."""

    name: str
    inject: Callable[[Cluster, int], object]
    repair: Callable[[Cluster, int], object]
    min_seconds: float
    max_seconds: float


def _kill(cluster: Cluster, broker: int) -> None:
    cluster.brokers[broker].end(signal.SIGKILL)


def _start(cluster: Cluster, broker: int) -> None:
    cluster.brokers[broker].start()


def _heal(cluster: Cluster, broker: int) -> None:
    cluster.links.heal()


def _flap(cluster: Cluster, broker: int) -> None:
    """Elect a paused broker, which is notified of its leadership only when it resumes and its session has expired."""
    cluster.brokers[broker].end(signal.SIGTERM)
    cluster.brokers[broker].start()
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        _wait_in_sync(admin, broker)
        cluster.brokers[broker].signal(signal.SIGSTOP)
        try:
            admin.elect_leaders(ElectionType.PREFERRED, None, ELECTION_MS, raise_errors=False)
        except KafkaError:
            return  # the controller has elected the paused broker, even if it waits for it


def _wait_in_sync(admin: KafkaAdminClient, broker: int) -> None:
    deadline = time.monotonic() + IN_SYNC_SECONDS
    while time.monotonic() < deadline:
        try:
            partitions = admin.describe_topics([ORDERED])[ORDERED].partitions
        except KafkaError:
            continue
        if all(broker in p.isr for p in partitions):
            return
        time.sleep(0.05)
    raise AssertionError(f"broker {broker} is not in sync after its restart")


KINDS = (
    # longer than the session: failover happens by session expiry
    Kind("kill", _kill, _start, 7.0, 9.0),
    # the broker is back while its old znode still exists
    Kind("kill-quick", _kill, _start, 0.1, 1.0),
    Kind("restart", lambda c, b: c.brokers[b].end(signal.SIGTERM), _start, 0.5, 2.0),
    Kind(
        "pause-short",
        lambda c, b: c.brokers[b].signal(signal.SIGSTOP),
        lambda c, b: c.brokers[b].signal(signal.SIGCONT),
        1.0,
        3.0,
    ),
    Kind(
        "pause-long",
        lambda c, b: c.brokers[b].signal(signal.SIGSTOP),
        lambda c, b: c.brokers[b].signal(signal.SIGCONT),
        8.0,
        10.0,
    ),
    Kind("flap", _flap, lambda c, b: c.brokers[b].signal(signal.SIGCONT), 8.0, 10.0),
    Kind("zookeeper", lambda c, b: c.zookeeper.kill(), lambda c, b: c.zookeeper.start(), 0.5, 3.0),
    Kind("zookeeper-long", lambda c, b: c.zookeeper.kill(), lambda c, b: c.zookeeper.start(), 8.0, 10.0),
    Kind("cut-peers", lambda c, b: c.cut_peers(b), _heal, 6.0, 9.0),
    Kind("cut-zookeeper", lambda c, b: c.cut_zookeeper(b), _heal, 8.0, 10.0),
    Kind("isolate", lambda c, b: c.isolate(b), _heal, 8.0, 10.0),
    Kind("cut-clients", lambda c, b: c.cut_clients(b), _heal, 0.2, 2.0),
)
BY_NAME = {kind.name: kind for kind in KINDS}


def fault_sequence(seed: int, names: Sequence[str] = (), *, has_zookeeper: bool = True) -> Iterator[Fault]:
    """Yield faults endlessly: all kinds in a random order, then all again in another order."""
    chance = random.Random(seed)
    kinds = [BY_NAME[name] for name in names] or [k for k in KINDS if has_zookeeper or "zookeeper" not in k.name]
    while True:
        for kind in chance.sample(kinds, len(kinds)):
            yield Fault(kind.name, chance.choice(BROKERS), chance.uniform(kind.min_seconds, kind.max_seconds))


def run_fault(cluster: Cluster, fault: Fault) -> None:
    """Inject the fault, wait, repair it."""
    kind = BY_NAME[fault.kind]
    kind.inject(cluster, fault.broker)
    try:
        time.sleep(fault.seconds)
    finally:
        kind.repair(cluster, fault.broker)
