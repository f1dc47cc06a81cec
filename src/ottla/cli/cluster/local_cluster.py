"""A cluster on this machine: its files in a directory, and its processes.

cluster.json           addresses and process ids
lock                   held by a command that changes the cluster
server-N.properties    configs of broker N; changes take effect when the broker starts
broker-N.log           log output of broker N
data-N/                data of broker N
metadata/              the brokers' embedded metadata store, or
zookeeper/             ZooKeeper's files, log and data
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

from ottla.cli.cluster import daemon
from ottla.config import properties
from ottla.errors import ConfigurationError, StartupError
from ottla.net.ports import free_port
from ottla.storage.files import replace_file
from ottla.zookeeper_server import ZooKeeperServer

STATE: Final = "cluster.json"
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
READY: Final = b"is ready: "
"""A part of the line that `ottla broker` prints when it is ready."""
ENDING: Final = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
"""Signals after which `send` waits for the end of the process."""
MOST_REPLICAS: Final = 3
OWN: Final = frozenset(
    {"broker.id", "listeners", "zookeeper.connect", "ottla.metadata.dir", "log.dirs", "ottla.http.listener"}
)
"""Configs that the cluster sets for each broker, and that `add` rejects."""


@dataclass
class Broker:
    """A broker of the cluster. `pid` is the process id of its last start, 0 if it has never been started."""

    id: int
    port: int
    pid: int = 0
    http_port: int = 0
    """The port for metrics and health checks; 0 if the broker has none."""

    @property
    def address(self) -> str:
        """The host and port for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def http_address(self) -> str:
        """The host and port for metrics and health checks; empty if the broker has none."""
        return f"127.0.0.1:{self.http_port}" if self.http_port else ""


@dataclass
class LocalCluster:
    """A local cluster: the content of cluster.json, and the operations on its processes. `brokers` are in the order of
    their ids.
    """

    directory: Path
    zookeeper_port: int | None
    """The port of ZooKeeper; None if the brokers share an embedded metadata store."""
    base_port: int
    """The port of broker 0; the port of broker N is higher by N. 0: each broker has a port that was free when it was
    added.
    """
    zookeeper_pid: int = 0
    brokers: list[Broker] = field(default_factory=list)

    @classmethod
    def create(
        cls, directory: Path, brokers: int, base_port: int, zookeeper_port: int | None, overrides: Mapping[str, str]
    ) -> Self:
        """Create a cluster in a directory that exists and has none, without starting it. `overrides` are broker configs
        that are added to `defaults` or replace them.
        """
        cluster = cls(directory, free_port() if zookeeper_port == 0 else zookeeper_port, base_port)
        for _ in range(brokers):
            cluster.add({**defaults(brokers), **overrides})
        cluster.save()
        return cluster

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        """Return the cluster in a directory, or None if there is none. Raises ConfigurationError if cluster.json is
        damaged.
        """
        try:
            state = json.loads((directory / STATE).read_bytes())
            brokers = [Broker(**broker) for broker in state.pop("brokers")]
            return cls(directory, brokers=brokers, **state)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(f"{directory / STATE} is damaged: {error}") from None

    def save(self) -> None:
        """Write cluster.json."""
        state = asdict(self)
        del state["directory"]
        replace_file(self.directory / STATE, json.dumps(state, indent=1).encode())

    def broker(self, number: int) -> Broker:
        """Return the broker with this id. Raises ConfigurationError if there is none."""
        broker = next((broker for broker in self.brokers if broker.id == number), None)
        if broker is None:
            ids = ", ".join(str(broker.id) for broker in self.brokers)
            raise ConfigurationError(f"there is no broker {number}; brokers are {ids}")
        return broker

    def add(self, configs: Mapping[str, str]) -> Broker:
        """Write the properties file of a new broker with these configs, and add the broker to `brokers`, without
        starting it or saving the cluster. Raises ConfigurationError for configs in OWN.
        """
        fixed = sorted(OWN.intersection(configs))
        if fixed:
            raise ConfigurationError(f"{', '.join(fixed)}: each broker of the cluster has its own")
        number = max((broker.id for broker in self.brokers), default=-1) + 1
        broker = Broker(number, self.base_port + number if self.base_port else free_port(), http_port=free_port())
        zookeeper = self.zookeeper
        own = {
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://{broker.address}",
            **(
                {"ottla.metadata.dir": str(self.directory / "metadata")}
                if zookeeper is None
                else {"zookeeper.connect": zookeeper.connect}
            ),
            "log.dirs": str(self.directory / f"data-{number}"),
            "ottla.http.listener": broker.http_address,
        }
        text = "".join(f"{key}={value}\n" for key, value in {**own, **configs}.items())
        self.properties(broker).write_text(text)
        self.brokers.append(broker)
        return broker

    def common_configs(self) -> dict[str, str]:
        """Return the configs in the last broker's properties file, except those in OWN and broker.rack."""
        configs = properties.load(self.properties(self.brokers[-1]))
        return {name: value for name, value in configs.items() if name not in {*OWN, "broker.rack"}}

    @property
    def zookeeper(self) -> ZooKeeperServer | None:
        """The ZooKeeper server of the cluster; None if it has none."""
        port = self.zookeeper_port
        return None if port is None else ZooKeeperServer(self.directory / "zookeeper", port)

    @property
    def zookeeper_connect(self) -> str:
        """The host and port of the cluster's ZooKeeper server. Raises ConfigurationError if it has none."""
        return self.check_zookeeper().connect

    def check_zookeeper(self) -> ZooKeeperServer:
        """Return the cluster's ZooKeeper server. Raises ConfigurationError if it has none."""
        if self.zookeeper is None:
            raise ConfigurationError("the cluster has no ZooKeeper: its brokers share an embedded metadata store")
        return self.zookeeper

    @property
    def _zookeeper_word(self) -> str:
        """A part of the command line by which ZooKeeper's process is recognized."""
        return str(self.directory / "zookeeper")

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, separated by commas."""
        return ",".join(broker.address for broker in self.brokers)

    def properties(self, broker: Broker) -> Path:
        """Return the path of a broker's properties file. The broker's process is recognized by this path in its command
        line.
        """
        return self.directory / f"server-{broker.id}.properties"

    def log(self, broker: Broker) -> Path:
        """Return the path of a broker's log file."""
        return self.directory / f"broker-{broker.id}.log"

    def is_running(self, broker: Broker) -> bool:
        """Return whether the process of a broker exists."""
        return daemon.is_running(broker.pid, str(self.properties(broker)))

    def is_paused(self, broker: Broker) -> bool:
        """Return whether a broker is paused (SIGSTOP)."""
        return daemon.is_stopped(broker.pid, str(self.properties(broker)))

    def zookeeper_is_paused(self) -> bool:
        """Return whether ZooKeeper is paused (SIGSTOP)."""
        return daemon.is_stopped(self.zookeeper_pid, self._zookeeper_word)

    def zookeeper_is_running(self) -> bool:
        """Return whether the process of ZooKeeper exists."""
        return daemon.is_running(self.zookeeper_pid, self._zookeeper_word)

    def start_zookeeper(self) -> None:
        """Start ZooKeeper if the cluster has one and it is not running, and save the cluster. Raises StartupError if
        ZooKeeper is not installed, ends or does not respond in time, or if another ZooKeeper has its address, and
        ConfigurationError if there is no suitable Java.
        """
        server = self.zookeeper
        if server is None or self.zookeeper_is_running():
            return
        if server.responds():
            raise StartupError(f"another ZooKeeper, not that of this cluster, serves at {server.connect}")
        self.zookeeper_pid = daemon.start(server.prepare(), server.log)
        self.save()
        deadline = time.monotonic() + START_SECONDS
        while not server.responds():
            if not self.zookeeper_is_running() or time.monotonic() > deadline:
                raise StartupError(f"ZooKeeper did not start; see {server.log}")
            time.sleep(daemon.POLL_SECONDS)

    def start(self, *brokers: Broker) -> None:
        """Start those of the brokers that are not running, save the cluster, and wait until they are ready. Raises
        StartupError if one ends, or is not ready in time.
        """
        positions = {}
        for broker in brokers:
            if not self.is_running(broker):
                log = self.log(broker)
                positions[broker.id] = log.stat().st_size if log.exists() else 0
                command = [sys.executable, "-m", "ottla", "broker", str(self.properties(broker))]
                broker.pid = daemon.start(command, log)
        self.save()
        deadline = time.monotonic() + START_SECONDS
        for broker in brokers:
            if broker.id in positions:
                try:
                    self._wait_until_ready(broker, positions[broker.id], deadline)
                except StartupError as error:
                    raise StartupError(f"{error}{self._next_steps(broker, str(error))}") from None

    def _next_steps(self, broker: Broker, reason: str) -> str:
        """Return what to do after the reason for a failed start is removed, for the error of this broker. It names the
        other brokers that run, if there are any.
        """
        other_ports = " (for other ports: with --base-port PORT and another --dir)" if "cannot bind" in reason else ""
        steps = f"; then run `ottla cluster up` again{other_ports}"
        others = [other.id for other in self.brokers if other is not broker and self.is_running(other)]
        if not others:
            return steps
        running = f"broker {others[0]} runs" if len(others) == 1 else f"brokers {', '.join(map(str, others))} run"
        return f"{steps}; {running}: `ottla cluster down` stops all"

    def _wait_until_ready(self, broker: Broker, position: int, deadline: float) -> None:
        while True:
            runs = self.is_running(broker)
            output = self.log(broker).read_bytes()[position:]
            if READY in output:
                return
            if not runs or time.monotonic() > deadline:
                last = output.decode(errors="replace").strip().splitlines() or ["no output"]
                raise StartupError(f"broker {broker.id} did not start: {last[-1]} ({self.log(broker)})")
            time.sleep(daemon.POLL_SECONDS)

    def send(self, broker: Broker, number: signal.Signals) -> bool:
        """Send a signal to a broker. If it is one in ENDING, wait up to STOP_SECONDS for the end of the process. Return
        False if the process does not exist.
        """
        return _signal(broker.pid, str(self.properties(broker)), number)

    def send_zookeeper(self, number: signal.Signals) -> bool:
        """Send a signal to ZooKeeper. If it is one in ENDING, wait up to STOP_SECONDS for the end of the process.
        Return False if the process does not exist.
        """
        return _signal(self.zookeeper_pid, self._zookeeper_word, number)

    def stop(self, broker: Broker) -> bool:
        """Shut down a broker by a controlled shutdown. Return False if it had to be killed after STOP_SECONDS."""
        return daemon.stop(broker.pid, str(self.properties(broker)), STOP_SECONDS)

    def stop_zookeeper(self) -> bool:
        """Shut down ZooKeeper. Return False if it had to be killed after STOP_SECONDS."""
        return daemon.stop(self.zookeeper_pid, self._zookeeper_word, STOP_SECONDS)


def _signal(pid: int, word: str, number: signal.Signals) -> bool:
    is_sent = daemon.send(pid, word, number)
    if is_sent and number in ENDING:
        daemon.wait_for_end(pid, word, STOP_SECONDS)
    return is_sent


def defaults(brokers: int) -> dict[str, str]:
    """Return the configs of the brokers of a new cluster. With three brokers or more, no record that was acknowledged
    with acks=all is lost if one broker fails.
    """
    replicas = min(MOST_REPLICAS, brokers)
    in_sync = 2 if brokers >= MOST_REPLICAS else 1
    return {
        "zookeeper.session.timeout.ms": "6000",
        "broker.session.timeout.ms": "6000",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "remote.log.metadata.topic.replication.factor": str(replicas),
        "remote.log.metadata.topic.min.isr": str(in_sync),
    }


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Context manager: hold the lock of the directory, so that commands run one at a time. The directory is created if
    it does not exist. Raises ConfigurationError if another command holds the lock, or the directory cannot be used.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("w")
    except OSError as error:
        raise ConfigurationError(f"{directory} cannot be used: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(f"another command is running in {directory}; wait until it has ended") from None
        yield
