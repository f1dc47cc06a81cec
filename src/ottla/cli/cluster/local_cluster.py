"""A cluster on this machine: its directory, with files, logs, data and the ids of its processes.

cluster.json            addresses and process ids, written by commands one at a time
server-N.properties     options of broker N: may be edited, and hold from its next start on
broker-N.log  data-N/   what broker N says, and its data
zookeeper/              ZooKeeper's files, log and data
"""

from __future__ import annotations

import fcntl
import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Self

from ottla.cli.framework import daemon
from ottla.config import properties
from ottla.errors import ConfigurationError, StartupError
from ottla.net.ports import free_port
from ottla.storage.files import replace_file
from ottla.zookeeper_server import ZooKeeperServer

STATE: Final = "cluster.json"
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
READY: Final = b"is ready: "
"""What `ottla broker` says when it serves."""
ENDING: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
"""Signals that end a process."""
MOST_REPLICAS: Final = 3
OWN: Final = frozenset({"broker.id", "listeners", "zookeeper.connect", "log.dirs"})
"""Options that differ from broker to broker, or belong to the cluster."""


@dataclass
class Broker:
    """One broker; pid 0 where it was not started."""

    id: int
    port: int
    pid: int = 0

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"127.0.0.1:{self.port}"


@dataclass
class LocalCluster:
    """What cluster.json says, and what can be done with it. Brokers stand in the order of their ids."""

    directory: Path
    zookeeper_port: int
    base_port: int
    """Broker N listens on this and N; 0: each on a port that was free."""
    zookeeper_pid: int = 0
    brokers: list[Broker] = field(default_factory=list)

    @classmethod
    def make(cls, directory: Path, brokers: int, base_port: int, zookeeper_port: int, given: Mapping[str, str]) -> Self:
        """A cluster in a new directory; nothing is started."""
        cluster = cls(directory, zookeeper_port or free_port(), base_port)
        for _ in range(brokers):
            cluster.add({**defaults(brokers), **given})
        cluster.save()
        return cluster

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        """The cluster in this directory; None for none."""
        try:
            told = json.loads((directory / STATE).read_bytes())
            brokers = [Broker(**broker) for broker in told.pop("brokers")]
            return cls(directory, brokers=brokers, **told)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(f"{directory / STATE} is damaged: {error}") from None

    def save(self) -> None:
        """Write cluster.json."""
        told = asdict(self)
        del told["directory"]
        replace_file(self.directory / STATE, json.dumps(told, indent=1).encode())

    def broker(self, number: int) -> Broker:
        """A broker by its id; ConfigurationError where there is none."""
        found = next((broker for broker in self.brokers if broker.id == number), None)
        if found is None:
            known = ", ".join(str(broker.id) for broker in self.brokers)
            raise ConfigurationError(f"there is no broker {number}; there are {known}")
        return found

    def add(self, options: Mapping[str, str]) -> Broker:
        """A further broker with these options, not started yet."""
        fixed = sorted(OWN.intersection(options))
        if fixed:
            raise ConfigurationError(f"{', '.join(fixed)}: each broker of the cluster has its own")
        number = max((broker.id for broker in self.brokers), default=-1) + 1
        broker = Broker(number, self.base_port + number if self.base_port else free_port())
        own = {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://{broker.address}",
            "zookeeper.connect": self.zookeeper.connect,
            "log.dirs": str(self.directory / f"data-{number}"),
        }
        text = "".join(f"{key}={value}\n" for key, value in {**own, **options}.items())
        self.properties(broker).write_text(text)
        self.brokers.append(broker)
        return broker

    def common_options(self) -> dict[str, str]:
        """What a further broker takes over from the last one."""
        options = properties.load(self.properties(self.brokers[-1]))
        return {name: value for name, value in options.items() if name not in {*OWN, "broker.rack"}}

    @property
    def zookeeper(self) -> ZooKeeperServer:
        """Its ZooKeeper, by address and directory."""
        return ZooKeeperServer(self.directory / "zookeeper", self.zookeeper_port)

    @property
    def bootstrap_servers(self) -> str:
        """All brokers, for clients."""
        return ",".join(broker.address for broker in self.brokers)

    def properties(self, broker: Broker) -> Path:
        """A broker's options; the path is also what its process is known by."""
        return self.directory / f"server-{broker.id}.properties"

    def log(self, broker: Broker) -> Path:
        """What a broker says."""
        return self.directory / f"broker-{broker.id}.log"

    def is_running(self, broker: Broker) -> bool:
        """Whether a broker's process is there."""
        return daemon.is_running(broker.pid, str(self.properties(broker)))

    def is_paused(self, broker: Broker) -> bool:
        """Whether a broker's process is there, but was stopped (SIGSTOP)."""
        return daemon.is_stopped(broker.pid, str(self.properties(broker)))

    def zookeeper_is_paused(self) -> bool:
        """Whether ZooKeeper's process is there, but was stopped (SIGSTOP)."""
        return daemon.is_stopped(self.zookeeper_pid, str(self.zookeeper.directory))

    def zookeeper_is_running(self) -> bool:
        """Whether ZooKeeper's process is there."""
        return daemon.is_running(self.zookeeper_pid, str(self.zookeeper.directory))

    def start_zookeeper(self) -> None:
        """Start ZooKeeper unless it runs; StartupError where it does not answer in time."""
        if self.zookeeper_is_running():
            return
        server = self.zookeeper
        if server.answers():
            raise StartupError(f"a ZooKeeper that is not this cluster's serves at {server.connect}")
        self.zookeeper_pid = daemon.start(server.prepare(), server.log)
        self.save()
        deadline = time.monotonic() + START_SECONDS
        while not server.answers():
            if not self.zookeeper_is_running() or time.monotonic() > deadline:
                raise StartupError(f"ZooKeeper did not start; {server.log} says why")
            time.sleep(daemon.LOOK_SECONDS)

    def start(self, *brokers: Broker) -> None:
        """Start these brokers, those that run excepted, and wait until they serve; StartupError where one does not."""
        began = {}
        for broker in brokers:
            if not self.is_running(broker):
                log = self.log(broker)
                began[broker.id] = log.stat().st_size if log.exists() else 0
                command = [sys.executable, "-m", "ottla", "broker", str(self.properties(broker))]
                broker.pid = daemon.start(command, log)
        self.save()
        deadline = time.monotonic() + START_SECONDS
        for broker in brokers:
            if broker.id in began:
                self._wait_until_ready(broker, began[broker.id], deadline)

    def _wait_until_ready(self, broker: Broker, position: int, deadline: float) -> None:
        while True:
            runs = self.is_running(broker)
            said = self.log(broker).read_bytes()[position:]
            if READY in said:
                return
            if not runs or time.monotonic() > deadline:
                last = said.decode(errors="replace").strip().splitlines() or ["it said nothing"]
                raise StartupError(f"broker {broker.id} did not start: {last[-1]} ({self.log(broker)})")
            time.sleep(daemon.LOOK_SECONDS)

    def send(self, broker: Broker, number: signal.Signals) -> bool:
        """Send a signal, and wait where it ends the process; False where it does not run."""
        return _signal(broker.pid, str(self.properties(broker)), number)

    def send_zookeeper(self, number: signal.Signals) -> bool:
        """The same for ZooKeeper."""
        return _signal(self.zookeeper_pid, str(self.zookeeper.directory), number)

    def stop(self, broker: Broker) -> bool:
        """Controlled shutdown; False where it had to be killed."""
        return daemon.end(broker.pid, str(self.properties(broker)), STOP_SECONDS)

    def stop_zookeeper(self) -> bool:
        """End ZooKeeper in order; False where it had to be killed."""
        return daemon.end(self.zookeeper_pid, str(self.zookeeper.directory), STOP_SECONDS)


def _signal(pid: int, word: str, number: signal.Signals) -> bool:
    sent = daemon.send(pid, word, number)
    if sent and number in ENDING:
        daemon.wait_for_end(pid, word, STOP_SECONDS)
    return sent


def defaults(brokers: int) -> dict[str, str]:
    """Options of every broker in a cluster of so many: nothing acknowledged is lost with one of them."""
    replicas = min(MOST_REPLICAS, brokers)
    in_sync = 2 if brokers >= MOST_REPLICAS else 1
    return {
        "zookeeper.session.timeout.ms": "6000",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """One command at a time works in the directory, which is made."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("w")
    except OSError as error:
        raise ConfigurationError(f"{directory} cannot be used: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(f"another command works in {directory}") from None
        yield
