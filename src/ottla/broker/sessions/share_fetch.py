"""Acquisition and acknowledgement of records of share partitions, for ShareFetch and ShareAcknowledge."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from ottla.broker import topic_creation
from ottla.broker.broker_context import BrokerContext
from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.remote_reads import RemoteReadNeededError, RemoteReads, check_is_local
from ottla.broker.sessions.share_sessions import SessionKey
from ottla.cluster.store import config_entities
from ottla.config.group import EARLIEST, LATEST, READ_COMMITTED, GroupConfig
from ottla.config.options import BY_DURATION, duration_ms
from ottla.coordinator.share_partition.share_partition import (
    AcknowledgedRange,
    AcknowledgeType,
    RecordRange,
    SharePartition,
)
from ottla.coordinator.share_partition.share_state_records import ShareKey
from ottla.errors import (
    InvalidRecordStateError,
    KafkaError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
    code_of,
)
from ottla.model import SHARE_GROUP_STATE, ACLOperation, TopicIdPartition, TopicPartition
from ottla.page_cache import when_cached
from ottla.protocol.messages.share_acknowledge import AcknowledgementBatch
from ottla.records.batch import BatchHeader, split
from ottla.replication.partition import Partition
from ottla.replication.topic_stats import TopicStats
from ottla.security.acl import ResourceType
from ottla.storage.txn_index import AbortedTransaction

READ_BYTES = 1 << 20
"""Maximum number of bytes that one read of a partition returns, except for a single larger batch."""


class Acquired(NamedTuple):
    """Whole batches (`data`), and the ranges of their records that the member has acquired (`runs`)."""

    data: bytes
    runs: list[RecordRange]


ONLY_ABORTED = Acquired(b"", [])
"""The result of `acquire` if it has only skipped records of aborted transactions, and more records may follow.

Let other tasks run, then call `acquire` again.
"""


class Batches(NamedTuple):
    """Whole batches of a partition, and the aborted transactions that may have records in them."""

    data: bytes
    aborted: Sequence[AbortedTransaction] = ()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether the records of a batch belong to one of the transactions in `aborted`."""
        return header.is_transactional and any(
            aborted.producer_id == header.producer_id
            and aborted.first_offset <= header.base_offset < aborted.last_offset
            for aborted in self.aborted
        )


class SharePartitionReader:
    """One member's access to the partitions of its session."""

    def __init__(self, context: RequestContext, key: SessionKey) -> None:
        self._context = context
        self._broker = context.broker
        self._group_id, self._member_id = key
        self._failed: dict[TopicIdPartition, KafkaError] = {}
        """Errors of partitions that could not be loaded."""
        options = self._options()
        self._committed_only = options.share_isolation_level == READ_COMMITTED
        self._renews = options.share_renew_acknowledge_enable
        self._remote: dict[tuple[Partition, int], Batches] = {}
        """Batches that were read from remote storage, by partition and the offset from which they were read."""

    def partition(self, tip: TopicIdPartition) -> Partition:
        """Return the partition; raise if it is unknown, unauthorized, or led by another broker."""
        name = self._broker.image.names.get(tip.topic_id)
        if name is None:
            raise UnknownTopicIdError
        self._context.require(ACLOperation.READ, ResourceType.TOPIC, name)
        return self._broker.partitions.leader(self._broker.image, TopicPartition(name, tip.partition))

    async def ready(self) -> None:
        """Create the topic `__share_group_state` if it does not exist."""
        if SHARE_GROUP_STATE not in self._broker.image.topics:
            await topic_creation.create_internal(self._broker, SHARE_GROUP_STATE)

    async def load(self, tips: Iterable[TopicIdPartition]) -> None:
        """Load the state of partitions in the group.

        The start offset of a new one follows from the group's share.auto.offset.reset. A failure is raised later, by
        `shared`.
        """
        await asyncio.gather(*(self._load(tip) for tip in tips))

    async def _load(self, tip: TopicIdPartition) -> None:
        self._failed.pop(tip, None)
        try:
            partition = self.partition(tip)
            await self._broker.share_partitions.load(self._key(tip), partition, partial(self._first_start, partition))
        except KafkaError as error:
            self._failed[tip] = error

    async def _first_start(self, partition: Partition) -> int:
        """Return the start offset of a partition that is new to the group, according to share.auto.offset.reset.

        With by_duration, it is the end of the partition if no record is young enough.
        """
        log, policy = partition.log, self._options().share_auto_offset_reset
        if policy == EARLIEST:
            return log.log_start_offset
        if policy == LATEST:
            return log.high_watermark
        timestamp = max(self._broker.clock.now_ms() - duration_ms(policy.removeprefix(BY_DURATION)), 0)
        entry, remote_log = None, self._broker.remote_log
        if remote_log is not None and log.log_start_offset < log.local_log_start_offset:
            seconds = self._broker.config.remote_list_offsets_request_timeout_ms / 1000
            entry = await remote_log.offset_for_time(partition, timestamp, seconds)
        if entry is None:
            entry = await when_cached(partial(log.offset_for_time, timestamp))
        return log.high_watermark if entry is None else min(entry.offset, log.high_watermark)

    def shared(self, tip: TopicIdPartition) -> SharePartition:
        """Return the state of a partition in the group.

        Raises an error of `partition`, the error with which loading has failed, or NotLeaderOrFollowerError if the
        state is not loaded.
        """
        key, states = self._key(tip), self._broker.share_partitions
        log = self.partition(tip).log
        share_partition = states.get(key)
        if share_partition is None:
            raise self._failed.get(tip) or NotLeaderOrFollowerError(f"{key} is not loaded")
        if share_partition.start < log.log_start_offset:
            share_partition.archive_before(log.log_start_offset)
            states.write(key)
        return share_partition

    def acquire(self, tip: TopicIdPartition, max_bytes: int, max_records: int, *, strict: bool) -> Acquired | None:
        """Acquire available records; the last batch may exceed `max_records` unless `strict`.

        Return None if none can be acquired now, and ONLY_ABORTED if only records of aborted transactions were skipped.
        """
        shared, partition = self.shared(tip), self.partition(tip)
        offset = shared.next_offset
        batches = None if shared.is_full else self._read(partition, offset, max_bytes)
        if batches is None:
            return None
        acquired = self._acquire(tip, shared, batches, max_records, strict=strict)
        return ONLY_ABORTED if acquired is None and shared.next_offset != offset else acquired

    def _read(self, partition: Partition, offset: int, max_bytes: int) -> Batches | None:
        """Return batches from the one that contains `offset` on; None if there are none yet."""
        log, committed_only = partition.log, self._committed_only
        if offset >= (log.last_stable_offset if committed_only else partition.high_watermark):
            return None
        batches = self._remote.pop((partition, offset), None)
        if batches is not None:
            return batches
        check_is_local(self._broker, partition, offset)
        size = min(max_bytes, READ_BYTES)
        with partition.read(offset, size, committed_only=committed_only, at_least_one=True) as file_slice:
            data = file_slice.read()
        if not committed_only or not data:
            return Batches(data)
        until = min(log.offset_after(offset, len(data)), log.last_stable_offset)
        return Batches(data, log.aborted_transactions(offset, until))

    def _acquire(
        self, tip: TopicIdPartition, shared: SharePartition, batches: Batches, max_records: int, *, strict: bool
    ) -> Acquired | None:
        now = self._broker.clock.monotonic()
        runs: list[RecordRange] = []
        archived: list[int] = []
        first, last, count = -1, 0, 0
        for header, start, end in split(batches.data):
            if count >= max_records:
                break
            if batches.is_aborted(header):
                archived += shared.archive(header.base_offset, header.last_offset)
                continue
            most = max_records - count if strict else header.last_offset - header.base_offset + 1
            taken = shared.acquire(self._member_id, header.base_offset, header.last_offset, most, now)
            if taken:
                runs += taken
                first, last = (start if first < 0 else first), end
                count += sum(run.last - run.first + 1 for run in taken)
        if archived:
            self._broker.share_partitions.write(self._key(tip))
        if not runs:
            return None
        self._broker.share_partitions.schedule_lock_timeout(self._key(tip), now + shared.limits.lock_seconds)
        return Acquired(batches.data[first:last], _joined(runs))

    async def read_remote(self, needed: RemoteReadNeededError) -> bool:
        """Read from remote storage the records that `acquire` needs. Return whether any have arrived in time."""
        partition, offset = needed.partition, needed.offset
        try:
            data, aborted = await RemoteReads(self._broker).read(
                partition, offset, READ_BYTES, at_least_one=True, committed_only=self._committed_only
            )
        except KafkaError:
            return False  # logged; the member fetches again
        if data:
            self._remote[partition, offset] = Batches(bytes(data), aborted)
        return bool(data)

    async def acknowledge(self, tip: TopicIdPartition, batches: Sequence[AcknowledgementBatch]) -> int:
        """Apply and store acknowledgements. Returns the error code; 0 if successful."""
        stats = self.stats(tip)
        stats.share_acknowledgements += 1
        code = await self._acknowledge(tip, batches)
        stats.failed_share_acknowledgements += bool(code)
        return code

    def stats(self, tip: TopicIdPartition) -> TopicStats:
        """Return the counters of a partition's topic."""
        return self._broker.partitions.topic_stats.get(self._broker.image.names.get(tip.topic_id))

    async def _acknowledge(self, tip: TopicIdPartition, batches: Sequence[AcknowledgementBatch]) -> int:
        key, states = self._key(tip), self._broker.share_partitions
        try:
            self.partition(tip)
            shared = states.get(key)
            if shared is None:
                raise InvalidRecordStateError
            now = self._broker.clock.monotonic()
            ranges = [AcknowledgedRange(b.first_offset, b.last_offset, b.acknowledge_types) for b in batches]
            self._check_types(ranges)
            changed = shared.acknowledge(self._member_id, ranges, now)
            for batch in ranges:
                self._count(batch)
            states.schedule_lock_timeout(key, now + shared.limits.lock_seconds)  # some locks may have been renewed
            if changed:
                await states.write(key)
        except KafkaError as error:
            return code_of(error)
        return 0

    def _check_types(self, ranges: Sequence[AcknowledgedRange]) -> None:
        if self._renews or not any(AcknowledgeType.RENEW in batch.types for batch in ranges):
            return
        raise InvalidRecordStateError("Renewing acquisition locks is not enabled for the group.")

    def _count(self, batch: AcknowledgedRange) -> None:
        counts = self._broker.partitions.topic_stats.acknowledgements
        if len(batch.types) == 1:
            counts[batch.types[0]] += batch.last - batch.first + 1
        else:
            counts.update(batch.types)

    def release(self) -> None:
        """Release the records that the member has acquired, because its session has ended."""
        release(self._broker, SessionKey(self._group_id, self._member_id))

    async def wait_for_change(
        self, partitions: Iterable[TopicIdPartition], changed: asyncio.Event, seconds: float
    ) -> None:
        """Wait until one of the partitions may have records to acquire, `changed` is set, or `seconds` have passed."""
        changed.clear()
        logs, shares = [], []
        for tip in partitions:
            try:
                shares.append(self.shared(tip))
                logs.append(self.partition(tip))
            except KafkaError:
                continue  # reported in the response

        def wake(_gained: int = 0) -> None:
            changed.set()

        for log in logs:
            log.watch(wake)
        for share in shares:
            share.waiters[wake] = None
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            pass
        finally:
            for log in logs:
                log.unwatch(wake)
            for share in shares:
                share.waiters.pop(wake, None)

    def _options(self) -> GroupConfig:
        path = config_entities.entity(config_entities.GROUPS, self._group_id)
        return GroupConfig(self._broker.image.configs.get(path, {}))

    def _key(self, tip: TopicIdPartition) -> ShareKey:
        return ShareKey(self._group_id, tip.topic_id, tip.partition)


def release(broker: BrokerContext, key: SessionKey) -> None:
    """Release the records that a member has acquired, because its session has ended.

    If no member of the group has a session, also drop the group's states from memory.
    """
    broker.share_partitions.release(key.group_id, key.member_id)
    if not broker.share_sessions.has_group(key.group_id):
        broker.share_partitions.drop_group(key.group_id)


def _joined(runs: list[RecordRange]) -> list[RecordRange]:
    """Merge adjacent ranges with the same number of deliveries."""
    merged: list[RecordRange] = []
    for run in runs:
        if merged and merged[-1].last + 1 == run.first and merged[-1].delivered == run.delivered:
            merged[-1] = merged[-1]._replace(last=run.last)
        else:
            merged.append(run)
    return merged
