"""Three brokers, ZooKeeper if the peer has it, and the links between them: started, broken and repaired by faults."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.chaos.links import Link, Links
from tests.chaos.peers import OPTIONS, Peer, write_properties

from ottla.net.ports import free_port
from ottla.zookeeper_server import ZooKeeperServer

BROKERS = (1, 2, 3)
ZOOKEEPER = "zookeeper"
CHROOT = "/chaos"
STOP_SECONDS = 30.0
AGAIN_SECONDS = 0.5
"""Delay before a broker that exited is started again: its old znode may still exist."""


def link_name(broker: int) -> str:
    """Return the name of a broker in links."""
    return f"broker {broker}"


class BrokerProcess:
    """One broker: its files and its process. If it exits unexpectedly, it is restarted, as by a supervisor."""

    def __init__(self, broker: int, directory: Path, peer: Peer) -> None:
        self.id = broker
        self.data = directory / f"data-{broker}"
        self.properties = directory / f"server-{broker}.properties"
        self.log = directory / f"broker-{broker}.log"
        self.peer = peer
        self._process: subprocess.Popen[bytes] | None = None
        self._should_run = False
        self._lock = threading.Lock()
        self.restarts = 0
        """How often the broker exited unexpectedly."""

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    def start(self) -> None:
        with self._lock:
            self._should_run = True
            self._launch()

    def restart_if_exited(self) -> None:
        """Start the broker again if it has exited unexpectedly."""
        with self._lock:
            if self._should_run and self._process is not None and self._process.poll() is not None:
                self.restarts += 1
                self._launch()

    def _launch(self) -> None:
        with self.log.open("ab") as out:
            out.write(b"---- start at %.3f\n" % time.time())
            out.flush()
            self._process = subprocess.Popen(
                self.peer.command(self.properties), stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )

    def signal(self, number: int) -> None:
        """Send a signal to the process, if there is one."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def end(self, number: int) -> int | None:
        """Send a signal, wait, and return the exit code. If it does not end in time, kill it and return None."""
        with self._lock:
            self._should_run = False
            process = self._process
        if process is None:
            return None
        self.signal(signal.SIGCONT)
        self.signal(number)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None


class Cluster:
    """The whole cluster: a context manager that starts it, and kills it at the end."""

    def __init__(self, directory: Path, peer: Peer, options: Mapping[str, object] = OPTIONS) -> None:
        self.directory = directory
        self.peer = peer
        self._options = options
        self.zookeeper = ZooKeeperServer(directory / "zookeeper", free_port())
        self.brokers = {broker: BrokerProcess(broker, directory, peer) for broker in BROKERS}
        self.links = Links(self._pids)
        self.bootstrap = ""
        self.ports: dict[int, int] = {}
        """The port on which each broker accepts clients directly, without a link."""
        self.tree: str | Path = directory / "metadata" if peer.embedded else f"{self.zookeeper.connect}{CHROOT}"
        """The znodes: ZooKeeper's address, without a link, or the directory of the embedded metadata store."""
        self._ending = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def _pids(self) -> dict[int, str]:
        return {pid: link_name(broker.id) for broker in self.brokers.values() if (pid := broker.pid) is not None}

    def __enter__(self) -> Self:
        return self._enter(lambda broker: None)

    @contextmanager
    def started_in_turn(self) -> Iterator[Self]:
        """Start the first broker before the others, so that it is the controller."""
        with ExitStack() as stack:
            stack.push(self)
            yield self._enter(self._wait_for_controller)

    def _wait_for_controller(self, _: BrokerProcess) -> None:
        from kazoo.client import KazooClient

        deadline = time.monotonic() + STOP_SECONDS
        client = KazooClient(self.zookeeper.connect)
        client.start()
        while client.exists(f"{CHROOT}/controller") is None:
            assert time.monotonic() < deadline, "there is no controller"
            time.sleep(0.1)
        client.stop()
        client.close()

    def _enter(self, started: Callable[[BrokerProcess], None]) -> Self:
        self.links.__enter__()
        if not self.peer.embedded:
            self.zookeeper.start()
        addresses = []
        for broker in self.brokers.values():
            addresses.append(self._configure(broker))
            broker.start()
            started(broker)
        self.bootstrap = ",".join(addresses)
        self._supervisor.start()
        return self

    def _configure(self, broker: BrokerProcess) -> str:
        """Write the properties of a broker, and return its address for clients."""
        client, peer, name = free_port(), free_port(), link_name(broker.id)
        advertised = f"127.0.0.1:{self.links.listen(name, client, source='client')}"
        advertised_to_peers = f"127.0.0.1:{self.links.listen(name, peer)}"
        self.ports[broker.id] = client
        own = {
            "broker.id": broker.id,
            **self._metadata_store(name),
            "log.dirs": broker.data,
            "listeners": f"CLIENT://127.0.0.1:{client},PEER://127.0.0.1:{peer}",
            "advertised.listeners": f"CLIENT://{advertised},PEER://{advertised_to_peers}",
        }
        write_properties(broker.properties, own | dict(self._options))
        return advertised

    def _metadata_store(self, source: str) -> dict[str, object]:
        if self.peer.embedded:
            return {"ottla.metadata.dir": self.tree}
        port = self.links.listen(ZOOKEEPER, self.zookeeper.port, source=source)
        return {"zookeeper.connect": f"127.0.0.1:{port}{CHROOT}"}

    def _supervise(self) -> None:
        while not self._ending.wait(AGAIN_SECONDS):
            for broker in self.brokers.values():
                broker.restart_if_exited()

    def cut_peers(self, broker: int) -> None:
        """Cut one broker off from the other brokers."""
        self.links.cut(lambda link: self._to_peers(link, broker))

    def cut_zookeeper(self, broker: int) -> None:
        """Cut one broker off from ZooKeeper."""
        self.links.cut(lambda link: link.between(link_name(broker), ZOOKEEPER))

    def isolate(self, broker: int) -> None:
        """Cut one broker off from the others and from ZooKeeper; clients still reach it."""
        self.links.cut(lambda link: self._to_peers(link, broker) or link.between(link_name(broker), ZOOKEEPER))

    def cut_clients(self, broker: int) -> None:
        """Break the connections of clients to one broker, and let no new ones through."""
        self.links.cut(lambda link: link.between(link_name(broker), "client"))
        self.links.reset(lambda link: link.between(link_name(broker), "client"))

    def _to_peers(self, link: Link, broker: int) -> bool:
        return any(link.between(link_name(broker), link_name(other)) for other in BROKERS if other != broker)

    def stop_brokers(self) -> None:
        """Shut down all brokers at once with a controlled shutdown, and do not restart them."""
        self._ending.set()
        for broker in self.brokers.values():
            broker._should_run = False
            broker.signal(signal.SIGTERM)
        for broker in self.brokers.values():
            broker.end(signal.SIGTERM)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        for broker in self.brokers.values():
            broker.end(signal.SIGKILL)
        if not self.peer.embedded:
            self.zookeeper.kill()
        self.links.__exit__(kind, error, trace)
