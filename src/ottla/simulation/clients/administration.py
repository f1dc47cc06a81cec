"""Workloads that change topics while records are written to them, for example by reassignment, recreation, config
changes, deletion of records, or leader elections.

Each `TopicWorkload` has a separate topic, to which it writes numbered records. At the end, it usually
compares the records in the log with those that were acknowledged.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from ottla import aio
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.client.admin.topics.partitions import ElectionType
from ottla.client.admin.topics.topics import NewTopic
from ottla.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import ORDERED, UNCLEAN, History
from ottla.simulation.workloads import CLOCK, PARTITIONS, RETRY_SECONDS, Workload

PAUSE_SECONDS: Final = 4.0
MAX_RECORDS: Final = 8
SETTLE_SECONDS: Final = 60.0
"""Time in seconds within which an accepted change must be complete once the cluster has recovered."""
KEYS: Final = 5
FLIP_SECONDS: Final = 0.3


class TopicWorkload(Workload):
    """Writes to a topic, changes it until the faults have ended, and checks it at the end. The topic has one
    partition.
    """

    TOPIC: ClassVar[str]
    REPLICAS: ClassVar[int] = 3
    CONFIGS: ClassVar[dict[str, str | None]] = {}

    def __init__(self, cluster: SimulatedCluster, history: History) -> None:
        super().__init__(cluster.world, self.TOPIC, cluster.bootstrap_servers, history)
        self.cluster = cluster
        self.tp = TopicPartition(self.TOPIC, 0)
        self.admin = aio.KafkaAdminClient(**self.options)
        self.next = 0
        self.acked: dict[int, int] = {}
        """The offsets of the acknowledged records, by their numbers."""

    async def run(self) -> None:
        await self.admin.start()
        await self.create()
        producer = self.producer()
        await producer.start()
        while not self.is_stopping:
            await self.write(producer)
            if not self.history.calm.is_set():
                try:
                    await self.change()
                except KafkaError as error:
                    self.world.note(self.name, f"change failed: {error}")
            await self.rest(PAUSE_SECONDS)
        await producer.close()
        for violation in await self.check():
            self.history.violations.append(f"{self.TOPIC}: {violation}")
        await self.admin.close()

    def producer(self) -> aio.KafkaProducer:
        return aio.KafkaProducer(clock=CLOCK, **self.options, acks="all", delivery_timeout_ms=30_000)

    async def create(self) -> None:
        """Create the topic, with retries, unless an earlier attempt whose response was lost has created it."""
        while True:
            try:
                await self.admin.create_topics([NewTopic(self.TOPIC, 1, self.REPLICAS, None, self.CONFIGS)])
                return
            except TopicAlreadyExistsError:
                return
            except KafkaError:
                await asyncio.sleep(RETRY_SECONDS)

    def key(self, number: int) -> bytes | None:
        return None

    async def write(self, producer: aio.KafkaProducer) -> None:
        """Write up to MAX_RECORDS records, and wait for their results."""
        futures = {}
        for _ in range(self.rng.randint(1, MAX_RECORDS)):
            number, self.next = self.next, self.next + 1
            try:
                futures[number] = await producer.send(self.TOPIC, b"%d" % number, key=self.key(number), partition=0)
            except KafkaError:
                continue
        for number, future in futures.items():
            try:
                self.acked[number] = (await future).offset
            except KafkaError as error:
                self.world.note(self.name, f"{number} failed: {error}")

    async def change(self) -> None:
        """Change the topic at most once. Raises KafkaError if that fails, which is no violation."""
        raise NotImplementedError

    async def check(self) -> Sequence[str]:
        """Return the violations at the end of the run: acknowledged records that are not in the log."""
        return self.lost(await self.read())

    def lost(self, records: dict[int, int], start: int = 0) -> list[str]:
        """Return descriptions of the acknowledged records at offset `start` and above that are not at their offsets in
        `records`.
        """
        return [
            f"{number} was acked at offset {offset}, where the log has {records.get(offset)}"
            for number, offset in self.acked.items()
            if offset >= start and records.get(offset) != number
        ]

    async def read(self) -> dict[int, int]:
        """Return the numbers of all records in the log, by offset."""
        records: dict[int, int] = {}
        async with aio.KafkaConsumer(**self.options, auto_offset_reset="earliest", group_id=None) as consumer:
            consumer.assign([self.tp])
            consumer.seek_to_beginning(self.tp)
            (end,) = (await consumer.end_offsets([self.tp])).values()
            while await consumer.position(self.tp) < end:
                for record in (await consumer.poll(1000)).get(self.tp, []):
                    records[record.offset] = int(record.value)
        return records

    async def until(self, condition: Any, text: str) -> list[str]:
        """Wait until a condition is met, for SETTLE_SECONDS at most. Return an empty list, or one with `text` if it is
        not met by then.
        """
        for _ in range(int(SETTLE_SECONDS / RETRY_SECONDS)):
            if condition():
                return []
            await asyncio.sleep(RETRY_SECONDS)
        return [text]


class ReassignedTopic(TopicWorkload):
    """A topic with two replicas, which are reassigned to brokers chosen at random. At times a reassignment is
    cancelled, or the preferred leader is elected.
    """

    TOPIC = "reassigned"
    REPLICAS = 2

    async def change(self) -> None:
        if self.rng.random() < 0.5:
            await self.admin.elect_leaders(ElectionType.PREFERRED, [self.tp], 8000)
            return
        target = self.rng.sample(range(len(self.cluster.brokers)), self.REPLICAS)
        cancel = self.rng.random() < 0.2
        await self.admin.alter_partition_reassignments({self.tp: None if cancel else target}, 8000)

    async def check(self) -> Sequence[str]:
        wrong = list(self.lost(await self.read()))
        extra = "a broker has a log of a partition that it does not replicate"
        wrong += await self.until(self._are_replicas_only, extra)
        return wrong

    def _are_replicas_only(self) -> bool:
        for broker in self.cluster.brokers:
            if broker.context is None:
                return False
            partition = broker.context.image.partition(self.tp)
            has_log = broker.context.partitions.get(self.tp) is not None
            if partition is None or has_log != (broker.id in partition.replicas):
                return False
        return True


class RecreatedTopic(TopicWorkload):
    """A topic that is deleted and created again: the new topic must have none of the old records."""

    TOPIC = "recreated"

    async def change(self) -> None:
        if self.rng.random() < 0.5:
            return
        await self.admin.delete_topics([self.TOPIC], 8000)
        self.acked.clear()
        first = self.next
        await self.create()
        producer = self.producer()
        await producer.start()
        await self.write(producer)
        await producer.close()
        if min((await self.read()).values(), default=first) < first:
            self.history.violations.append(f"{self.TOPIC} has records of the topic that was deleted before")

    async def create(self) -> None:
        """Create the topic, with retries: the old one still exists while it is being deleted."""
        while True:
            try:
                await self.admin.create_topics([NewTopic(self.TOPIC, 1, self.REPLICAS)], wait_for_metadata=True)
                return
            except TopicAlreadyExistsError:
                if await self._is_described():
                    return
            except KafkaError:
                pass
            await asyncio.sleep(RETRY_SECONDS)

    async def _is_described(self) -> bool:
        try:
            return bool(await self.admin.describe_topics([self.TOPIC]))
        except KafkaError:
            return False

    async def check(self) -> Sequence[str]:
        try:
            await self.admin.delete_topics([self.TOPIC], 30_000)
        except UnknownTopicOrPartitionError:
            pass
        return await self.until(self._is_gone, "a broker still has the topic that was deleted")

    def _is_gone(self) -> bool:
        contexts = [broker.context for broker in self.cluster.brokers]
        return all(context and context.partitions.get(self.tp) is None for context in contexts)


class ConfiguredTopic(TopicWorkload):
    """A topic whose retention.ms changes. At the end, every broker must have the last value that was confirmed, or all
    of them another one whose request failed: as in Kafka, a broker that was cut off may still apply such a request
    later, after newer ones.
    """

    TOPIC = "configured"

    def __init__(self, cluster: SimulatedCluster, history: History) -> None:
        super().__init__(cluster, history)
        self.admin = aio.KafkaAdminClient(**self.options, retries=0)  # so that a value is sent only once
        self.last: str | None = None
        """The latest value that was confirmed; None if there is none."""
        self.unconfirmed: set[str] = set()
        """The values whose requests failed."""

    async def change(self) -> None:
        """Change the config, with retries, each with another value."""
        while not self.is_stopping:
            value = str(self.rng.randrange(10**9, 10**10))
            resource = ConfigResource(ConfigResourceType.TOPIC, self.TOPIC, {"retention.ms": value})
            try:
                await self.admin.incremental_alter_configs([resource])
                self.last = value
                return
            except KafkaError as error:
                self.world.note(self.name, f"change failed: {error}")
                self.unconfirmed.add(value)
                await asyncio.sleep(RETRY_SECONDS)

    async def check(self) -> Sequence[str]:
        wrong = list(self.lost(await self.read()))
        text = f"not every broker has retention.ms={self.last}, or the same value of a request that failed"
        return wrong + await self.until(self._agree, text)

    def _agree(self) -> bool:
        contexts = [broker.context for broker in self.cluster.brokers]
        values = {context and context.image.topics[self.TOPIC].configs.get("retention.ms") for context in contexts}
        return None not in contexts and len(values) == 1 and values <= {self.last, *self.unconfirmed}


class ShortenedTopic(TopicWorkload):
    """A topic whose records are deleted, by DeleteRecords and because of retention.bytes."""

    TOPIC = "shortened"
    CONFIGS: ClassVar[dict[str, str | None]] = {"segment.bytes": "1024", "retention.bytes": "8192"}
    deleted = 0
    """The highest offset up to which a confirmed request has deleted."""

    def __init__(self, cluster: SimulatedCluster, history: History) -> None:
        super().__init__(cluster, history)
        self.targets: set[int] = set()
        """The offsets of all requests. One that timed out may have moved the log start, too."""

    async def change(self) -> None:
        if not self.acked:
            return
        target = self.rng.choice(list(self.acked.values()))
        self.targets.add(target)
        (start,) = (await self.admin.delete_records({self.tp: target}, 8000)).values()
        self.deleted = max(self.deleted, target)
        if start < target:
            self.history.violations.append(f"{self.TOPIC}: deleted up to {target}, but the log starts at {start}")

    async def check(self) -> Sequence[str]:
        records = await self.read()
        start = min(records, default=max(self.acked.values(), default=-1) + 1)
        wrong = list(self.lost(records, start))
        if start < self.deleted and not any(broker.crashes for broker in self.cluster.brokers):
            wrong.append(f"offset {start} exists, although everything before {self.deleted} was deleted")
        is_by_retention = self.deleted < start and start not in self.targets
        if is_by_retention and sum(1 for offset in self.acked.values() if offset >= start) < MAX_RECORDS:
            wrong.append(f"the log starts at {start}: retention.bytes does not allow that")
        return wrong


class CompactedTopic(TopicWorkload):
    """A compacted topic: the last acknowledged record of each key, or a later one, stays."""

    TOPIC = "compacted"
    CONFIGS: ClassVar[dict[str, str | None]] = {
        "cleanup.policy": "compact",
        "segment.bytes": "1024",
        "min.cleanable.dirty.ratio": "0.01",
    }

    def key(self, number: int) -> bytes | None:
        return b"key-%d" % (number % KEYS)

    async def change(self) -> None:
        await asyncio.sleep(0)

    async def check(self) -> Sequence[str]:
        await asyncio.sleep(2 * PAUSE_SECONDS)
        last: dict[int, int] = {}
        for _, number in sorted((await self.read()).items()):
            last[number % KEYS] = number
        acked: dict[int, int] = {}
        for number in self.acked:
            acked[number % KEYS] = max(number, acked.get(number % KEYS, -1))
        return [
            f"key {key} is {last.get(key)}, although {number} was acked"
            for key, number in acked.items()
            if last.get(key, -1) < number
        ]


class MovedLogs(TopicWorkload):
    """A topic whose replicas move between the log directories of their brokers."""

    TOPIC = "moved"

    async def change(self) -> None:
        broker = self.rng.choice(self.cluster.brokers)
        replica = TopicPartitionReplica(self.TOPIC, 0, broker.id)
        await self.admin.alter_replica_log_dirs({replica: str(self.rng.choice(broker.log_dirs))}, 8000)


class UncleanTopic(TopicWorkload):
    """A topic whose out-of-sync replica may become the leader if no in-sync replica is alive.

    An acknowledged record may be lost, but only if such an election took place afterwards, if more than one broker
    considered itself the leader when the record was written, or if a broker lost power afterwards, whose replica may
    have been the only one in sync. The remaining records must be in order and without duplicates.
    """

    TOPIC = UNCLEAN
    REPLICAS = 2
    CONFIGS: ClassVar[dict[str, str | None]] = {
        "unclean.leader.election.enable": "true",
        "min.insync.replicas": "1",
    }

    def __init__(self, cluster: SimulatedCluster, history: History) -> None:
        super().__init__(cluster, history)
        self.written_at: dict[int, float] = {}
        """The virtual times at which the writes of records began, by record number; minus infinity if there was more
        than one leader then.
        """

    async def write(self, producer: aio.KafkaProducer) -> None:
        first, began = self.next, -math.inf if self._leaders() > 1 else self.now()
        await super().write(producer)
        self.written_at |= dict.fromkeys(range(first, self.next), began)

    def _leaders(self) -> int:
        """Return the number of brokers that consider themselves the leader."""
        contexts = (broker.context for broker in self.cluster.brokers)
        tp = TopicPartition(self.TOPIC, 0)
        return sum(context is not None and context.partitions.get_leader(tp) is not None for context in contexts)

    async def change(self) -> None:
        await asyncio.sleep(0)

    async def check(self) -> Sequence[str]:
        records = await self.read()
        numbers = [number for _, number in sorted(records.items())]
        wrong = [] if numbers == sorted(set(numbers)) else [f"{numbers} are duplicated or out of order"]
        last_loss = self._last_loss()
        self.acked = {number: offset for number, offset in self.acked.items() if self.written_at[number] > last_loss}
        return wrong + self.lost(records)

    def _last_loss(self) -> float:
        elections = [at for at, topic in self.world.partition_states.unclean_elections if topic == self.TOPIC]
        return max([*elections, *(broker.power_lost_at for broker in self.cluster.brokers)])


class FlippedLeaders(Workload):
    """Moves the leaders of the idempotent producers' topic away and back within seconds.

    The order of the replicas is changed, and the first one is then elected.
    """

    TOPIC = "flipped"

    def __init__(self, cluster: SimulatedCluster, history: History) -> None:
        super().__init__(cluster.world, self.TOPIC, cluster.bootstrap_servers, history)
        self.cluster = cluster
        self.admin = aio.KafkaAdminClient(**self.options)

    async def run(self) -> None:
        await self.admin.start()
        while not self.history.calm.is_set() and not self.is_stopping:
            tp = TopicPartition(ORDERED, self.rng.randrange(PARTITIONS))
            try:
                for first in self.rng.sample(range(len(self.cluster.brokers)), 2) * 2:
                    await self._lead(tp, first)
                    await self.pause(FLIP_SECONDS)
            except KafkaError as error:
                self.world.note(self.name, f"flip failed: {error}")
            await self.rest(PAUSE_SECONDS)
        await self.admin.close()

    async def _lead(self, tp: TopicPartition, first: int) -> None:
        others = [broker.id for broker in self.cluster.brokers if broker.id != first]
        await self.admin.alter_partition_reassignments({tp: [first, *others]}, 8000)
        await self.admin.elect_leaders(ElectionType.PREFERRED, [tp], 8000)


TOPIC_WORKLOADS: Final[tuple[type[TopicWorkload], ...]] = (
    ReassignedTopic,
    RecreatedTopic,
    ConfiguredTopic,
    ShortenedTopic,
    CompactedTopic,
    MovedLogs,
    UncleanTopic,
)
"""All subclasses of TopicWorkload."""
