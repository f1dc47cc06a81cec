"""Fetch: return records, if possible as slices of log files that are sent without being read into memory.

The broker answers when `min_bytes` are available, after `max_wait_ms`, or at once in cases such as an error of a
partition. Partitions notify a waiting fetch of new data, so there is no polling. As in KIP-74, the first batch of the
first partition with data is returned even if it exceeds the limits. Up to version 3, batches are down-converted to
messages of format 0 or 1.

Followers read to the end of the log. Their fetch offset shows the leader which records they have. Consumers read up to
the high watermark, or with read_committed up to the last stable offset. From version 11 on they may read from
followers, and may be redirected to a nearer replica (KIP-392).

Records of tiered topics that are only in remote storage are read from there (KIP-405). Followers get
OFFSET_MOVED_TO_TIERED_STORAGE for them, and start where the leader's local log starts.

Requires READ on the topic. Followers need CLUSTER_ACTION on the cluster instead.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any
from uuid import UUID

from ottla import errors
from ottla.broker import leader_discovery
from ottla.broker.replica_selector import preferred_read_replica
from ottla.broker.request_context import RequestContext
from ottla.broker.request_parts import Merged
from ottla.broker.sessions import remote_reads
from ottla.broker.sessions.fetch_sessions import CachedPartition, FetchContext, PartitionKey
from ottla.broker.sessions.remote_reads import RemoteReadNeededError, RemoteReads
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.topic import LogConfig
from ottla.model import ACLOperation, TopicPartition
from ottla.page_cache import NotCachedError, cached_only, when_cached
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.protocol.wire import RecordData
from ottla.records import any_magic
from ottla.records.batch import MAGIC
from ottla.replication.leader_replica import FollowerFetch
from ottla.replication.partition import Partition
from ottla.security.acl import ResourceType
from ottla.storage.files import FileSlice
from ottla.storage.log import Log

READ_COMMITTED = 1
FOLLOWERS_SINCE = 11
"""The first version in which consumers may read from followers."""
FORMAT_1_SINCE = 2
BATCHES_SINCE = 4
ZSTD_SINCE = 10
LEADERS_SINCE = 12
TOPIC_IDS_SINCE = 13
ADDRESSES_SINCE = 16
READ_AT_ONCE = 256
"""Number of partitions that are read before other requests are processed."""
SHORTEST_PAUSE_SECONDS = 0.002
IDLE_FACTOR = 9
"""After reading too little data, a consumer's fetch does not read again for this many times as long as the reading has
taken, or until its timeout.
"""
Result = tuple[PartitionKey, CachedPartition, PartitionData]


class Budget:
    """The number of bytes of records that can still be added to one response."""

    __slots__ = ("is_empty", "left")

    def __init__(self, nbytes: int) -> None:
        self.left = nbytes
        self.is_empty = True
        """Whether nothing has been read yet. The first batch may exceed all limits."""

    def use(self, data: PartitionData) -> None:
        """Deduct the bytes that were read from a partition."""
        if data.records is not None and data.records.nbytes:
            self.is_empty = False
            self.left = max(0, self.left - data.records.nbytes)


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | Awaitable[FetchResponse]:
    """Return the response if it is available at once, otherwise an awaitable of it."""
    fetch_context = context.broker.fetch_sessions.context(request, context.version)
    fetch = Fetch(request, fetch_context, context)
    if len(fetch_context.partitions) > READ_AT_ONCE:
        return fetch.wait()
    budget = Budget(fetch.max_bytes)
    began = context.broker.clock.monotonic()
    results = fetch.read(fetch_context.partitions, budget)
    if fetch.is_disk_needed:
        return fetch.wait(results, budget)
    fetch.is_progress_recorded = True
    if request.max_wait_ms <= 0 or fetch.satisfied(results) or not fetch_context.partitions:
        return fetch.response(results)
    drop(results)
    fetch.watch(fetch_context.partitions)
    return fetch.wait(read_seconds=context.broker.clock.monotonic() - began)


class Fetch:
    """One fetch request in progress."""

    def __init__(self, request: FetchRequest, fetch_context: FetchContext, context: RequestContext) -> None:
        self._request = request
        self._fetch_context = fetch_context
        self._context = context
        self._broker = context.broker
        self._version = context.version
        self.max_bytes = min(request.max_bytes, context.broker.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self.max_bytes)
        self._missing = 0
        self._more = False
        self._cut_bytes = 0
        """The bytes that the limits would have allowed, but that whole batches could not fill. They count for
        `min_bytes`, because waiting would not add to the response. Kafka fills them with a part of a batch.
        """
        self._enough: asyncio.Event | None = None  # most fetches never wait
        self._watched: list[Partition] = []
        self._is_reading = False
        """Whether `_read_all` is reading. Data that arrives now may or may not be included."""
        state = request.replica_state
        self._replica_id, self._broker_epoch = (
            (request.replica_id, -1) if state is None else (state.replica_id, state.replica_epoch)
        )
        self._is_follower = self._replica_id >= 0  # -1 is a consumer, -2 one that compares replicas
        self._followed_at = float("-inf") if fetch_context.session is None else fetch_context.session.answered_at
        self._is_gone = False
        self._not_cached: list[tuple[int, PartitionKey, CachedPartition, NotCachedError | RemoteReadNeededError]] = []
        """Partitions whose data is not in the page cache, or only in remote storage, with their index in the results
        and the error that describes the missing data.
        """
        self.is_progress_recorded = False
        """Whether the partitions have recorded the follower's progress. They do so once per request."""
        self._may_follow = not self._is_follower or context.is_broker
        self._last_topic: tuple[UUID, ClusterImage | None, str | None] = ZERO_UUID, None, None
        """The last topic id that was looked up, the cluster image used, and the topic's name. Consecutive partitions
        usually have the same topic.
        """
        self._is_old = self._version < ZSTD_SINCE
        """Whether clients with this version of Fetch cannot read all batches."""
        topics = (
            () if self._is_follower else (topic for key, _ in fetch_context.partitions if (topic := self._topic(key)))
        )
        self._unauthorized = context.unauthorized_errors(ACLOperation.READ, ResourceType.TOPIC, topics)

    def read(self, partitions: Sequence[tuple[PartitionKey, CachedPartition]], budget: Budget) -> list[Result]:
        """Read these partitions, within the limits.

        Partitions whose data is not in the page cache, or only in remote storage, are left out. So are those that have
        nothing new for a follower with a fetch session.
        """
        results: list[Result] = []
        skips = self._is_follower and self._fetch_context.incremental and self._may_follow
        now = self._broker.clock.monotonic()
        with cached_only():
            for key, cached in partitions:
                if skips and cached.is_quiet(now, self._broker_epoch):
                    continue
                try:
                    data = self._read_one(key, cached, budget.left, budget.is_empty)
                except (NotCachedError, RemoteReadNeededError) as missing:
                    self._not_cached.append((len(results) + len(self._not_cached), key, cached, missing))
                    continue
                budget.use(data)
                results.append((key, cached, data))
        return results

    @property
    def is_disk_needed(self) -> bool:
        """Whether partitions were left out because their data is not in the page cache, or only in remote storage."""
        return bool(self._not_cached)

    async def _read_from_disk(self, results: list[Result], budget: Budget) -> list[Result]:
        """Read the partitions in `_not_cached`, and add them to the results.

        Workers read the data into the page cache first, or from remote storage.
        """
        missing, self._not_cached = self._not_cached, []
        remote = RemoteReads(self._broker)
        try:
            loads = [None if isinstance(error, RemoteReadNeededError) else error.load() for *_, error in missing]
            for load, (place, key, cached, error) in zip(loads, missing, strict=True):
                if load is not None:
                    await load
                if isinstance(error, RemoteReadNeededError):
                    data = await self._read_remote(remote, error, key, cached, budget)
                else:
                    read = functools.partial(self._read_one, key, cached, budget.left, budget.is_empty)
                    data = await when_cached(read)
                budget.use(data)
                results.insert(place, (key, cached, data))
        except BaseException:
            drop(results)
            raise
        return results

    async def _read_all(self) -> list[Result]:
        """Read all partitions. If there are many, other requests are processed in between."""
        partitions, budget = self._fetch_context.partitions, Budget(self.max_bytes)
        results: list[Result] = []
        assert self._enough is not None
        self._enough.clear()
        self._cut_bytes = 0
        self._is_reading = True
        try:
            for begin in range(0, len(partitions), READ_AT_ONCE):
                if begin:
                    await asyncio.sleep(0)
                part = self.read(partitions[begin : begin + READ_AT_ONCE], budget)
                results += await self._read_from_disk(part, budget) if self._not_cached else part
        except BaseException:
            drop(results)
            raise
        finally:
            self._is_reading = False
        self.is_progress_recorded = True
        return results

    def satisfied(self, results: list[Result]) -> bool:
        """Return whether the request can be answered now. If not, compute the number of missing bytes."""
        size = 0
        for _, _, data in results:
            if data.error_code or data.diverging_epoch is not None or data.preferred_read_replica >= 0:
                return True
            size += data.records.nbytes if data.records is not None else 0
        self._missing = self._min_bytes - size - self._cut_bytes
        return self._missing <= 0 or self._more

    async def wait(
        self, results: list[Result] | None = None, budget: Budget | None = None, read_seconds: float | None = None
    ) -> FetchResponse:
        """Wait until the request can be answered, the timeout has passed, or the client has disconnected.

        Return the response.

        `results`: the partitions that were read within `budget`, if others were left out (see `read`).

        `read_seconds`: the time that reading all partitions took, if `watch` was called right after it. Then they are
        not read again before a notification or the timeout.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._request.max_wait_ms / 1000
        try:
            if read_seconds is not None:
                await self._rest_after_read(read_seconds, deadline)
            elif self._request.max_wait_ms > 0:
                await self._watch_all()
            else:
                self.watch(())
            while True:
                began = loop.time()
                if results is None or budget is None:
                    results = await self._read_all()
                else:
                    results, budget = await self._read_from_disk(results, budget), None
                    self.is_progress_recorded = True
                now = loop.time()
                if self._is_gone or self.satisfied(results) or now >= deadline:
                    return await self._respond(results)
                drop(results)
                await self._rest_after_read(now - began, deadline)
        finally:
            if not self._is_gone:
                self._context.connection.on_close.remove(self._on_gone)
            self._unwatch()

    async def _rest_after_read(self, seconds: float, deadline: float) -> None:
        pause = 0.0 if self._is_follower else IDLE_FACTOR * seconds
        await self._rest(min(deadline, asyncio.get_running_loop().time() + pause), deadline)

    def watch(self, partitions: Iterable[tuple[PartitionKey, CachedPartition]]) -> None:
        """Register for notifications of new data in the partitions, and of the end of the connection, which ends the
        registrations even if `wait` never runs.
        """
        if self._enough is None:
            self._enough = asyncio.Event()
            self._context.connection.on_close.append(self._on_gone)
        for item in partitions:
            partition = self._partition(item)
            if partition is not None:
                self._watched.append(partition)
                partition.watch(self._on_news, appends=self._is_follower)

    async def _watch_all(self) -> None:
        """Register for notifications of all partitions. If there are many, other requests are processed in between."""
        partitions = self._fetch_context.partitions
        self.watch(partitions[:READ_AT_ONCE])
        for begin in range(READ_AT_ONCE, len(partitions), READ_AT_ONCE):
            await asyncio.sleep(0)
            self.watch(partitions[begin : begin + READ_AT_ONCE])

    def _unwatch(self) -> None:
        for partition in self._watched:
            partition.unwatch(self._on_news)
        self._watched.clear()

    async def _rest(self, earliest: float, deadline: float) -> None:
        """Wait for a notification, at most until `deadline`. Then wait until `earliest`, so that reading does not use
        all the time of the event loop.
        """
        assert self._enough is not None
        loop = asyncio.get_running_loop()
        timer = loop.call_at(deadline, self._enough.set)
        try:
            await self._enough.wait()
        finally:
            timer.cancel()
        pause = earliest - loop.time()
        if pause > SHORTEST_PAUSE_SECONDS and not self._is_gone:
            await asyncio.sleep(pause)

    def _on_gone(self) -> None:
        self._is_gone = True
        self._unwatch()
        if self._enough is not None:
            self._enough.set()

    async def _respond(self, results: list[Result]) -> FetchResponse:
        """Build the response. If there are many partitions, other requests are processed in between."""
        if len(results) <= READ_AT_ONCE:
            return self.response(results)
        try:
            whole = self.response(results[:READ_AT_ONCE])
            merged = Merged(whole, joined=1)
            for begin in range(READ_AT_ONCE, len(results), READ_AT_ONCE):
                await asyncio.sleep(0)
                merged.add(self.response(results[begin : begin + READ_AT_ONCE]))
        except BaseException:
            drop(results)
            raise
        return whole

    def response(self, results: list[Result]) -> FetchResponse:
        """Build the response with all results; in an incremental fetch session, only with those that have changed."""
        session = self._fetch_context.session
        if session is not None:
            session.answered_at = self._broker.clock.monotonic()
        self._count(results)
        if self._is_follower:
            self._count_throttled(results)
        if self._fetch_context.incremental and session is not None:
            results = [r for r in results if r[1].news(r[2])]
        elif session is not None:
            for _, cached, data in results:
                cached.news(data)
        if session is not None:
            for key, _, data in results:
                if data.records is not None and data.records.nbytes:
                    session.served(key)
        topics: list[FetchableTopicResponse] = []
        last = None
        for key, _, data in results:
            if last != (last := key[:2]):  # tuples compare ids by identity first
                topics.append(FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id))
            topics[-1].partitions.append(data)
        response = FetchResponse(session_id=self._fetch_context.session_id, responses=topics)
        return response if self._is_follower or self._version < LEADERS_SINCE else self._with_leaders(response)

    def _with_leaders(self, response: FetchResponse) -> FetchResponse:
        """Add the current leaders of partitions that this broker does not lead (KIP-951)."""
        names = self._broker.image.names
        failed = (
            (TopicPartition(topic.topic or names.get(topic.topic_id, ""), data.partition_index), data)
            for topic in response.responses
            for data in topic.partitions
            if data.error_code
        )
        leaders = leader_discovery.add_current_leaders(
            self._context, failed, lambda i, epoch: LeaderIdAndEpoch(leader_id=i, leader_epoch=epoch)
        )
        if self._version >= ADDRESSES_SINCE:
            response.node_endpoints = [
                NodeEndpoint(node_id=n.id, host=n.host, port=n.port, rack=n.rack) for n in leaders
            ]
        return response

    def _on_news(self, gained: int) -> None:
        self._missing -= gained
        # a small transaction marker may make many records readable for read_committed consumers
        committed = self._request.isolation_level == READ_COMMITTED
        if (self._missing <= 0 or gained == 0 or committed or self._is_reading) and self._enough is not None:
            self._enough.set()

    def _partition(self, item: tuple[PartitionKey, CachedPartition]) -> Partition | None:
        if item[1].partition is not None:
            return item[1].partition
        try:
            return self._find(item[0])
        except errors.KafkaError:
            return None

    def _topic(self, key: PartitionKey) -> str | None:
        """Return the name of a topic; None for an unknown topic id."""
        if self._version < TOPIC_IDS_SINCE:
            return key.topic
        topic_id, image, name = self._last_topic
        current = self._broker.image
        if key.topic_id is not topic_id or image is not current:
            name = None if key.topic_id == ZERO_UUID else current.names.get(key.topic_id)
            self._last_topic = key.topic_id, current, name
        return name

    def _find(self, key: PartitionKey) -> Partition:
        broker, topic = self._broker, self._topic(key)
        if not self._may_follow or topic in self._unauthorized:
            raise errors.TopicAuthorizationFailedError
        if topic is None:
            raise errors.UnknownTopicIdError
        if not topic:
            raise errors.UnknownTopicOrPartitionError
        tp = TopicPartition(topic, key.partition)
        if self._is_follower or self._version < FOLLOWERS_SINCE:
            return broker.partitions.leader(broker.image, tp)
        return broker.partitions.readable(broker.image, tp)

    def _read_one(self, key: PartitionKey, cached: CachedPartition, left: int, first: bool) -> PartitionData:
        request = cached.request
        try:
            partition = self._find(key)
            partition.check_epoch(request.current_leader_epoch)
            log = partition.log
            if request.last_fetched_epoch >= 0:
                diverging = self._diverging(partition, request)
                if diverging is not None:
                    return _of(log, key, diverging_epoch=diverging)
            size = min(left, request.partition_max_bytes)
            if self._is_follower:
                return self._read_for_follower(partition, key, cached, size, first)
            if self._request.rack_id:
                elsewhere = preferred_read_replica(self._broker, partition, self._request.rack_id, request.fetch_offset)
                if elsewhere >= 0:
                    return _of(log, key, preferred_read_replica=elsewhere)
            committed = self._request.isolation_level == READ_COMMITTED
            if self._is_old:
                self._check_known(log.config)
            if self._broker.remote_log is not None:
                remote_reads.check_is_local(self._broker, partition, request.fetch_offset)
            data: RecordData = partition.read(request.fetch_offset, size, committed_only=committed, at_least_one=first)
            # a read ends at the end of a segment: if there is a later one, more data is available at once
            if request.fetch_offset < log.segments[-1].base_offset and data.nbytes:
                self._more = True
            aborted = _aborted(log, request.fetch_offset, data.nbytes) if committed else None
            if data.is_cut and data.nbytes:
                self._cut_bytes += max(0, size - data.nbytes)
            if self._version < BATCHES_SINCE:
                data = self._in_old_format(partition, data, request.fetch_offset, size, committed=committed)
        except errors.KafkaError as error:
            return _failed(key, error)
        return _of(log, key, data, aborted_transactions=aborted)

    async def _read_remote(
        self,
        remote: RemoteReads,
        needed: RemoteReadNeededError,
        key: PartitionKey,
        cached: CachedPartition,
        budget: Budget,
    ) -> PartitionData:
        """Read a partition from remote storage. There are no records if it does not answer in time."""
        partition, offset = needed.partition, needed.offset
        size, first = min(budget.left, cached.request.partition_max_bytes), budget.is_empty
        committed = self._request.isolation_level == READ_COMMITTED
        try:
            data, transactions = await remote.read(
                partition, offset, size, at_least_one=first, committed_only=committed
            )
            while self._version < BATCHES_SINCE and data:
                *_, (last, _, _) = any_magic.split(data)
                data = memoryview(self._down_converted(bytes(data), offset))
                if data:
                    break
                offset = last.next_offset  # the batches had only transaction markers
                data, _ = await remote.read(partition, offset, size, at_least_one=True, committed_only=committed)
        except errors.KafkaError as error:
            return _failed(key, error)
        self._more = self._more or bool(data)
        aborted = [AbortedTransaction(producer_id=t.producer_id, first_offset=t.first_offset) for t in transactions]
        return _of(partition.log, key, data, aborted_transactions=aborted if committed else None)

    def _read_for_follower(
        self, partition: Partition, key: PartitionKey, cached: CachedPartition, size: int, first: bool
    ) -> PartitionData:
        log, request = partition.log, cached.request
        if self._is_held_back(partition):
            size, first = 0, False
        data = partition.read_to_end(request.fetch_offset, size, at_least_one=first)
        if not self.is_progress_recorded:
            try:
                cached.follower = partition.leader_replica.on_fetch(
                    FollowerFetch(
                        self._replica_id,
                        self._broker_epoch,
                        request.current_leader_epoch,
                        request.fetch_offset,
                        request.log_start_offset,
                        self._followed_at,
                    )
                )
            except errors.KafkaError:
                data.release()
                raise
        cached.partition = partition
        if (
            partition.leader_replica.needs_confirmation
            and self._fetch_context.session
            and self._replica_id in partition.image.isr
        ):
            self._more = True  # the follower's next fetch confirms the leadership
        return _of(log, key, data)

    def _is_held_back(self, partition: Partition) -> bool:
        """Return whether the follower is throttled and the replication quota is exceeded.

        Replicas in the ISR are never throttled.
        """
        if not partition.throttled_leader or self._replica_id in partition.image.isr:
            return False
        return self._broker.partitions.leader_quota.is_exceeded(self._broker.clock.monotonic())

    def _count(self, results: list[Result]) -> None:
        """Count the fetches and bytes in the topics' statistics."""
        topic_stats = self._broker.partitions.topic_stats
        last: PartitionKey | None = None
        for key, _, data in results:
            if last is None or key.topic is not last.topic or key.topic_id is not last.topic_id:
                stats, last = topic_stats.get(key.topic or self._topic(key)), key
            stats.fetch_requests += 1
            if data.error_code:
                stats.failed_fetch_requests += 1
            elif data.records is None:
                pass
            elif self._is_follower:
                stats.replication_bytes_out += data.records.nbytes
            else:
                stats.bytes_out += data.records.nbytes

    def _count_throttled(self, results: list[Result]) -> None:
        """Count the bytes sent to throttled replicas."""
        now, quota = self._broker.clock.monotonic(), self._broker.partitions.leader_quota
        for _, cached, data in results:
            read = cached.partition
            if read is None or data.records is None or not read.throttled_leader:
                continue
            if self._replica_id not in read.image.isr:
                quota.record(data.records.nbytes, now)

    def _check_known(self, config: LogConfig) -> None:
        if self._version < ZSTD_SINCE and config.compression_type == "zstd":
            raise errors.UnsupportedCompressionTypeError(f"reading zstd requires version {ZSTD_SINCE} of Fetch")
        if config.message_format > self._format and not config.message_downconversion_enable:
            raise errors.UnsupportedVersionError("the topic's message.downconversion.enable is false")

    @property
    def _format(self) -> int:
        """The newest message format that clients of this version can read."""
        return MAGIC if self._version >= BATCHES_SINCE else 1 if self._version >= FORMAT_1_SINCE else 0

    def _down_converted(self, batches: bytes, offset: int) -> bytes:
        from ottla.records.conversion import down_converted  # only old clients need it

        return down_converted(batches, self._format, offset)

    def _in_old_format(
        self, partition: Partition, data: FileSlice, offset: int, size: int, *, committed: bool
    ) -> memoryview:
        """Down-convert batches.

        Control batches are skipped, because the client would fetch them again and again if the result were empty.
        """
        while data.nbytes:
            with data:
                content = data.read()
            began = time.perf_counter()
            converted = self._down_converted(content, offset)
            partition.topic_stats.fetch_conversions += 1
            topic_stats = self._broker.partitions.topic_stats
            topic_stats.fetch_conversion_times.record(time.perf_counter() - began)
            topic_stats.fetch_conversion_bytes += len(converted)
            if converted:
                return memoryview(converted)
            *_, (last, _, _) = any_magic.split(content)
            offset = last.next_offset
            data = partition.read(offset, size, committed_only=committed, at_least_one=True)
        return memoryview(b"")

    def _diverging(self, partition: Partition, request: FetchPartition) -> EpochEndOffset | None:
        """Return where the reader's log diverges from this log (KIP-595); None if it does not, or this is unknown."""
        log = partition.log
        if request.last_fetched_epoch > log.leader_epochs.latest:
            return None  # this log has no records of that epoch, so the follower cannot have diverging ones
        epoch, end = log.end_offset_for_epoch(request.last_fetched_epoch)
        if epoch < 0 or (epoch == request.last_fetched_epoch and end >= request.fetch_offset):
            return None
        return EpochEndOffset(epoch=epoch, end_offset=end)


def _failed(key: PartitionKey, error: errors.KafkaError) -> PartitionData:
    """Return the response for a partition that cannot be read."""
    return PartitionData(
        partition_index=key.partition, error_code=errors.code_of(error), high_watermark=-1, records=memoryview(b"")
    )


def _of(log: Log, key: PartitionKey, records: RecordData | None = None, **more: Any) -> PartitionData:
    """Return the response for a partition: its offsets, and the records if there are any."""
    return PartitionData(
        partition_index=key.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        # a new view each time, because it is released if the response is not sent
        records=memoryview(b"") if records is None else records,
        **more,
    )


def _aborted(log: Log, offset: int, nbytes: int) -> list[AbortedTransaction]:
    """Return the aborted transactions within the data that is returned."""
    if not nbytes:
        return []
    until = min(log.offset_after(offset, nbytes), log.last_stable_offset)
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in log.aborted_transactions(offset, until)
    ]


def drop(results: list[Result]) -> None:
    """Release the records of a response that will not be sent."""
    for _, _, data in results:
        if data.records is not None:
            data.records.release()
