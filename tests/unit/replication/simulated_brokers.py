"""Replication between brokers in one process: logs, roles, fetchers, and Fetch between them without sockets.

The controller is a dictionary: it elects in-sync replicas, and accepts ISR updates like Kafka's. Its decisions reach
each broker after a delay of its own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from tests.unit.replication.virtual_loop import Inline, LoopClock, VirtualDisk

from ottla.broker.handlers import fetch, list_offsets
from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.fetch_sessions import FetchSessions
from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.cluster.interbroker.membership_proof import MEMBER
from ottla.config.broker.listener_config import Endpoint
from ottla.config.topic import LogConfig
from ottla.errors import (
    BrokerConnectionError,
    FencedLeaderEpochError,
    InvalidUpdateVersionError,
    RequestTimedOutError,
)
from ottla.model import TopicPartition
from ottla.protocol.message import decode, encode
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.replication.alter_partition_manager import AlterPartitionManager
from ottla.replication.fetcher import FetchOptions, ReplicaFetcherManager
from ottla.replication.partition import Partition
from ottla.replication.partitions import Partitions
from ottla.replication.replication_quota import ReplicationQuota
from ottla.storage.append_writer import AppendWriter
from ottla.storage.log_dir import LogDir

TOPIC_ID = UUID(int=7)
TP = TopicPartition("t", 0)
LAG_SECONDS = 2.0


class Broker:
    """One broker from start to kill."""

    def __init__(self, brokers: Brokers, broker_id: int) -> None:
        self.id = broker_id
        self.brokers = brokers
        self.clock = LoopClock()
        self.image = ClusterImage("c")
        path = brokers.data / str(broker_id)
        self.disk = VirtualDisk(brokers.random)
        writer = AppendWriter(path, self.disk.clock, self.disk) if brokers.has_slow_disks else None
        self.log_dir = LogDir.open(path, broker_id=broker_id, clock=self.clock, writer=writer)
        self.log_dir.load(lambda tp: brokers.config)
        quota = ReplicationQuota()
        self.fetchers = ReplicaFetcherManager(broker_id, self, lambda: 1, FetchOptions(timeout_ms=3000), quota)
        self.changes = AlterPartitionManager(broker_id, self, lambda: self.image, brokers.alter)
        self.partitions = Partitions(
            broker_id,
            [self.log_dir],
            Inline(),
            lambda _, configs: brokers.config,
            lambda _, configs: brokers.min_isr,
            isr_updates=self.changes,
            followers=self.fetchers,
            follower_quota=quota,
            lag_seconds=LAG_SECONDS,
        )
        self.context: Any = SimpleNamespace(
            fetch_sessions=FetchSessions(100, self.clock.monotonic),
            config=SimpleNamespace(fetch_max_bytes=10**7, replica_selector_class=None),
            partitions=self.partitions,
            clock=self.clock,
            broker_id=broker_id,
            authorizer=None,
            in_cluster=True,
            remote_log=None,
        )
        self.alive = True
        self.published_at = 0.0
        """The time at which the last image arrives."""
        self._checks = asyncio.ensure_future(self._check_isr())

    async def _check_isr(self) -> None:
        while True:
            await asyncio.sleep(LAG_SECONDS / 2)
            for partition in self.partitions:
                partition.leader_replica.check_isr()

    async def apply_image(self, image: ClusterImage) -> None:
        before, self.image = self.image, replace(image, controller_id=self.id)
        self.context.image = self.image
        await self.partitions.on_image_changed(before, self.image)

    @property
    def partition(self) -> Partition | None:
        return self.partitions.get(TP)

    async def send(self, broker_id: int, request: Any, version: int, *, timeout: float, purpose: str = "") -> Any:
        frame = bytearray()
        encode(request, version, frame)
        decoded: Any = decode(type(request), memoryview(frame), version)
        await self.brokers.travel(self.id, broker_id, timeout)
        other = self.brokers.live[broker_id]
        call = request_context(other.context, version)
        handler: Any = fetch if isinstance(decoded, FetchRequest) else list_offsets
        result = handler.handle(decoded, call)
        response = await result if isinstance(result, Awaitable) else result
        if isinstance(response, FetchResponse):
            _read(response)
        await self.brokers.travel(broker_id, self.id, timeout)
        return response

    def kill(self) -> None:
        """Kill the broker: what was written stays, what was only in memory is lost."""
        self.alive = False
        self._checks.cancel()
        self.fetchers.close()
        self.changes.close()
        for partition in self.partitions:
            partition.close()
        self.log_dir.take_offline("killed")
        self.log_dir.close()


def request_context(context: Any, version: int) -> RequestContext:
    """Return the context of a request."""
    connection: Any = SimpleNamespace(peer="127.0.0.1:5000", state={MEMBER: True}, on_close=[])
    return RequestContext(context, connection, version, "")


class Brokers:
    """All brokers, their connections, and the controller."""

    def __init__(self, data: Path, seed: int = 0, ids: tuple[int, ...] = (0, 1, 2), min_isr: int = 2) -> None:
        self.data = data
        self.min_isr = min_isr
        self.has_slow_disks = False
        self.random = random.Random(seed)
        self.config = LogConfig(segment_bytes=4000, index_interval_bytes=100)
        self.ids = ids
        self.state = PartitionImage(ids[0], 0, ids, ids)
        self.live: dict[int, Broker] = {}
        self.disconnected: set[int] = set()
        """Ids of brokers without connections."""
        self._notices: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        for i in self.ids:
            self.live[i] = Broker(self, i)
            await self.live[i].apply_image(self.image)

    @property
    def image(self) -> ClusterImage:
        topic = TopicImage("t", TOPIC_ID, (self.state,))
        endpoint = (Endpoint("PLAINTEXT", "h", 1),)
        brokers = {i: BrokerImage(i, endpoint, epoch=1) for i in self.live}
        return ClusterImage("c", brokers=brokers, topics={"t": topic}, names={TOPIC_ID: "t"})

    @property
    def leader(self) -> Broker | None:
        broker = self.live.get(self.state.leader)
        return broker if broker is not None and broker.partitions.get_leader(TP) is not None else None

    async def travel(self, source: int, target: int, timeout: float) -> None:
        await asyncio.sleep(self.random.uniform(0.0001, 0.005))
        if {source, target} & self.disconnected:
            await asyncio.sleep(timeout)
            raise RequestTimedOutError("disconnected")
        if target not in self.live or source not in self.live:
            raise BrokerConnectionError(f"broker {target} is dead")

    def publish(self) -> None:
        """Send the state to every broker that is alive, after random delays; each receives the states in order."""
        for broker in self.live.values():
            task = asyncio.ensure_future(self._publish(broker, self.image))
            self._notices.add(task)
            task.add_done_callback(self._notices.discard)

    async def _publish(self, broker: Broker, image: ClusterImage) -> None:
        now = asyncio.get_running_loop().time()
        broker.published_at = max(broker.published_at, now + self.random.uniform(0, 0.1))
        await asyncio.sleep(broker.published_at - now)
        if broker.alive:
            await broker.apply_image(image)

    async def alter(
        self, broker_id: int, tp: TopicPartition, image: PartitionImage, isr: tuple[int, ...], epochs: Mapping[int, int]
    ) -> PartitionImage:
        await self.travel(broker_id, broker_id, 1)
        state = self.state
        if image.leader_epoch != state.leader_epoch:
            raise FencedLeaderEpochError
        if isr == state.isr:
            return state
        if image.state_version != state.state_version:
            raise InvalidUpdateVersionError
        self.state = replace(state, isr=isr, state_version=state.state_version + 1)
        self.publish()
        await self.travel(broker_id, broker_id, 1)
        return self.state

    def elect(self, unusable: tuple[int, ...] = ()) -> None:
        """Elect another leader from the in-sync replicas that are alive, if there is one."""
        state = self.state
        candidates = [i for i in state.isr if i in self.live and i not in self.disconnected and i not in unusable]
        isr = tuple(i for i in state.isr if i in self.live) if candidates else state.isr
        leader = self.random.choice(candidates) if candidates else -1
        self.state = replace(
            state, leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr, state_version=state.state_version + 1
        )
        self.publish()

    def kill(self, broker_id: int) -> None:
        self.live.pop(broker_id).kill()
        if self.state.leader == broker_id:
            self.elect()

    async def restart(self, broker_id: int) -> None:
        self.live[broker_id] = Broker(self, broker_id)
        await self.live[broker_id].apply_image(self.image)
        if self.state.leader < 0:
            self.elect()

    async def settle(self) -> None:
        """Wait until all replicas are in sync, and equal."""
        async with asyncio.timeout(600):
            while not self._settled():
                if self.state.leader < 0:
                    self.elect()
                await asyncio.sleep(0.5)

    def _settled(self) -> bool:
        if set(self.state.isr) != set(self.ids) or self.leader is None:
            return False
        partitions = [b.partition for b in self.live.values()]
        ends = {(p.log.log_end_offset, p.high_watermark) for p in partitions if p is not None}
        return len(ends) == 1 and len(partitions) == len(self.ids)

    def close(self) -> None:
        for broker in self.live.values():
            broker.kill()


def content(partition: Partition) -> bytes:
    """Return the bytes of a log below its high watermark."""
    log = partition.log
    broker = bytearray()
    for header, data in log.batches_from(log.log_start_offset):
        if header.next_offset <= partition.high_watermark:
            broker += data
    return bytes(broker)


def _read(response: FetchResponse) -> None:
    for topic in response.responses:
        for data in topic.partitions:
            records: Any = data.records
            if records is not None and not isinstance(records, memoryview):
                data.records = memoryview(bytes(records.read()))
                records.release()
