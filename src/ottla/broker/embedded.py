"""Brokers inside another program, which run on a separate thread.

with Broker() as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

with Broker(brokers=3) as cluster:
    cluster.stop_broker(1)
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.broker.main import BrokerNode
from ottla.broker.node_configs import node_configs
from ottla.config.broker import BrokerConfig
from ottla.errors import ConfigurationError, IllegalStateError

OPTIONS: Mapping[str, Any] = {
    "offsets.topic.num.partitions": 5,
    "group.initial.rebalance.delay.ms": 0,
}
"""Configs that differ from Kafka's defaults, because these brokers run for a short time."""
ONE_REPLICA: Mapping[str, Any] = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}
"""Further configs of a single broker."""
FEW_PARTITIONS: Mapping[str, Any] = {
    "transaction.state.log.num.partitions": 5,
    "share.coordinator.state.topic.num.partitions": 5,
}
"""Further configs of several brokers."""
STOP_SECONDS = 30.0
"""Maximum time in seconds that `stop` waits for the brokers' thread."""

R = TypeVar("R")


class Broker:
    """One Kafka broker, or a cluster of several, in this process.

    Args:
        config: Kafka's broker configs by name, such as `{"num.partitions": 3}`.
        data_dir: the log directory, of several brokers the parent of theirs; by default a temporary directory, deleted
            when the broker stops.
        port: the port on 127.0.0.1, or, of several brokers, the port of the first one; 0, the default, takes free ones.
        brokers: the number of brokers; several ones replicate, elect leaders and fail over as any cluster does.

    Raises ConfigurationError for an invalid config, and StartupError if a broker cannot start.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        data_dir: str | Path | None = None,
        port: int = 0,
        brokers: int = 1,
    ) -> None:
        if brokers < 1:
            raise ConfigurationError(f"brokers: {brokers} is not allowed: expected at least 1")
        self._overrides = dict(config or {})
        self._data_dir = data_dir
        self._port = port
        self._count = brokers
        self._temporary: str | None = None
        self._configs: list[BrokerConfig] = []
        self._nodes: dict[int, BrokerNode] = {}
        """The running brokers by id."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients: `host:port` of each running broker, separated by commas."""
        endpoints = [node.endpoints[0] for _, node in sorted(self._nodes.items()) if node.endpoints]
        if not endpoints:
            raise IllegalStateError("the broker is not running; use it as `with Broker() as broker:`")
        return ",".join(f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints)

    @property
    def _node(self) -> BrokerNode | None:
        """The first running broker."""
        return next(iter(self._nodes.values()), None)

    @property
    def data_dir(self) -> Path:
        """The log directory; with several brokers, the parent of their log directories."""
        if not self._configs:
            raise IllegalStateError("the broker is not running")
        directory = Path(self._configs[0].data_dirs[0])
        return directory if self._count == 1 else directory.parent

    def start(self) -> Self:
        """Start all brokers. Return when they serve clients."""
        if self._thread is not None:
            raise IllegalStateError("the broker is already running")
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="ottla-broker", daemon=True)
        self._thread.start()
        ready.wait()
        try:
            self._configs = self._read_configs()
            self._call(self._start_all())
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop with a controlled shutdown, and delete temporary data. Idempotent."""
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        if thread.is_alive():
            loop.call_soon_threadsafe(self._stopping.set)
        thread.join(STOP_SECONDS)
        self._thread = self._loop = None
        self._nodes.clear()
        self._configs.clear()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def stop_broker(self, broker_id: int) -> None:
        """Stop one of several brokers with a controlled shutdown. The others take over its partitions.

        Raises ConfigurationError if it is not running.
        """
        if broker_id not in self._nodes:
            raise ConfigurationError(f"broker {broker_id} does not run; {sorted(self._nodes)} do")
        self._call(self._nodes.pop(broker_id).stop())

    def start_broker(self, broker_id: int) -> None:
        """Start one of several brokers again, with the same data and port.

        Raises ConfigurationError if it does not exist or is running.
        """
        config = next((config for config in self._configs if config.id == broker_id), None)
        if config is None or broker_id in self._nodes:
            raise ConfigurationError(f"broker {broker_id} {'runs already' if config else 'does not exist'}")
        self._call(self._start(config))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _read_configs(self) -> list[BrokerConfig]:
        configs = {**OPTIONS, **(ONE_REPLICA if self._count == 1 else FEW_PARTITIONS), **self._overrides}
        configs.setdefault("listeners", f"PLAINTEXT://127.0.0.1:{self._port}")
        if "log.dirs" not in configs and "log.dir" not in configs:
            if self._data_dir is None:
                self._temporary = tempfile.mkdtemp(prefix="ottla-")
            configs["log.dirs"] = str(self._data_dir or self._temporary)
        if self._count == 1:
            return [BrokerConfig.from_kafka(configs)]
        return [BrokerConfig.from_kafka(broker) for broker in node_configs(configs, self._count)]

    def _run(self, ready: threading.Event) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            self._stopping = asyncio.Event()
            ready.set()
            await self._stopping.wait()
            await asyncio.gather(*(node.stop(moves_leaders=False) for node in self._nodes.values()))

        asyncio.run(serve())

    def _call(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the brokers' event loop, and return its result."""
        if self._loop is None:
            work.close()
            raise IllegalStateError("the broker is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start_all(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for config in self._configs:
                    group.create_task(self._start(config))
        except ExceptionGroup as error:
            raise error.exceptions[0] from None

    async def _start(self, config: BrokerConfig) -> None:
        node = BrokerNode(config)
        await node.start()
        self._nodes[node.broker_id] = node
        if self._count > 1:  # a broker that is started again gets the same port
            index = next(i for i, own in enumerate(self._configs) if own.id == node.broker_id)
            listeners = ",".join(map(str, node.endpoints))
            self._configs[index] = self._configs[index].replace({"listeners": listeners})
