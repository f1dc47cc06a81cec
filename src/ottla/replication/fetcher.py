"""Fetches the partitions that other brokers lead, in up to `num.replica.fetchers` tasks per leader.

The leader may hold a request back until it has new records. If another partition can be fetched meanwhile, the fetcher
abandons the request: it sends a new one over its other connection at once, and drops the late response. It has only
two connections, so it does not do this again until the leader has answered the abandoned request. When a response
arrives, each partition is checked again, because it may have another leader by then.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from ottla.backoff import ExponentialBackoff
from ottla.cluster.interbroker.client import RequestSender
from ottla.errors import KafkaError, OffsetMovedToTieredStorageError, UnknownServerError, for_code
from ottla.logs import limit_repeated_errors
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ottla.protocol.fetch_session import FetchLimits, FetchPosition, FetchSessionHandler
from ottla.protocol.messages.fetch import FetchResponse, ReplicaState
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.replication.follower import Follower, NextStep, describe
from ottla.replication.partition import Partition
from ottla.replication.replication_quota import ReplicationQuota
from ottla.replication.tiered_follower import AuxiliaryState, LeaderLocalStarts

log = logging.getLogger("ottla.replication")
failures_log = logging.getLogger("ottla.replication.failures")
limit_repeated_errors(failures_log)

FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 7
LEADER_BACKOFF_SECONDS = 0.05
"""The backoff in seconds after the first failed request to a leader.

It doubles with each consecutive failure, up to `replica.fetch.backoff.ms`.
"""
PARTITION_BACKOFF_SECONDS = 0.02
"""The backoff in seconds after a partition's first error. It doubles up to `replica.fetch.backoff.ms`.

It is short because a new leader often receives its role a moment after its followers.
"""
THROTTLE_CHECK_SECONDS = 1.0
"""Maximum time in seconds until the quota is checked again for throttled replicas, because its rate may have been
raised.
"""


class FetchOptions(NamedTuple):
    """The replica fetcher's configs: `replica.fetch.*`, `replica.socket.timeout.ms` and `num.replica.fetchers`."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    partition_max_bytes: int = 1024 * 1024
    max_bytes: int = 10 * 1024 * 1024
    backoff_ms: int = 1000
    timeout_ms: int = 30_000
    fetchers: int = 1


class ReplicaFetcher:
    """Fetches from one leader, in one task. Not thread-safe: event loop only."""

    def __init__(
        self,
        own_id: int,
        leader: int,
        number: int,
        sender: RequestSender,
        epoch: Callable[[], int],
        options: FetchOptions,
        quota: ReplicationQuota,
        auxiliary_state: Callable[[], AuxiliaryState | None],
    ) -> None:
        self._own_id = own_id
        self._leader = leader
        self._number = number
        self._sender = sender
        self._epoch = epoch
        self._options = options
        self._quota = quota
        self._auxiliary_state = auxiliary_state
        self._local_starts = LeaderLocalStarts(
            own_id, leader, sender, options.timeout_ms / 1000, f"fetch-{number}-tiered"
        )
        self._followers: dict[TopicPartition, Follower] = {}
        self._session = FetchSessionHandler()
        self._partition_added = asyncio.Event()
        """Set when there is a partition to fetch that is not in the request in flight."""
        self._woken: asyncio.Future[None] | None = None
        """Completed when the request in flight has ended, or such a partition was added."""
        self._connection = 0
        self._abandoned: asyncio.Future[FetchResponse] | None = None
        backoff_max = options.backoff_ms / 1000
        self._backoff = ExponentialBackoff(LEADER_BACKOFF_SECONDS, backoff_max)
        self._partition_backoff = ExponentialBackoff(PARTITION_BACKOFF_SECONDS, backoff_max)
        self._failures = 0
        self._task: asyncio.Task[None] | None = None
        self._waiting: set[asyncio.Task[None]] = set()
        """The tasks that wait for the disk or remote storage, for single partitions."""

    def __len__(self) -> int:
        return len(self._followers)

    def __iter__(self) -> Iterator[Follower]:
        return iter(self._followers.values())

    def get(self, tp: TopicPartition) -> Follower | None:
        return self._followers.get(tp)

    def add(self, partition: Partition) -> None:
        """Start to fetch a partition in its current leader epoch. The first one starts the task."""
        self._followers[partition.topic_partition] = Follower(partition)
        self._on_partition_added()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def _on_partition_added(self) -> None:
        self._partition_added.set()
        if self._woken is not None:
            _complete(self._woken)

    def remove(self, tp: TopicPartition) -> None:
        self._followers.pop(tp, None)

    def close(self) -> None:
        """Cancel the task, and the waits for disk or remote storage. The response to a request in flight is dropped."""
        for task in (self._task, self._abandoned, *self._waiting):
            if task is not None:
                task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch_once()
            except KafkaError as error:
                await self._back_off(error)
            except Exception as error:
                # a bug with one leader must not stop replication from it
                log.exception("Unexpected error while fetching from broker %d; retrying", self._leader)
                await self._back_off(UnknownServerError(str(error)))

    async def _fetch_once(self) -> None:
        """Fetch all partitions that are due and ready, and apply the response unless the request was abandoned. Wait if
        no partition is due and ready.
        """
        self._partition_added.clear()
        now = asyncio.get_running_loop().time()
        if self._quota.is_exceeded(now):
            self._delay_throttled(min(self._quota.available_at, now + THROTTLE_CHECK_SECONDS))
        due = {f.tp: f for f in self._followers.values() if f.due <= now and f.is_ready and f.is_current}
        if not due:
            await self._wait(min((f.due for f in self._followers.values() if f.due > now), default=now + 60.0) - now)
            return
        positions = {}
        for tp, follower in due.items():
            positions[tp] = follower.requested = follower.fetch_position()
        response = await self._fetch(positions)
        if response is None:
            return
        if not self._session.handle_response(response):
            raise for_code(response.error_code)
        self._failures = 0
        await self._apply_response(response, due)

    def _delay_throttled(self, until: float) -> None:
        """Delay the next fetch of throttled replicas to `until` or later. In-sync replicas are never throttled."""
        for follower in self._followers.values():
            if self._is_throttled(follower):
                follower.due = max(follower.due, until)

    def _is_throttled(self, follower: Follower) -> bool:
        return follower.partition.throttled_follower and self._own_id not in follower.partition.image.isr

    async def _fetch(self, positions: dict[TopicPartition, FetchPosition]) -> FetchResponse | None:
        """Send a fetch request, and return the response; None if the request was abandoned for another partition."""
        options = self._options
        terms = FetchLimits(
            max_wait_ms=options.wait_max_ms,
            min_bytes=options.min_bytes,
            max_bytes=options.max_bytes,
            partition_max_bytes=options.partition_max_bytes,
            replica=ReplicaState(replica_id=self._own_id, replica_epoch=self._epoch()),
        )
        request, _ = self._session.request(positions, terms)
        timeout = (options.timeout_ms + options.wait_max_ms) / 1000
        purpose = f"fetch-{self._number}-{self._connection}"
        fetch = asyncio.ensure_future(
            self._sender.send(self._leader, request, FETCH_VERSION, timeout=timeout, purpose=purpose)
        )
        self._woken = asyncio.get_running_loop().create_future()
        fetch.add_done_callback(functools.partial(_complete, self._woken))
        try:
            await self._woken
            if fetch.done() or not self._can_abandon():
                return await fetch
            self._abandon(fetch)
            return None
        except BaseException:
            fetch.cancel()
            self._session.restart()
            raise

    def _can_abandon(self) -> bool:
        return self._abandoned is None or self._abandoned.done()

    def _abandon(self, fetch: asyncio.Future[FetchResponse]) -> None:
        """Abandon a request, and use the fetcher's other connection from now on.

        The leader handles the requests of a connection one after the other, so a new request on the same connection
        would wait.
        """
        fetch.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._abandoned = fetch
        self._connection = 1 - self._connection
        self._session.restart()

    async def _apply_response(self, response: FetchResponse, requested: dict[TopicPartition, Follower]) -> None:
        names: dict[UUID, str] = {}
        if (
            response.responses
        ):  # hashes of topic ids take time, and responses for thousands of partitions are often empty
            names = {f.partition.topic_id: tp.topic for tp, f in requested.items()}
        for topic in response.responses:
            for data in topic.partitions:
                tp = TopicPartition(names.get(topic.topic_id, topic.topic), data.partition_index)
                follower = requested.get(tp)
                if follower is None or self._followers.get(tp) is not follower or not follower.is_current:
                    continue
                if follower.fetch_position() != follower.requested:
                    continue  # the log was truncated meanwhile
                try:
                    if data.records is not None and self._is_throttled(follower):
                        self._quota.record(data.records.nbytes, asyncio.get_running_loop().time())
                    await self._apply_next_step(follower, follower.apply(data))
                except KafkaError as error:
                    self._delay_partition(follower, error)
                except OSError as error:
                    follower.partition.fail(error)  # the log cannot be truncated; other partitions continue
        for follower in requested.values():
            if follower.has_truncated:
                follower.has_truncated = False
                await follower.partition.checkpoint_truncation()

    async def _apply_next_step(self, follower: Follower, then: NextStep) -> None:
        log_ = follower.partition.log
        if then is NextStep.AWAIT_IMAGE:
            follower.awaits_image = True
        elif then is NextStep.LIST_OFFSETS:
            start, end = [await self._list_offset(follower, time) for time in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)]
            if follower.is_current:
                follower.apply_range(start, end)
        elif then is NextStep.BUILD_AUXILIARY_STATE:
            # neither do other partitions wait for remote storage
            follower.awaits_remote = True
            self._start(self._build_auxiliary_state(follower))
        elif log_.written_end_offset < log_.log_end_offset:
            # partitions on other disks do not wait for this one
            follower.awaits_disk = True
            self._start(self._wait_for_disk(follower))
        else:
            await self._flush_if_required(follower)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _build_auxiliary_state(self, follower: Follower) -> None:
        """Restart a follower's log at or after its leader's local log start, with the state from remote storage."""
        tp, partition = follower.tp, follower.partition
        try:
            builder = self._auxiliary_state()
            if builder is None:
                raise OffsetMovedToTieredStorageError("remote.log.storage.system.enable is not set on this broker")
            start = await self._local_starts.request(tp, follower.epoch)
            if follower.is_current:
                log.info(
                    "%s: restarting the log at or after offset %d, where the leader's local log starts, with leader "
                    "epochs and producer state from remote storage",
                    tp,
                    start.offset,
                )
                await builder.build(partition, start)
                await partition.checkpoint_truncation()
        except KafkaError as error:
            self._delay_partition(follower, error)
        except OSError as error:
            partition.fail(error)
        finally:
            follower.awaits_remote = False
            self._on_partition_added()

    async def _wait_for_disk(self, follower: Follower) -> None:
        """Wait until a partition's queued writes are complete, so that it can be fetched again.

        A fetch must not report records that this replica does not have yet.
        """
        written = follower.partition.when_written()
        if written is not None:
            await asyncio.wait([written])
        await self._flush_if_required(follower)
        follower.awaits_disk = False
        self._on_partition_added()

    @staticmethod
    async def _flush_if_required(follower: Follower) -> None:
        log_ = follower.partition.log
        if log_.unflushed_messages >= log_.config.flush_messages:
            await follower.partition.flush()  # the next fetch reports to the leader that this replica has the records

    def _delay_partition(self, follower: Follower, error: KafkaError) -> None:
        now = asyncio.get_running_loop().time()
        delay = follower.delay(now, self._partition_backoff)
        level = logging.DEBUG if delay < self._options.backoff_ms / 1000 else logging.WARNING
        failures_log.log(
            level, "Cannot fetch %s from broker %d; retrying: %s", follower.tp, self._leader, describe(error)
        )

    async def _list_offset(self, follower: Follower, time: int) -> int:
        tp = follower.tp
        listed = ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=follower.epoch, timestamp=time)
        request = ListOffsetsRequest(
            replica_id=self._own_id, topics=[ListOffsetsTopic(name=tp.topic, partitions=[listed])]
        )
        response = await self._sender.send(
            self._leader,
            request,
            LIST_OFFSETS_VERSION,
            timeout=self._options.timeout_ms / 1000,
            purpose=f"fetch-{self._number}-{self._connection}",
        )
        result = response.topics[0].partitions[0]
        if result.error_code:
            raise for_code(result.error_code)
        return result.offset

    async def _back_off(self, error: KafkaError) -> None:
        """Log the failure of a request, and wait for the backoff, which grows with each consecutive failure."""
        delay = self._backoff.backoff(self._failures)
        log.log(
            logging.WARNING if self._failures == 0 else logging.DEBUG,
            "Cannot fetch from broker %d; retrying in %.2f s: %s",
            self._leader,
            delay,
            describe(error),
        )
        self._failures += 1
        await asyncio.sleep(delay)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._partition_added.wait()
        except TimeoutError:
            pass


def _complete(woken: asyncio.Future[None], _: object = None) -> None:
    if not woken.done():
        woken.set_result(None)


class ReplicaFetcherManager:
    """All replica fetchers of this broker. Implements `FetcherManager`. Not thread-safe: event loop only."""

    def __init__(
        self,
        own_id: int,
        sender: RequestSender,
        epoch: Callable[[], int],
        options: FetchOptions,
        quota: ReplicationQuota,
        auxiliary_state: Callable[[], AuxiliaryState | None] = lambda: None,
    ) -> None:
        """`epoch`: returns the broker epoch of this broker's registration. `auxiliary_state`: returns the builder of
        followers' state from remote storage; None if there is no tiered storage.
        """
        self._auxiliary_state = auxiliary_state
        self._quota = quota
        self._own_id = own_id
        self._sender = sender
        self._epoch = epoch
        self._options = options
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._keys: dict[TopicPartition, tuple[int, int]] = {}
        self._closed = False

    def add(self, partition: Partition) -> None:
        """Start to fetch a partition from the leader that its image names, from the end of this replica's log.

        Do nothing if it is already being fetched in this leader epoch. Stop fetching it if the image names no other
        broker as the leader, or after `close`.
        """
        tp, leader = partition.topic_partition, partition.image.leader
        if leader < 0 or leader == self._own_id or self._closed:
            self.remove(tp)
            return
        key = leader, hash(tp) % self._options.fetchers
        if self._keys.get(tp) not in (None, key):
            self.remove(tp)
        fetcher = self._fetchers.get(key)
        follower = None if fetcher is None else fetcher.get(tp)
        if follower is not None and follower.partition is partition and follower.is_current:
            return  # only the replicas have changed
        if fetcher is None:
            fetcher = self._fetchers[key] = ReplicaFetcher(
                self._own_id,
                leader,
                key[1],
                self._sender,
                self._epoch,
                self._options,
                self._quota,
                self._auxiliary_state,
            )
        self._keys[tp] = key
        fetcher.add(partition)

    def remove(self, tp: TopicPartition) -> None:
        """Stop fetching a partition. Close its fetcher if it has no other partition."""
        key = self._keys.pop(tp, None)
        if key is None:
            return
        fetcher = self._fetchers[key]
        fetcher.remove(tp)
        if not len(fetcher):
            del self._fetchers[key]
            fetcher.close()

    @property
    def followers(self) -> list[Follower]:
        """The partitions that are being fetched."""
        return [follower for fetcher in self._fetchers.values() for follower in fetcher]

    def close(self) -> None:
        """Close all fetchers. Partitions that are added later are ignored."""
        self._closed = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._keys.clear()
