"""Brokers that run inside another program, on a separate thread.

with Broker() as broker:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

with Broker(brokers=3) as cluster:
    cluster.stop_broker(1)
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ottla.broker.broker_context import BrokerContext
from ottla.broker.node_configs import node_configs
from ottla.broker.server.broker_node import BrokerNode
from ottla.broker.topic_creation import create_internal
from ottla.clock import SYSTEM_CLOCK, ShiftedClock
from ottla.cluster.controller.leader_election import Reason
from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.runtime.coordinator_log import partition_of
from ottla.errors import (
    ConfigurationError,
    CoordinatorNotAvailableError,
    IllegalStateError,
    UnknownTopicOrPartitionError,
)
from ottla.model import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, TopicPartition

if TYPE_CHECKING:
    from ottla.broker.dispatch import Interceptor

OPTIONS: Mapping[str, Any] = {
    "offsets.topic.num.partitions": 5,
    "group.initial.rebalance.delay.ms": 0,
    "ottla.event.loop.stall.ms": 0,
}
"""Configs that differ from the defaults, because these brokers run for a short time, and because the program around
them may keep the interpreter or the machine busy, which would be logged as a stall.
"""
ONE_REPLICA: Mapping[str, Any] = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}
"""Additional configs if there is one broker."""
FEW_PARTITIONS: Mapping[str, Any] = {
    "transaction.state.log.num.partitions": 5,
    "share.coordinator.state.topic.num.partitions": 5,
}
"""Additional configs if there are several brokers."""
STOP_SECONDS = 30.0
"""Maximum time in seconds that `stop` waits for the brokers' thread."""

MOVE_SECONDS = 30.0
"""Maximum time in seconds for the election of a controller or leader."""
RETRY_SECONDS = 0.005
DUE_ROUNDS = 10
"""Number of iterations of the event loop in which due timers, and the tasks that they wake, run after the clock was
moved.
"""

R = TypeVar("R")


class _ShiftedLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers follow a clock that the program can move."""

    def __init__(self, clock: ShiftedClock) -> None:
        super().__init__()
        self._shifted_clock = clock

    def time(self) -> float:
        """Return the clock's time in seconds, which timers are compared with."""
        return self._shifted_clock.monotonic()


class Broker:
    """One Kafka broker, or a cluster of several, in this process.

    `config`: Kafka's broker configs by name, such as `{"num.partitions": 3}`. `data_dir`: the log directory; for
    several brokers, the parent of their log directories; by default a temporary directory, which `stop` deletes;
    ignored if `config` has log.dirs or log.dir. `port`: the port on 127.0.0.1; for several brokers, the port of the
    first one; 0, the default: free ports; ignored if `config` has listeners. `brokers`: the number of
    brokers; several brokers replicate, elect leaders and fail over as in any cluster.
    `clock`: a clock that `advance_clock` moves, with the brokers' timers; by default the system clock.

    The constructor raises ConfigurationError if `brokers` is less than 1. `start` raises it for an invalid config, and
    another KafkaError, such as StartupError, if a broker cannot start. `leader`, `move_leader`, `advance_clock` and
    `intercept` raise IllegalStateError before `start` and after `stop`.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        data_dir: str | Path | None = None,
        port: int = 0,
        brokers: int = 1,
        clock: ShiftedClock | None = None,
    ) -> None:
        if brokers < 1:
            raise ConfigurationError(f"brokers: {brokers} is not allowed: expected at least 1")
        self._overrides = dict(config or {})
        self._data_dir = data_dir
        self._port = port
        self._count = brokers
        self._clock = clock
        self._interceptor: Interceptor | None = None
        self._temporary: str | None = None
        self._configs: list[BrokerConfig] = []
        self._nodes: dict[int, BrokerNode] = {}
        """The running brokers by id."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients: `host:port` of the first listener of each running broker, separated by commas.

        Raises IllegalStateError if none is running.
        """
        endpoints = [node.endpoints[0] for _, node in sorted(self._nodes.items()) if node.endpoints]
        if not endpoints:
            raise IllegalStateError("the broker is not running; use it as `with Broker() as broker:`")
        return ",".join(f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints)

    @property
    def _node(self) -> BrokerNode | None:
        """The first running broker; None if there is none."""
        return next(iter(self._nodes.values()), None)

    @property
    def data_dir(self) -> Path:
        """The first log directory; with several brokers, the parent of their first log directories.

        Raises IllegalStateError before `start` and after `stop`.
        """
        if not self._configs:
            raise IllegalStateError("the broker is not running")
        directory = Path(self._configs[0].data_dirs[0])
        return directory if self._count == 1 else directory.parent

    def start(self) -> Self:
        """Start all brokers. Return when they serve clients.

        Raises IllegalStateError if they have been started and `stop` has not been called since.
        """
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
        """Stop all brokers cleanly, without moving their leaders, and delete temporary data. Idempotent."""
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
        """Stop one of several brokers with a controlled shutdown. In-sync replicas on the others become the leaders of
        its partitions.

        Raises ConfigurationError if it is not running.
        """
        self._call(self._taken(broker_id).stop())

    def _taken(self, broker_id: int) -> BrokerNode:
        """Remove a broker from the running ones, and return it. Raises ConfigurationError if it is not running."""
        if broker_id not in self._nodes:
            raise ConfigurationError(f"broker {broker_id} does not run; {sorted(self._nodes)} do")
        return self._nodes.pop(broker_id)

    def start_broker(self, broker_id: int) -> None:
        """Start one of several brokers again, with the same data and port.

        Raises ConfigurationError if it does not exist or is running.
        """
        config = next((config for config in self._configs if config.id == broker_id), None)
        if config is None or broker_id in self._nodes:
            raise ConfigurationError(f"broker {broker_id} {'runs already' if config else 'does not exist'}")
        self._call(self._start(config))

    def kill_broker(self, broker_id: int) -> None:
        """Stop one of several brokers as if its process were killed: connections end while requests are in progress.

        Returns when the controller has elected other leaders of its partitions, if an in-sync replica is left. Raises
        ConfigurationError if it is not running.
        """
        self._call(self._taken(broker_id).kill())
        self._call(_wait_gone(self.nodes, broker_id))

    def restart_broker(self, broker_id: int) -> None:
        """Stop one of several brokers with a controlled shutdown, and start it again.

        Raises ConfigurationError if it is not running.
        """
        self.stop_broker(broker_id)
        self.start_broker(broker_id)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of the broker that leads a partition; -1 if there is none.

        Raises UnknownTopicOrPartitionError if the partition does not exist.
        """
        return self._call(_leader(self.nodes, topic, partition))

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> int:
        """Make an in-sync replica the leader of a partition, and return its broker id.

        `to`: the id of the broker; None: any except the current leader. Raises UnknownTopicOrPartitionError if the
        partition does not exist, and ConfigurationError if there is no such in-sync replica.
        """
        return self._call(move_leader(self.nodes, topic, partition, to))

    def advance_clock(self, seconds: float) -> None:
        """Move the brokers' clock forward, and return when the timers that are due have run.

        Raises ConfigurationError if the broker was created without a clock.
        """
        if self._clock is None:
            raise ConfigurationError("clock: the broker runs on the system clock; use Broker(clock=ShiftedClock())")
        self._clock.advance(seconds)
        self._call(_run_due_timers())

    def now_ms(self) -> int:
        """Return the time of the brokers' clock in milliseconds since 1970."""
        return (self._clock or SYSTEM_CLOCK).now_ms()

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Call an interceptor instead of the handlers, on the brokers' thread; None: call the handlers again.

        It also applies to brokers that start later.
        """

        async def intercept() -> None:
            self._interceptor = interceptor
            for node in self._nodes.values():
                node.intercept(interceptor)

        self._call(intercept())

    @property
    def nodes(self) -> Mapping[int, BrokerNode]:
        """The running brokers by id. They belong to the brokers' thread."""
        return self._nodes

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

        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            runner.run(serve())

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop() if self._clock is None else _ShiftedLoop(self._clock)

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
        node = BrokerNode(config, self._clock or SYSTEM_CLOCK)
        await node.start()
        if self._interceptor is not None:
            node.intercept(self._interceptor)
        self._nodes[node.broker_id] = node
        if self._count > 1:  # a broker that is started again gets the same port
            index = next(i for i, own in enumerate(self._configs) if own.id == node.broker_id)
            listeners = ",".join(map(str, node.endpoints))
            self._configs[index] = self._configs[index].replace({"listeners": listeners})


async def _run_due_timers() -> None:
    for _ in range(DUE_ROUNDS):
        await asyncio.sleep(0)


# The cluster


async def _leader(nodes: Mapping[int, BrokerNode], topic: str, partition: int) -> int:
    """Return the id of the broker that leads a partition; -1 if there is none."""
    return _state(await _controller(nodes), TopicPartition(topic, partition)).leader


async def _wait_gone(nodes: Mapping[int, BrokerNode], broker_id: int) -> None:
    """Wait until a stopped broker is neither alive nor a leader in the controller's image. `nodes`: the others."""
    async with asyncio.timeout(MOVE_SECONDS):
        while nodes and _knows((await _controller(nodes)).image, broker_id):  # noqa: ASYNC110
            await asyncio.sleep(RETRY_SECONDS)


def _knows(image: ClusterImage, broker_id: int) -> bool:
    leaders = {p.leader for topic in image.topics.values() for p in topic.partitions}
    return broker_id in image.brokers or broker_id in leaders


async def move_leader(nodes: Mapping[int, BrokerNode], topic: str, partition: int, to: int | None) -> int:
    """Make an in-sync replica the preferred leader, and elect it. Return its broker id when all brokers know it.

    `to`: the id of the broker; None: any except the current leader. Raises UnknownTopicOrPartitionError if the
    partition does not exist, and ConfigurationError if there is no such in-sync replica.
    """
    context, tp = await _controller(nodes), TopicPartition(topic, partition)
    before = _state(context, tp)
    target = _target(tp, before, to)
    async with asyncio.timeout(MOVE_SECONDS):
        replicas = [target, *(replica for replica in before.replicas if replica != target)]
        await context.controller.reassignments.reassign(tp, replicas)
        await context.controller.elect(Reason.PREFERRED, [tp])
        for node in nodes.values():
            await node.context.metadata_cache.wait_for(lambda _: _leads(nodes, tp, target), MOVE_SECONDS)
    return target


async def coordinator_partition(nodes: Mapping[int, BrokerNode], topic: str, key: str) -> int:
    """Return the partition of an internal topic that has the state of a group or transactional id.

    Raises UnknownTopicOrPartitionError if the topic does not exist yet.
    """
    image = (await _controller(nodes)).image.topics.get(topic)
    if image is None:
        raise UnknownTopicOrPartitionError(f"{topic} does not exist yet")
    return partition_of(key, len(image.partitions))


async def create_internal_topics(nodes: Mapping[int, BrokerNode]) -> None:
    """Create the topics of committed offsets, transactions and share groups that do not exist yet.

    Stop without an error at the first that cannot be created now, for example because fewer brokers are running than it
    needs replicas.
    """
    context = await _controller(nodes)
    with contextlib.suppress(CoordinatorNotAvailableError):  # one is down already
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE):
            await create_internal(context, name)


async def _controller(nodes: Mapping[int, BrokerNode]) -> BrokerContext:
    """Return the context of the active controller, after its election if there is none yet."""
    async with asyncio.timeout(MOVE_SECONDS):
        while True:
            for node in nodes.values():
                if node.context.controller.is_active:
                    return node.context
            await asyncio.sleep(RETRY_SECONDS)


def _state(context: BrokerContext, tp: TopicPartition) -> PartitionImage:
    state = context.image.partition(tp)
    if state is None:
        raise UnknownTopicOrPartitionError(f"partition {tp.partition} of topic {tp.topic!r} does not exist")
    return state


def _target(tp: TopicPartition, state: PartitionImage, to: int | None) -> int:
    others = [replica for replica in state.isr if replica != state.leader]
    if to is None:
        if not others:
            raise ConfigurationError(
                f"cannot move the leader of {tp.topic}-{tp.partition}: broker {state.leader} has its only replica in "
                f"sync of {list(state.replicas)}; create the topic with more replicas"
            )
        return others[0]
    if to not in state.isr:
        raise ConfigurationError(
            f"to: broker {to} cannot lead {tp.topic}-{tp.partition}; its replicas in sync are {list(state.isr)}"
        )
    return to


def _leads(nodes: Mapping[int, BrokerNode], tp: TopicPartition, broker: int) -> bool:
    images = (node.context.image.partition(tp) for node in nodes.values())
    return all(image is not None and image.leader == broker for image in images)
