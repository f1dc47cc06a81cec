"""The collector: a thread with its own event loop and admin client, which refreshes snapshots and samples.

It takes half a second to fetch and decode a list of 10,000 topics. In the event loop of the pages, every page would be
delayed by that. Pages use the last snapshot. They only wait if there is none, after a change that was made in the
console, or if a snapshot that is refreshed on demand is older than `MAX_AGE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Generic, TypeVar

from ottla.aio import KafkaAdminClient
from ottla.client.admin.driver import Errors
from ottla.client.admin.topics.offsets import OffsetSpec
from ottla.errors import KafkaError, KafkaTimeoutError, SecurityDisabledError
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.security.acl import ACL
from ottla_console.cluster.byte_rates import ByteMeter
from ottla_console.cluster.directories import DirectoryRow, directory_rows
from ottla_console.cluster.disk_space import FullDisk, OfflineDirectory, full_disks, offline_directories
from ottla_console.cluster.flush_times import FlushRow, flush_rows
from ottla_console.cluster.metric_pages import UNDER_MIN_ISR, MetricPages, samples_of
from ottla_console.cluster.quota_usage import UsageRow, usage_of
from ottla_console.cluster.rebalances import RecentRebalances
from ottla_console.cluster.samples import RateMeter, SampleRing
from ottla_console.cluster.snapshots import (
    AclList,
    ClusterSnapshot,
    GroupRow,
    PartitionLag,
    TransactionList,
    cluster_snapshot,
)

T = TypeVar("T")

log = logging.getLogger("ottla.console")

FIRST_MS: Final = 1_000
"""Timeout in milliseconds of the request for the brokers as long as there is no snapshot. A page waits for it, and
shows the error.
"""
LOAD_MS: Final = 10_000
"""Time limit in milliseconds of a request in the background. Pages have a separate, shorter limit."""
MAX_AGE_SECONDS: Final = 60.0
"""Maximum age in seconds of snapshots that are refreshed on demand. A page waits for the refresh of an older one."""
BACKGROUND_SHARE: Final = 0.05
"""The maximum fraction of the time that refreshing a snapshot may take: one that takes a second is refreshed every 20
seconds.
"""
MAX_SAMPLED_PARTITIONS: Final = 5_000
MAX_SAMPLED_GROUPS: Final = 100
GROUP_REQUESTS: Final = 4
"""The number of groups whose offsets are fetched concurrently."""
MAX_VIEWED: Final = 200
"""The number of recently viewed topics (and of groups) to remember. They are sampled first."""
TOTAL: Final = ""
"""The name of the series of all topics together."""
STOP_SECONDS: Final = 5.0


class Refreshed(Generic[T]):
    """A snapshot that is refreshed in the event loop of the collector, with its time and the last error."""

    def __init__(self, load: Callable[[], Awaitable[T]], seconds: float, share: float) -> None:
        self._load = load
        self._seconds = seconds
        self._share = share
        self._lock = asyncio.Lock()
        self._generation = 0
        self._changes = 0
        """The number of calls of `invalidate` so far."""
        self._loaded_changes = 0
        """The value of `_changes` at the start of the last load that has succeeded or has raised a KafkaError."""
        self._cost = 0.0
        self._value: T | None = None
        self.error: KafkaError | None = None
        """The error of the last refresh; None if it succeeded. After an error the snapshot, if there is one, is that of
        an earlier refresh.
        """
        self.loaded_at = 0.0

    async def run(self) -> None:
        """Refresh periodically, until cancelled."""
        while True:
            try:
                await self._refresh(self._generation)
            except Exception:
                log.exception("Cannot refresh a snapshot of the cluster; trying again at the next interval")
            await asyncio.sleep(max(self._seconds, self._cost / self._share))

    async def _refresh(self, generation: int) -> None:
        async with self._lock:
            if self._generation != generation and not self._is_stale:
                return  # another one has refreshed it, after the cluster was changed
            changes, started = self._changes, time.monotonic()
            try:
                self._value, self.error = await self._load(), None
                self.loaded_at = time.time()
                self._cost = time.monotonic() - started
            except KafkaError as error:
                self.error = error
            self._loaded_changes = changes  # only now: until then, readers wait for the load
            self._generation += 1

    @property
    def _is_stale(self) -> bool:
        return self._loaded_changes < self._changes

    def invalidate(self) -> None:
        """Mark the snapshot as outdated, for example because the cluster was changed. The next `get` waits for a
        refresh.
        """
        self._changes += 1

    async def get(self, loop: asyncio.AbstractEventLoop) -> T:
        """Return the snapshot, after a refresh if there is none or if it is marked as outdated. May be called in any
        event loop. Raises the error of the refresh if there is no snapshot.
        """
        if self._value is None or self._is_stale:
            refresh = self._refresh(self._generation)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(refresh, loop))
        if self._value is None:
            raise self.error or KafkaTimeoutError("the cluster has not responded yet")
        return self._value

    async def get_recent(self, loop: asyncio.AbstractEventLoop) -> T:
        """Return a snapshot that is refreshed on demand, not at intervals.

        A snapshot that is older than the interval is refreshed. The caller waits for the refresh only if there is no
        snapshot, if it is older than `MAX_AGE_SECONDS`, or if the cluster was changed since.
        """
        age = time.time() - self.loaded_at
        if age > MAX_AGE_SECONDS:
            self.invalidate()
        elif self._value is not None and age > max(self._seconds, self._cost / self._share):
            asyncio.run_coroutine_threadsafe(self._refresh(self._generation), loop)
        return await self.get(loop)


class Collector:
    """Snapshots and samples of a cluster, from `start` to `stop`. Its methods may be called in any thread."""

    def __init__(
        self,
        configs: Mapping[str, Any],
        seconds: float = 5.0,
        share: float = BACKGROUND_SHARE,
        metric_pages: MetricPages | None = None,
    ) -> None:
        self._configs = configs
        self.metric_pages = metric_pages
        """The reader of the brokers' Prometheus metrics; None if no addresses are configured."""
        self._seconds = seconds
        self._share = share
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="ottla-collector", daemon=True)
        self._cluster = Refreshed(self._load_cluster, seconds, share)
        self._groups = Refreshed(self._load_groups, seconds, share)
        self._directories = Refreshed(self._load_directories, seconds, share)
        self._transactions = Refreshed(self._load_transactions, seconds, share)
        self._acls = Refreshed(self._load_acls, seconds, share)
        self._meter = RateMeter()
        self._viewed_topics: OrderedDict[str, None] = OrderedDict()
        self._viewed_groups: OrderedDict[str, None] = OrderedDict()
        self._admin: KafkaAdminClient | None = None
        self._main: asyncio.Task[None] | None = None
        self.rates = SampleRing()
        """Records per second by topic, and of all topics together under `TOTAL`."""
        self.lags = SampleRing()
        """The lag of groups by group id."""
        self._byte_meter = ByteMeter()
        self.byte_rates = SampleRing()
        """Bytes per second of topics and brokers."""
        self.rebalances = RecentRebalances()
        self.full_disks: list[FullDisk] = []
        self.offline_directories: list[OfflineDirectory] = []
        self.under_min_isr = 0
        """The number of partitions with fewer in-sync replicas than min.insync.replicas; 0 without metrics."""
        self.quota_usage: list[UsageRow] = []
        self.flushes: list[FlushRow] = []
        self.is_partial = False
        """Whether the cluster has more partitions than can be sampled, so that rates are incomplete."""

    def start(self) -> None:
        """Start the collector's thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the collector's thread."""
        self._loop.call_soon_threadsafe(lambda: self._main and self._main.cancel())
        self._thread.join(STOP_SECONDS)

    @property
    def error(self) -> KafkaError | None:
        """The error of the last refresh of brokers and topics; None if it succeeded."""
        return self._cluster.error

    @property
    def slow_reason(self) -> str:
        """The last known reason why the cluster may not respond: the error of the last refresh or, without one, the
        reason why connecting to a broker has been slow. Empty if there is neither. It may remain for a while after the
        cluster responds again.
        """
        reason = self._admin.connections.slow_reason if self._admin is not None else ""
        return str(self.error or reason or "")

    @property
    def loaded_at(self) -> float:
        """The time of the snapshot of brokers and topics, in seconds since 1970; 0 if there is none."""
        return self._cluster.loaded_at

    async def cluster(self) -> ClusterSnapshot:
        """Return the snapshot of brokers and topics."""
        return await self._cluster.get(self._loop)

    async def directories(self) -> list[DirectoryRow]:
        """Return the log directories. They are only read if a page shows them, because the response contains all
        replicas.
        """
        return await self._directories.get_recent(self._loop)

    async def transactions(self) -> TransactionList:
        """Return the transactional ids of all brokers, and the errors of brokers that have not listed theirs. They are
        listed only for pages.
        """
        return await self._transactions.get_recent(self._loop)

    async def acls(self) -> AclList:
        """Return the ACLs. They are listed only for pages."""
        return await self._acls.get_recent(self._loop)

    async def groups(self) -> dict[str, GroupRow]:
        """Return the groups by group id."""
        return await self._groups.get(self._loop)

    def invalidate(self) -> None:
        """Mark all snapshots as outdated because the cluster was changed. Their next readers wait for a refresh."""
        for snapshot in (self._cluster, self._groups, self._directories, self._transactions, self._acls):
            snapshot.invalidate()

    def view_topics(self, names: Iterable[str]) -> None:
        """Record that a page shows these topics. They are sampled before others."""
        _touch(self._viewed_topics, names)

    def view_groups(self, names: Iterable[str]) -> None:
        """Record that a page shows these groups. They are sampled before others."""
        _touch(self._viewed_groups, names)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._collect())
        try:
            self._loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _collect(self) -> None:
        async with KafkaAdminClient(self._configs) as admin, asyncio.TaskGroup() as tasks:
            self._admin = admin
            tasks.create_task(self._cluster.run())
            tasks.create_task(self._groups.run())
            tasks.create_task(self._sample(self._sample_rates))
            if self.metric_pages is not None:
                tasks.create_task(self._sample(partial(self._sample_metrics, self.metric_pages)))

    @property
    def _client(self) -> KafkaAdminClient:
        if self._admin is None:
            raise KafkaTimeoutError("the console is starting")
        return self._admin

    async def _load_cluster(self) -> ClusterSnapshot:
        description = await self._client.describe_cluster(LOAD_MS if self.loaded_at else FIRST_MS)
        return cluster_snapshot(description, await self._client.describe_topics(timeout_ms=LOAD_MS))

    async def _load_directories(self) -> list[DirectoryRow]:
        return await directory_rows(self._client, LOAD_MS)

    async def _load_transactions(self) -> TransactionList:
        failed: Errors = {}
        rows = await self._client.list_transactions(timeout_ms=LOAD_MS, errors=failed)
        return TransactionList(tuple(sorted(rows)), failed)

    async def _load_acls(self) -> AclList:
        try:
            return AclList(tuple(sorted(await self._client.describe_acls(None, LOAD_MS), key=_by_resource)), None)
        except SecurityDisabledError as error:
            return AclList((), error)

    async def _sample(self, sample: Callable[[ClusterSnapshot], Awaitable[None]]) -> None:
        while True:
            started = time.monotonic()
            try:
                snapshot = await self.cluster()
                started = time.monotonic()
                await sample(snapshot)
            except KafkaError as error:
                log.debug("Cannot sample rates or metrics of the cluster; trying again at the next interval: %s", error)
            except Exception:
                log.exception("Cannot sample rates or metrics of the cluster; trying again at the next interval")
            await asyncio.sleep(max(self._seconds, (time.monotonic() - started) / self._share))

    async def _sample_rates(self, snapshot: ClusterSnapshot) -> None:
        sampled: list[TopicPartition] = []
        viewed = [name for name in reversed(list(self._viewed_topics)) if name in snapshot.infos]
        for name in dict.fromkeys([*viewed, *snapshot.infos]):
            info = snapshot.infos[name]
            if len(sampled) + len(info.partitions) > MAX_SAMPLED_PARTITIONS:
                continue
            sampled += [TopicPartition(name, p.partition) for p in info.partitions if p.leader >= 0]
        self.is_partial = snapshot.partitions - snapshot.offline > len(sampled)
        listed = await self._client.list_offsets(
            dict.fromkeys(sampled, OffsetSpec.latest()), timeout_ms=LOAD_MS, errors={}
        )
        now = time.time()
        rates = self._meter.rates(now, {tp: entry.offset for tp, entry in listed.items()})
        if rates is not None:
            self.rates.append(now, {**rates, TOTAL: sum(rates.values())})

    async def _sample_metrics(self, metrics: MetricPages, _: ClusterSnapshot) -> None:
        now = time.time()
        pages = await metrics.read()
        rates = self._byte_meter.rates(now, pages, list(reversed(self._viewed_topics)))
        if rates is not None:
            self.byte_rates.append(now, rates)
        self.rebalances.update(now, pages)
        self.quota_usage = usage_of(pages)
        self.flushes = flush_rows(pages)
        self.full_disks = full_disks(pages)
        self.offline_directories = offline_directories(pages)
        self.under_min_isr = round(sum(s.value for page in pages.values() for s in samples_of(page, UNDER_MIN_ISR)))

    async def _load_groups(self) -> dict[str, GroupRow]:
        listed = await self._client.list_groups(timeout_ms=LOAD_MS, errors={})
        ids = {group.group_id for group in listed if group.group_type.lower() != "share"}
        viewed = [name for name in reversed(list(self._viewed_groups)) if name in ids]
        sampled = list(dict.fromkeys([*viewed, *sorted(ids)]))[:MAX_SAMPLED_GROUPS]
        lags = await self._sample_lags(sampled)
        self.lags.append(time.time(), {name: float(lag) for name, lag in lags.items()})
        return {
            g.group_id: GroupRow(g.group_id, g.state, g.group_type, g.protocol_type, lags.get(g.group_id))
            for g in listed
        }

    async def _sample_lags(self, group_ids: Iterable[str]) -> dict[str, int]:
        """Return the lag of each group over the sampled partitions. Groups without committed offsets in them are left
        out.
        """
        limit = asyncio.Semaphore(GROUP_REQUESTS)

        async def committed(group_id: str) -> tuple[str, Mapping[TopicPartition, OffsetAndMetadata]]:
            async with limit:
                try:
                    offsets = await self._client.list_consumer_group_offsets(group_id, timeout_ms=LOAD_MS, errors={})
                except KafkaError:
                    return group_id, {}  # for example, the group was deleted in the meantime
            return group_id, offsets

        by_group = dict(await asyncio.gather(*map(committed, group_ids)))
        # the end offsets are read after the committed offsets; in the other order, a group without lag could seem to be
        # ahead
        partitions = sorted({tp for offsets in by_group.values() for tp in offsets})[:MAX_SAMPLED_PARTITIONS]
        listed = await self._client.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest()), LOAD_MS, errors={})
        lags: dict[str, int] = {}
        for group_id, offsets in by_group.items():
            behind = [max(0, listed[tp].offset - entry.offset) for tp, entry in offsets.items() if tp in listed]
            if behind:
                lags[group_id] = sum(behind)
        return lags


async def lag_of(
    admin: KafkaAdminClient, committed: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float
) -> list[PartitionLag]:
    """Return the committed offset and the end offset of each partition; -1 for an end offset that is unknown."""
    listed = await admin.list_offsets(dict.fromkeys(committed, OffsetSpec.latest()), timeout_ms, errors={})
    return [
        PartitionLag(tp, entry.offset, listed[tp].offset if tp in listed else -1)
        for tp, entry in sorted(committed.items())
    ]


def _by_resource(acl: ACL) -> tuple[object, ...]:
    return *acl.resource_pattern, acl.principal, acl.host, acl.operation, acl.permission_type


def _touch(viewed: OrderedDict[str, None], names: Iterable[str]) -> None:
    for name in names:
        viewed[name] = None
        viewed.move_to_end(name)
    while len(viewed) > MAX_VIEWED:
        viewed.popitem(last=False)
