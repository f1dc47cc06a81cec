"""One reading of the broker's metrics: the broker's parts, and counts of partitions and groups.

A broker may have ten thousand partitions, so they are counted in slices, and other requests are processed in between.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.broker.broker_context import BrokerContext
from ottla.broker.monitoring.event_loop_time import EventLoopTime
from ottla.broker.monitoring.group_lag import NO_LAGS, read_lags
from ottla.cluster.image.cluster_image import NO_LEADER, PartitionImage
from ottla.cluster.store.metadata_store import MetadataStore
from ottla.net.server.listener import Listener
from ottla.net.server.memory_pool import MemoryPool
from ottla.replication.partition import Partition
from ottla.storage.files import DiskSpace, disk_space

if TYPE_CHECKING:
    from ottla.broker.event_loop_monitor import EventLoopMonitor
    from ottla.replication.alter_partition_manager import AlterPartitionManager
    from ottla.replication.fetcher import ReplicaFetcherManager

SLICE_SECONDS: Final = 0.0005
"""Time in seconds after which a slice of the work on the event loop ends, so that other tasks may run."""
MAX_REBALANCED_GROUPS: Final = 10_000
"""Maximum number of groups whose rebalances are reported: those with the most rebalances."""


@dataclass(frozen=True, slots=True)
class MonitoredBroker:
    """The parts of a broker that metrics are read from."""

    context: BrokerContext
    listeners: Sequence[Listener]
    memory: MemoryPool
    store: MetadataStore
    state: Callable[[], int]
    """Returns the number of the broker's state, as in Kafka's metric `BrokerState`."""
    isr_updates: AlterPartitionManager | None = None
    fetchers: ReplicaFetcherManager | None = None
    """`isr_updates` and `fetchers`: None for a standalone broker."""
    loop_time: EventLoopTime | None = None
    """None unless the broker was started by `ottla broker`."""
    loop_monitor: EventLoopMonitor | None = None
    """None if `ottla.event.loop.stall.ms` is 0, or the broker does not serve clients yet."""


@dataclass(slots=True)
class ReplicaCounts:
    """Counts of this broker's replicas. All but `producer_ids` cover only the partitions that this broker leads."""

    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0
    producer_ids: int = 0


@dataclass(slots=True)
class ClusterCounts:
    """Counts of the cluster's topics and partitions. All are 0 unless this broker is the controller."""

    topics: int = 0
    partitions: int = 0
    offline: int = 0
    not_preferred: int = 0


@dataclass(slots=True)
class GroupCounts:
    """Counts of the groups that this broker coordinates, and of their committed offsets."""

    by_type: Counter[str] = field(default_factory=Counter)
    by_state: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of groups by type and state."""
    offsets: int = 0


class Pace:
    """Pauses a long computation on the event loop every `SLICE_SECONDS`, so that other tasks can run."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + SLICE_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether it is time to let other tasks run."""
        return time.perf_counter() >= self._until

    async def rest_if_over(self) -> None:
        """Let other tasks run if it is time for that."""
        if self.is_over:
            await self.rest()

    async def rest(self) -> None:
        """Let other tasks run."""
        await asyncio.sleep(0)
        self._until = time.perf_counter() + SLICE_SECONDS


class Scrape:
    """The state of a broker for one reading of its metrics."""

    def __init__(self, broker: MonitoredBroker) -> None:
        self.broker = broker
        self.context = broker.context
        self.now = time.monotonic()
        self.partitions: list[Partition] = list(broker.context.partitions)
        self.replicas = ReplicaCounts()
        self.cluster = ClusterCounts()
        self.groups = GroupCounts()
        self.members: dict[str, int] = {}
        """The number of members by group."""
        self.rebalances: Mapping[str, int] = {}
        """The number of rebalances by group, of at most MAX_REBALANCED_GROUPS groups."""
        self.rebalance_seconds: dict[str, float] = {}
        """Seconds since the start of the rebalance, by group; only classic groups that are rebalancing."""
        self.lags = NO_LAGS
        self.disks: dict[str, DiskSpace] = {}

    async def prepare(self) -> None:
        """Count this broker's replicas, the groups that it coordinates and, on the controller, the cluster's topics and
        partitions. Read the lags of these groups and the free space of the disks.
        """
        pace = Pace()
        for partition in self.partitions:
            self._count_replica(partition)
            if pace.is_over:
                await pace.rest()
        await self._count_cluster(pace)
        await self._count_groups(pace)
        self.lags = await read_lags(self.context, pace.rest_if_over)
        paths = [str(log_dir.path) for log_dir in self.context.partitions.log_dirs if not log_dir.offline]
        # in a worker, as a network file system may not respond
        self.disks = await asyncio.get_running_loop().run_in_executor(None, _disk_spaces, paths)

    def _count_replica(self, partition: Partition) -> None:
        counts = self.replicas
        counts.producer_ids += len(partition.log.producers.producers)
        if not partition.leads:
            return
        counts.leaders += 1
        counts.under_replicated += is_under_replicated(partition)
        counts.under_min_isr += is_under_min_isr(partition)
        counts.at_min_isr += is_at_min_isr(partition)
        counts.reassigning += bool(partition.image.adding or partition.image.removing)

    async def _count_cluster(self, pace: Pace) -> None:
        image = self.context.image
        if not self.context.controller.is_active:
            return
        counts = self.cluster
        counts.topics = len(image.topics)
        for topic in image.topics.values():
            counts.partitions += len(topic.partitions)
            for partition in topic.partitions:
                counts.offline += partition.leader == NO_LEADER
                counts.not_preferred += _is_imbalanced(partition)
            if pace.is_over:
                await pace.rest()

    async def _count_groups(self, pace: Pace) -> None:
        runtime = self.context.coordinators.existing_groups
        if runtime is None:
            return
        counts = self.groups
        for group in list(runtime.groups.by_id.values()):
            self.members[group.id] = group.member_count
            seconds = runtime.rebalance_seconds(group)
            if seconds is not None:
                self.rebalance_seconds[group.id] = seconds
            counts.by_type[group.type] += 1
            counts.by_state[group.type, str(group.state_name)] += 1
            counts.offsets += len(runtime.offsets.by_group.get(group.id, ()))
            if pace.is_over:
                await pace.rest()
        self.rebalances = dict(runtime.stats.by_group)
        if len(self.rebalances) > MAX_REBALANCED_GROUPS:
            rank = asyncio.get_running_loop().run_in_executor
            self.rebalances = await rank(None, most_rebalanced, self.rebalances, MAX_REBALANCED_GROUPS)


def most_rebalanced(rebalances: Mapping[str, int], number: int) -> dict[str, int]:
    """Return the `number` groups with the most rebalances, with the number of rebalances of each."""
    return dict(heapq.nlargest(number, rebalances.items(), key=lambda item: item[1]))


def is_under_replicated(partition: Partition) -> bool:
    return partition.leads and len(partition.image.isr) < len(partition.image.replicas)


def is_under_min_isr(partition: Partition) -> bool:
    return partition.leads and len(partition.image.isr) < partition.required_isr


def is_at_min_isr(partition: Partition) -> bool:
    return partition.leads and len(partition.image.isr) == partition.required_isr


def _is_imbalanced(partition: PartitionImage) -> bool:
    return partition.leader != partition.replicas[0]


def _disk_spaces(paths: Sequence[str]) -> dict[str, DiskSpace]:
    spaces = {}
    for path in paths:
        try:
            spaces[path] = disk_space(path)
        except OSError:
            continue  # the next use of the directory takes it offline
    return spaces
