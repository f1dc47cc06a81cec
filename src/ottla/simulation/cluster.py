"""A cluster of brokers in a simulation: the production `BrokerNode` in simulated processes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ottla.broker.broker_context import BrokerContext
from ottla.broker.server.broker_node import BrokerNode
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import KafkaError
from ottla.simulation.process import Process, ProcessState
from ottla.simulation.world import SQLITE, World
from ottla.storage.log_dir import CLEAN_SHUTDOWN

PORT: Final = 9092
LOG_DIRS: Final = ("data", "more")
"""The log directories of each broker."""
RESTART_SECONDS: Final = 5.0
"""Time in seconds after which a broker that has failed, or could not start, is started again, as by a supervisor."""

CONFIGS: Final[Mapping[str, Any]] = {
    "zookeeper.session.timeout.ms": 6000,
    "broker.session.timeout.ms": 6000,
    "ottla.event.loop.stall.ms": 0,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "num.partitions": 2,
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "share.coordinator.state.topic.num.partitions": 2,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
    "group.initial.rebalance.delay.ms": 500,
    "group.consumer.session.timeout.ms": 10000,
    "group.consumer.min.session.timeout.ms": 10000,
    "replica.lag.time.max.ms": 6000,
    "replica.fetch.wait.max.ms": 3000,
    "replica.socket.timeout.ms": 8000,
    "controlled.shutdown.retry.backoff.ms": 500,
    "log.segment.bytes": 8192,
    "log.index.interval.bytes": 512,
    "log.segment.delete.delay.ms": 5000,
    "log.flush.offset.checkpoint.interval.ms": 20000,
    "replica.high.watermark.checkpoint.interval.ms": 10000,
    "log.retention.check.interval.ms": 30000,
    "log.cleaner.backoff.ms": 10000,
    "log.cleaner.threads": 1,
    "log.cleaner.dedupe.buffer.size": 1048576,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 5000,
    "leader.imbalance.check.interval.seconds": 60,
    "unclean.leader.election.enable": "false",
}
"""Configs of all brokers: mostly shorter times, smaller files and fewer partitions than by default, so that more
happens in a minute.
"""


TIERED_CONFIGS: Final[Mapping[str, Any]] = {
    "remote.log.storage.system.enable": "true",
    "rsm.config.url": "memory://simulation",
    "remote.log.manager.task.interval.ms": 4000,
    "remote.log.metadata.topic.num.partitions": 2,
    "log.retention.check.interval.ms": 5000,
}
"""Configs of brokers with tiered storage."""
TIERED_TOPIC: Final = {"remote.storage.enable": "true", "local.retention.bytes": "1", "segment.bytes": "4096"}


class SimulatedBroker:
    """One broker, across all processes that run it."""

    def __init__(self, world: World, broker_id: int, configs: Mapping[str, Any]) -> None:
        self.world = world
        self.id = broker_id
        self.name = f"broker-{broker_id}"
        self.host = world.add_host(self.name)
        self.configs = configs
        self.process: Process | None = None
        self.node: BrokerNode | None = None
        self.runs = 0
        """The number of processes that have run this broker so far."""
        self.starts = 0
        """The number of times that the broker has begun to serve clients. A broker that fails, for example because its
        log directories have failed, starts again within the same process.
        """
        self.crashes = 0
        """The number of times that the broker was killed, lost power or failed, or that its shutdown was not clean. As
        in Kafka, changes of log start offsets after the last checkpoint may then be lost.
        """
        self.power_lost_at = float("-inf")
        """The virtual time of the last power loss, which may have lost acknowledged records; before it, minus infinity.
        """

    @property
    def context(self) -> BrokerContext | None:
        """The context of the broker while it serves clients; otherwise None."""
        return None if self.node is None else self.node._context

    @property
    def log_dirs(self) -> list[Path]:
        return [self.world.directory / self.name / name for name in LOG_DIRS]

    @property
    def is_controller(self) -> bool:
        return self.context is not None and self.context.controller.is_active

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.state is not ProcessState.DEAD

    @property
    def address(self) -> str:
        return f"{self.host}:{PORT}"

    def start(self) -> None:
        """Start the broker in a new process. If the broker fails, then or later, it starts again after
        RESTART_SECONDS.
        """
        assert not self.is_alive
        self.runs += 1
        self.process = self.world.start_process(self.name, self.name)
        self.world.note(self.name, "starts")
        self.process.start(self._run())

    async def _run(self) -> None:
        while True:
            node = BrokerNode(self._config())
            try:
                await node.start()
            except (KafkaError, OSError) as error:
                self.world.note(self.name, f"could not start: {error}")
                await asyncio.sleep(RESTART_SECONDS)
                continue
            self.starts += 1
            self.node = node
            self.world.note(self.name, "serves clients")
            await node.failed.wait()
            self.world.note(self.name, f"failed: {node.failure}")
            self.crashes += 1
            self.node = None
            await node.stop()
            await asyncio.sleep(RESTART_SECONDS)

    def _config(self) -> BrokerConfig:
        own = {
            "broker.id": self.id,
            "listeners": f"PLAINTEXT://{self.host}:{PORT}",
            "log.dirs": ",".join(map(str, self.log_dirs)),
        }
        if self.world.store == SQLITE:
            own["ottla.metadata.dir"] = str(self.world.metadata_directory)
        else:
            own["zookeeper.connect"] = "zookeeper:2181"
        return BrokerConfig.from_kafka({**CONFIGS, **self.configs, **own})

    def kill(self) -> None:
        """Kill the process, as `kill -9` does. Do nothing if the broker was never started."""
        if self.process is not None:
            self.world.note(self.name, "is killed")
            self._remember_logs(power_lost=False)
            self.process.kill()
            self.node = None

    def lose_power(self) -> None:
        """Kill the process, turn off its host, and undo a part of the changes that are not fsynced. Do nothing if the
        broker was never started.
        """
        if self.process is not None:
            self.world.note(self.name, "loses power")
            self.power_lost_at = self.world.loop.time()
            directories = self._remember_logs(power_lost=True)
            self.world.network.power_off(self.host)
            self.process.kill()
            self.node = None
            self.world.disk_of[self.name].lose_power()
            for directory in directories:
                self.world.logs.on_power_lost(directory)

    def _remember_logs(self, *, power_lost: bool) -> list[Path]:
        """Count a crash, and record the state of the logs, to compare it with their state after the crash. Return the
        directories of the logs; none if the broker does not serve clients.
        """
        self.crashes += 1
        logs = [] if self.context is None else [partition.log for partition in self.context.partitions]
        for log in logs:
            self.world.logs.on_crash(log, power_lost=power_lost)
        return [log.dir for log in logs]

    def power_on(self) -> None:
        self.world.network.power_on(self.host)

    async def stop(self) -> None:
        """Stop with a controlled shutdown of at most 60 s, and end the process; do nothing if the broker does not serve
        clients.
        """
        if self.node is None or self.process is None:
            return
        node, self.node = self.node, None
        self.world.note(self.name, "is stopped")
        await asyncio.wait({self.process.start(node.stop())}, timeout=60)
        if not all((directory / CLEAN_SHUTDOWN).exists() for directory in self.log_dirs):
            self.crashes += 1  # its disk was full, for example
        self.process.kill()


class SimulatedCluster:
    """The brokers of a simulation."""

    def __init__(self, world: World, brokers: int = 3, configs: Mapping[str, Any] | None = None) -> None:
        self.world = world
        self.chosen: dict[object, SimulatedBroker] = {}
        """The broker that was the controller (broker 0 if there was none) when a fault of the controller began, by
        fault.
        """
        self.brokers = [SimulatedBroker(world, number, configs or {}) for number in range(brokers)]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    @property
    def nodes(self) -> list[BrokerNode]:
        """The BrokerNodes of the brokers that serve clients."""
        return [broker.node for broker in self.brokers if broker.node is not None]

    async def start(self, timeout: float = 60) -> None:
        """Start all brokers, and return when they serve clients. Raises TimeoutError if that takes longer than
        `timeout` seconds.
        """
        for broker in self.brokers:
            broker.start()
        async with asyncio.timeout(timeout):
            while len(self.nodes) < len(self.brokers):
                await asyncio.sleep(0.05)
