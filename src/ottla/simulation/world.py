"""One simulation: its loop, network, disks, stores and processes, and the timeline of a run."""

from __future__ import annotations

import asyncio
import functools
import gc
import hashlib
import logging
import math
import random
from collections.abc import Coroutine
from pathlib import Path
from struct import Struct
from typing import Any, Final

from ottla.simulation import system
from ottla.simulation.checking.log_files import LogChecker
from ottla.simulation.checking.partition_states import PartitionStates
from ottla.simulation.disk import Disk, Disks
from ottla.simulation.event_loop import SimulatedLoop, StuckError, gather
from ottla.simulation.history import UNCLEAN
from ottla.simulation.network import Network
from ottla.simulation.pipes import Pipes
from ottla.simulation.process import PROCESS, Process
from ottla.simulation.stores.object_store import ObjectStore, SimulatedStorage
from ottla.simulation.stores.sqlite import MetadataFile, SqliteModule
from ottla.simulation.stores.zookeeper import HOST, SimulatedKazoo, ZooKeeper
from ottla.simulation.watchdog import watched
from ottla.simulation.workers import SimulatedExecutor

TIME: Final = Struct(">d")
ZOOKEEPER: Final = "zookeeper"
SQLITE: Final = "sqlite"
"""The metadata stores: ZooKeeper for a cluster, and the embedded one for a node of several brokers."""
MAX_EVENTS: Final = 100_000
"""Number of lines after which the timeline adds only violations."""


class Timeline(logging.Handler):
    """The events of a run with their virtual times, such as log lines of all processes, faults, and messages of
    clients.
    """

    def __init__(self, loop: SimulatedLoop, directory: Path) -> None:
        super().__init__(logging.INFO)
        self._directory = str(directory)
        self._loop = loop
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        self.note("-" if process is None else process.name, f"{record.levelname} {text}")

    def note(self, process: str, text: str, *, is_violation: bool = False) -> str:
        """Add a line; once there are MAX_EVENTS lines, add only violations. Return its text without the name of the
        run's directory, which differs from run to run.
        """
        text = text.replace(self._directory, "")
        if is_violation or len(self.lines) < MAX_EVENTS:
            self.lines.append(f"{self._loop.time():10.4f} {process:12} {text}")
        return text


class World:
    """One simulation. A Python process can run only one at a time, because `system.install` replaces global objects."""

    def __init__(self, seed: int, directory: Path, variation: int = 0, store: str = ZOOKEEPER) -> None:
        """Create a simulation. `directory` should be on a file system in memory. `variation` selects another order of
        events for the seed. `store` is the metadata store, SQLITE or ZOOKEEPER.
        """
        self.seed = seed
        self.rng = random.Random(f"{seed} {variation}" if variation else seed)
        self.directory = directory
        self.loop = SimulatedLoop()
        self.network = Network(self.loop, random.Random(self.rng.random()))
        self.disks = Disks()
        self.disk_of: dict[str, Disk] = {}
        """Disks by name of the host."""
        self.hosts: dict[str, str] = {"localhost": "127.0.0.1", "zookeeper": HOST}
        self.zookeeper = ZooKeeper(self.loop, self.network, random.Random(self.rng.random()))
        self.pipes = Pipes(self.loop, random.Random(f"pipes {seed}"))
        self.metadata_directory = directory / "metadata"
        self.metadata_directory.mkdir()
        file = MetadataFile(self.metadata_directory, self.network, self.pipes, random.Random(f"store {seed}"))
        self._sqlite = SqliteModule(file)
        self.store = store
        self.metadata: ZooKeeper | MetadataFile = file if store == SQLITE else self.zookeeper
        self.timeline = Timeline(self.loop, directory)
        self._directory = bytes(directory)
        self._hash = hashlib.blake2b(digest_size=8)
        self._links: dict[tuple[str, str], bytes] = {}
        """The names of a sending and a receiving process, encoded for the hash."""
        self.messages = 0
        self.busy = asyncio.Event()
        """Set while clients work. Between the faults they rest, so that the time until the next faults costs little."""
        self.busy.set()
        self.clock_offsets_ms = {0}
        """The milliseconds by which wall clocks of processes have been ahead of the virtual time; negative: behind."""
        self.unhandled: list[str] = []
        """Descriptions of the exceptions that reached the event loop's exception handler."""
        self.network.on_message = self._on_message
        self.partition_states = PartitionStates(lambda topic: topic == UNCLEAN, self.loop.time)
        self.metadata.on_write = self.partition_states.on_write
        self.logs = LogChecker()
        self.metadata.on_change = functools.partial(self.timeline.note, store)
        SimulatedKazoo.service = self.zookeeper
        self.object_store = SimulatedStorage.store = ObjectStore(random.Random(f"objects of {seed}"))

    def install(self) -> None:
        """Replace the parts of the operating system that production code uses with simulated ones, send log lines of
        Ottla and asyncio to the timeline only, and disable the garbage collector.
        """
        import kazoo.client

        system.install(
            self.loop,
            self.network,
            self.disks,
            self.pipes,
            self._sqlite,
            random.Random(self.rng.random()),
            self.resolve,
            self.logs.open_log,
        )
        kazoo.client.KazooClient = SimulatedKazoo
        asyncio.gather = gather  # type: ignore[assignment]
        self.loop.resolver = self.resolve
        self.loop.new_workers = SimulatedExecutor
        self.loop.set_exception_handler(self._on_unhandled)
        logging.getLogger().handlers[:] = []
        for name in ("ottla", "asyncio"):
            logger = logging.getLogger(name)
            logger.handlers[:] = [self.timeline]
            logger.setLevel(logging.INFO)
            logger.propagate = False
        gc.disable()

    def resolve(self, name: str) -> str:
        """Return the address of a host name; an address is returned unchanged. Raises OSError for an unknown name."""
        if name[:1].isdigit():
            return name
        if name not in self.hosts:
            raise OSError(-2, f"the host {name} is not known")
        return self.hosts[name]

    def add_host(self, name: str) -> str:
        """Return the address of a host. A new host is added, with its disk."""
        if name not in self.hosts:
            self.hosts[name] = f"10.0.0.{len(self.hosts)}"
            root = self.directory / name
            root.mkdir(parents=True)
            disk = self.disk_of[name] = Disk(root, random.Random(self.rng.random()))
            self.disks.mount(disk)
        return self.hosts[name]

    def start_process(self, name: str, host: str) -> Process:
        """Return a new process on a host, which is added if it is new. The process runs nothing yet."""
        process = Process(name, self.add_host(host))
        process.on_death.append(lambda: self.network.close_sockets_of(process))
        return process

    def run(self, main: Coroutine[Any, Any, None], max_seconds: float = math.inf) -> None:
        """Run the simulation until `main` ends, and raise its error if it has one.

        Raises StuckError if that takes longer than `max_seconds` of virtual time, or if the simulation cannot continue.
        """
        asyncio.set_event_loop(self.loop)
        if max_seconds < math.inf:
            error = StuckError(f"the run has not ended after {max_seconds:.0f} s")
            self.loop.call_outside(max_seconds, self.loop.fail, error)
        with watched(self.loop):
            self.loop.run_until_complete(main)

    @property
    def clock_difference_seconds(self) -> float:
        """The difference in seconds between the largest and the smallest offset of a wall clock in the run: a time
        stored by one process and compared by another may seem to be up to that much earlier or later.
        """
        return (max(self.clock_offsets_ms) - min(self.clock_offsets_ms)) / 1000

    @property
    def trace_hash(self) -> str:
        """A hash of all messages and of the lines of `note`, with their order and times: equal for two runs of the same
        plan.
        """
        return self._hash.hexdigest()

    def note(self, process: str, text: str) -> None:
        """Add a line to the timeline and to the hash of the trace."""
        text = self.timeline.note(process, text)
        self._hash.update(f"{self.loop.time():.9f} {process} {text}".encode())

    def _on_message(self, source: str, target: str, data: bytes) -> None:
        self.messages += 1
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = f"{source} {target}".encode()
        self._hash.update(TIME.pack(self.loop.time()) + link)
        # the name of the directory differs from run to run
        self._hash.update(data.replace(self._directory, b"") if self._directory in data else data)

    def _on_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        text = f"{context.get('message')}: {error!r}"
        process = PROCESS.get()
        self.timeline.note("-" if process is None else process.name, f"UNHANDLED {text}")
        self.unhandled.append(text)
