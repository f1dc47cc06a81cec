"""A broker inside another program, on its own thread.

with Broker() as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ottla.broker.main import BrokerNode
from ottla.config.broker import BrokerConfig
from ottla.errors import IllegalStateError

OPTIONS: Mapping[str, Any] = {
    "offsets.topic.num.partitions": 5,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}
"""Differences from Kafka's defaults: a single broker that runs for a short time."""
STOP_SECONDS = 30.0
"""Maximum time that `stop` waits for the broker's thread."""


class Broker:
    """One Kafka broker in this process.

    Args:
        config: Kafka's broker configs by name, such as `{"num.partitions": 3}`.
        data_dir: the log directory; by default a temporary directory, deleted when the broker stops.
        port: the port on 127.0.0.1; 0, the default, takes a free one.

    Raises ConfigurationError for an invalid config, and StartupError if the broker cannot start.
    """

    def __init__(
        self, config: Mapping[str, Any] | None = None, *, data_dir: str | Path | None = None, port: int = 0
    ) -> None:
        self._overrides = dict(config or {})
        self._data_dir = data_dir
        self._port = port
        self._temporary: str | None = None
        self._node: BrokerNode | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients."""
        if self._node is None or not self._node.endpoints:
            raise IllegalStateError("the broker is not running; use it as `with Broker() as broker:`")
        endpoint = self._node.endpoints[0]
        return f"{endpoint.host}:{endpoint.port}"

    @property
    def data_dir(self) -> Path:
        """The log directory."""
        if self._node is None:
            raise IllegalStateError("the broker is not running")
        return Path(self._node.config.data_dirs[0])

    def start(self) -> Self:
        """Start the broker; return when it serves clients."""
        if self._thread is not None:
            raise IllegalStateError("the broker is already running")
        self._node = BrokerNode(self._config())
        started: list[BaseException | None] = []
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._node, started, ready), name="ottla-broker", daemon=True
        )
        self._thread.start()
        ready.wait()
        if started[0] is not None:
            self._thread.join()
            self._forget()
            raise started[0]
        return self

    def stop(self) -> None:
        """Stop with a controlled shutdown, and delete temporary data. Idempotent."""
        thread, loop = self._thread, self._loop
        if thread is None:
            return
        if loop is not None and thread.is_alive():
            loop.call_soon_threadsafe(self._stopping.set)
        thread.join(STOP_SECONDS)
        self._forget()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _config(self) -> BrokerConfig:
        configs = {**OPTIONS, **self._overrides}
        configs.setdefault("listeners", f"PLAINTEXT://127.0.0.1:{self._port}")
        if "log.dirs" not in configs and "log.dir" not in configs:
            if self._data_dir is None:
                self._temporary = tempfile.mkdtemp(prefix="ottla-")
            configs["log.dirs"] = str(self._data_dir or self._temporary)
        return BrokerConfig.from_kafka(configs)

    def _run(self, node: BrokerNode, started: list[BaseException | None], ready: threading.Event) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            self._stopping = asyncio.Event()
            try:
                await node.start()
            except BaseException as error:
                # raised in the thread that called start()
                started.append(error)
                ready.set()
                return
            started.append(None)
            ready.set()
            await self._stopping.wait()
            await node.stop()

        asyncio.run(serve())

    def _forget(self) -> None:
        self._thread = self._loop = self._node = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
