"""What both faces of the consumer share: the parts, and what has to happen between two polls. Runs on the loop.

`take` and `idle` are the exception: the blocking face calls them in its caller's thread, while nobody waits for the
loop. So a poll that finds records ready costs no change of threads.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.client.connections import Connections
from ottla.client.coordinator import Coordinator
from ottla.client.fetched import Fetched
from ottla.client.fetcher import Fetcher
from ottla.client.group_offsets import GroupOffsets
from ottla.client.io_thread import run_at_caller
from ottla.client.membership import LEAVE_SECONDS, Membership
from ottla.client.metadata import Cluster, Metadata, PartitionInfo
from ottla.client.offsets import OffsetLookup
from ottla.client.records import ConsumerRecord
from ottla.client.serializers import find
from ottla.client.subscription import RESETS, PartitionState, Subscription
from ottla.config.consumer import ConsumerConfig
from ottla.errors import (
    CorruptMessageError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
)
from ottla.model import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from ottla.records.column_decoder import MAX_OFFSET, ColumnDecoder
from ottla.records.columns import Columns

log = logging.getLogger("ottla.client")

Records = dict[TopicPartition, list[ConsumerRecord]]
Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, BaseException | None], Any]

_numbers = itertools.count(1)


class ConsumerCore:
    """The consumer without a face."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        number = next(_numbers)
        group = f"-{config.group_id}" if config.group_id else ""
        self.client_id = config.client_id or f"consumer{group}-{number}"
        self.key_deserializer = find(config.key_deserializer, "key_deserializer")
        self.value_deserializer = find(config.value_deserializer, "value_deserializer")
        self.subscription = Subscription()
        self.connections = Connections(config, self.client_id, lambda: self.metadata.cluster.nodes)
        self.metadata = Metadata(
            self.connections,
            max_age_ms=config.metadata_max_age_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            allow_auto_create=config.allow_auto_create_topics,
        )
        self.fetcher = Fetcher(config, self.connections, self.metadata, self.subscription)
        self.offsets = OffsetLookup(
            self.connections,
            self.metadata,
            isolation_level=1 if config.isolation_level == "read_committed" else 0,
            retry_backoff=config.retry_backoff_ms / 1000,
        )
        coordinator = Coordinator(config.group_id, self.connections, self.metadata, config.retry_backoff_ms / 1000)
        self.membership = Membership(config, coordinator, self.metadata, self.subscription)
        self.group_offsets = GroupOffsets(coordinator, self.membership)
        self.membership.before_revoke = self._commit_before_revoke
        self._auto_commit = config.enable_auto_commit and config.group_id is not None
        self._commit_interval = config.auto_commit_interval_ms / 1000
        self._next_commit = time.monotonic() + self._commit_interval
        self._commits: set[asyncio.Task[None]] = set()
        self._callbacks: deque[Callable[[], Any]] = deque()
        self._finding: asyncio.Task[None] | None = None
        self._current: Fetched | None = None
        self._unplaced = False
        """Some partition has no position: set with an assignment or a reset, cleared when all have one."""

    # The loop's side

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The consumer's place in its group. InvalidGroupIdError without a group."""
        self.require_group()
        member = self.membership
        return ConsumerGroupMetadata(
            str(self.config.group_id), member.generation, member.member_id, self.config.group_instance_id
        )

    async def start(self) -> None:
        """Begin to work."""
        self.metadata.listeners.append(self._new_cluster)
        self.metadata.start()
        self.fetcher.start()

    async def stop(self, timeout: float | None, auto_commit: bool) -> None:
        """Commit, leave the group, end all work, for at most `timeout` seconds."""
        deadline = time.monotonic() + (self.config.default_api_timeout_ms / 1000 if timeout is None else timeout)
        try:
            if auto_commit:
                await self._last_commit(deadline)
            if self.in_group:
                owned = set(self.subscription.partitions)
                if owned and self.membership.listener is not None:
                    await run_at_caller(self.membership.listener.on_partitions_revoked, owned)
                async with asyncio.timeout(max(0.1, min(LEAVE_SECONDS, deadline - time.monotonic()))):
                    await self.membership.leave()
        except (KafkaError, TimeoutError) as error:
            log.warning("while closing: %s", error)
        finally:
            self.membership.reset()
            tasks = [*self._commits, *([self._finding] if self._finding else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.fetcher.close()
            await self.metadata.close()
            await self.connections.close()

    async def _last_commit(self, deadline: float) -> None:
        if self._commits:
            await asyncio.wait(self._commits, timeout=max(0.0, deadline - time.monotonic()))
        if self._auto_commit:
            try:
                await self.group_offsets.commit(self.consumed(), deadline)
            except KafkaError as error:
                log.warning("the last offsets were not committed: %s", error)

    def _new_cluster(self, cluster: Cluster) -> None:
        if self.subscription.pattern is not None:
            self._match_pattern(cluster)
        if self.in_group:
            self.membership.metadata_changed()
        elif self.subscription.by_group:
            self._read_all(cluster)
        self.fetcher.arrived.set()

    def _read_all(self, cluster: Cluster) -> None:
        """A subscription without a group: every partition of the topics."""
        found = {
            TopicPartition(topic, p.partition)
            for topic in self.subscription.topics
            for p in cluster.partitions_of(topic)
        }
        if found != set(self.subscription.partitions):
            self.subscription.assign(sorted(found))

    def _match_pattern(self, cluster: Cluster) -> None:
        pattern = self.subscription.pattern
        assert pattern is not None
        internal = self.config.exclude_internal_topics
        self.subscription.topics = frozenset(
            name
            for name, info in cluster.topics.items()
            if pattern.search(name) and not (internal and info.is_internal)
        )

    # What the user asks for

    def follow_subscription(self) -> None:
        """The subscription has changed: ask for the metadata of its topics."""
        self.metadata.all_topics = self.subscription.pattern is not None
        self.metadata.set_topics(self.subscription.topics or {tp.topic for tp in self.subscription.partitions})
        if self.metadata.all_topics:
            self.metadata.request_update()
        self._unplaced = True
        self._drop_stale()

    def unsubscribe(self) -> None:
        """Read nothing."""
        self.subscription.unsubscribe()
        self._drop_stale()

    def _drop_stale(self) -> None:
        stay = [fetched for fetched in self.fetcher.completed if fetched.is_current]
        self.fetcher.completed.clear()
        self.fetcher.completed.extend(stay)
        if self._current is not None and not self._current.is_current:
            self._current = None

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on reading a partition at `offset`."""
        if offset < 0:
            raise ValueError(f"offset {offset} is not valid")
        self.subscription.state(tp).jump(offset)
        self._drop_stale()
        self.fetcher.wake()

    def reset(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Go on reading partitions at their begin (-2) or end (-1), found out at the next poll."""
        for tp in list(partitions) or list(self.subscription.partitions):
            self.subscription.state(tp).reset(timestamp)
        self._unplaced = True
        self._drop_stale()

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        """Stop or go on returning records of partitions."""
        for tp in partitions:
            self.subscription.state(tp).paused = paused
        self.fetcher.wake()

    # Polling

    def idle(self) -> bool:
        """Whether the loop is not needed before records can be taken (caller's thread)."""
        return not (
            self._unplaced
            or self._callbacks
            or self.fetcher.error is not None
            or (self._auto_commit and time.monotonic() >= self._next_commit)
            or (self.in_group and self.membership.has_work)
        )

    @property
    def in_group(self) -> bool:
        """Whether a group decides about the partitions."""
        return self.subscription.by_group and bool(self.config.group_id)

    async def prepare(self, timeout: float) -> bool:
        """Do what is due (join the group, find positions, commit) and wait until there is something to take.

        False when `timeout` seconds have brought nothing. Raises what poll() has to raise.
        """
        deadline = time.monotonic() + timeout
        while True:
            self.membership.last_poll = time.monotonic()
            self.fetcher.arrived.clear()
            await self._run_callbacks()
            self._raise_errors()
            joined = True
            if self.in_group:
                joined = await self.membership.ensure_joined(deadline)
            if self.subscription.version != self._seen_version:
                self._assignment_changed()
            self._commit_if_due()
            self._find_positions()
            self._drop_stale()
            self.fetcher.wake()
            if self._something_to_take():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if joined and not self.fetcher.arrived.is_set():
                await self._wait(left)

    _seen_version = 0

    def _assignment_changed(self) -> None:
        self._seen_version = self.subscription.version
        self._unplaced = True
        self._drop_stale()

    def _something_to_take(self) -> bool:
        current = [self._current] if self._current is not None else []
        return any(not fetched.state.paused for fetched in [*current, *self.fetcher.completed])

    async def _wait(self, left: float) -> None:
        """Until something arrives, or something is due."""
        if self._auto_commit:
            left = min(left, max(0.0, self._next_commit - time.monotonic()))
        if self.in_group and self.membership.has_work:
            return
        try:
            async with asyncio.timeout(min(left, 1.0)):
                await self.fetcher.arrived.wait()
        except TimeoutError:
            pass

    def _raise_errors(self) -> None:
        error, self.fetcher.error = self.fetcher.error, None
        if error is not None:
            raise error

    async def _run_callbacks(self) -> None:
        while self._callbacks:
            await run_at_caller(self._callbacks.popleft())

    # Positions

    def _find_positions(self) -> None:
        """Find out, beside the poll, where to read the partitions that have no position."""
        missing = [s for s in self.subscription.partitions.values() if s.position is None]
        self._unplaced = bool(missing)
        if missing and self._finding is None:
            self._finding = asyncio.get_running_loop().create_task(self._place(missing))

            def ended(task: asyncio.Task[None]) -> None:
                self._finding = None
                if not task.cancelled() and task.exception() is not None:
                    error = task.exception()
                    if isinstance(error, KafkaTimeoutError):
                        log.debug("positions: %s", error)
                    else:
                        self.fetcher.error = error if isinstance(error, KafkaError) else KafkaError(repr(error))
                self.fetcher.arrived.set()

            self._finding.add_done_callback(ended)

    async def _place(self, missing: Sequence[PartitionState]) -> None:
        """Positions from the group's offsets, and for those without one by auto.offset.reset."""
        timeout = self.config.default_api_timeout_ms / 1000
        generations = {state.tp: state.generation for state in missing}
        asked = [state for state in missing if state.reset_to is None]
        committed = {}
        if asked and self.config.group_id:
            deadline = time.monotonic() + timeout
            committed = await self.group_offsets.committed([state.tp for state in asked], deadline)
        policy = self.config.auto_offset_reset
        lookups: dict[TopicPartition, int] = {}
        for state in missing:
            offset = committed.get(state.tp)
            if state.reset_to is not None:
                lookups[state.tp] = state.reset_to
            elif offset is not None:
                self._placed(state, offset.offset, generations)
            elif policy in RESETS:
                lookups[state.tp] = RESETS[policy]
            else:
                raise NoOffsetForPartitionError(f"{state.tp} has no committed offset, and auto.offset.reset is none")
        if lookups:
            found = await self.offsets.lookup(lookups, timeout)
            for state in missing:
                if state.tp in found:
                    self._placed(state, found[state.tp].offset, generations)

    def _placed(self, state: PartitionState, offset: int, generations: Mapping[TopicPartition, int]) -> None:
        if state.generation == generations[state.tp]:
            state.position = offset
            state.fetch_from = offset
            state.reset_to = None

    async def position(self, tp: TopicPartition, timeout: float) -> int:
        """The next offset to be returned. KafkaTimeoutError when it cannot be found out in time."""
        deadline = time.monotonic() + timeout
        state = self.subscription.state(tp)
        while state.position is None:
            self._find_positions()
            left = deadline - time.monotonic()
            if left <= 0:
                raise KafkaTimeoutError(f"the position in {tp} is not known after {timeout:g} s")
            self.fetcher.arrived.clear()
            try:
                async with asyncio.timeout(left):
                    await self.fetcher.arrived.wait()
            except TimeoutError:
                continue
            self._raise_errors()
        self.fetcher.wake()
        return state.position

    # Taking (caller's thread, or the loop)

    def take(self, at_most: int, wake: Callable[[], Any]) -> Records:
        """Records that are here, `at_most` so many; positions move behind them. `wake` has the fetcher go on."""
        out: Records = {}
        left = at_most
        skipped: list[Fetched] = []
        try:
            while left > 0:
                fetched = self._next_fetched(skipped, wake)
                if fetched is None:
                    break
                try:
                    rows = fetched.take(left, self.key_deserializer, self.value_deserializer)
                except KafkaError:
                    if out:
                        break
                    raise
                fetched.state.position = fetched.position
                if not rows:
                    self._used_up(fetched, wake)
                    continue
                before = out.get(fetched.tp)
                if before is None:
                    out[fetched.tp] = rows
                else:
                    before += rows
                left -= len(rows)
        finally:
            self.fetcher.completed.extendleft(reversed(skipped))
        return out

    def take_columns(
        self, wake: Callable[[], Any], headers: bool, until: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Columns]:
        """Everything that is here, as columns; of partitions in `until` only what lies before that offset."""
        decoders: dict[TopicPartition, ColumnDecoder] = {}
        skipped: list[Fetched] = []
        while (fetched := self._next_fetched(skipped, wake)) is not None:
            decoder = decoders.setdefault(fetched.tp, ColumnDecoder(headers=headers))
            end = until.get(fetched.tp, MAX_OFFSET)
            while (found := fetched.next_header()) is not None:
                header, start = found
                if header.base_offset >= end:
                    break
                if not decoder.add_batch(fetched.data, start, header, fetched.position, end):
                    raise CorruptMessageError(f"{fetched.tp}: more than 2 GiB of keys or values in one poll")
            fetched.position = fetched.state.position = fetched.end_offset
            self._used_up(fetched, wake)
        self.fetcher.completed.extendleft(reversed(skipped))
        return {tp: decoder.take() for tp, decoder in decoders.items() if decoder.row_count}

    def _next_fetched(self, skipped: list[Fetched], wake: Callable[[], Any]) -> Fetched | None:
        """The one to take from; those of paused partitions are put into `skipped`, those that are stale dropped."""
        while True:
            fetched = self._current
            if fetched is None:
                if not self.fetcher.completed:
                    return None
                fetched = self._current = self.fetcher.completed.popleft()
            if not fetched.is_current:
                self._current = None
            elif fetched.state.paused:
                skipped.append(fetched)
                self._current = None
            else:
                return fetched

    def _used_up(self, fetched: Fetched, wake: Callable[[], Any]) -> None:
        state = fetched.state
        state.taken_bytes += fetched.nbytes
        self._current = None
        if state.held:
            state.held = False
            wake()

    # Committing

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions of all partitions."""
        return {
            tp: OffsetAndMetadata(state.position)
            for tp, state in self.subscription.partitions.items()
            if state.position is not None
        }

    def _commit_if_due(self) -> None:
        if self._auto_commit and time.monotonic() >= self._next_commit:
            self._next_commit = time.monotonic() + self._commit_interval
            if not self._commits:
                self.commit_async(self.consumed(), None)

    async def _commit_before_revoke(self) -> None:
        if self._auto_commit:
            try:
                await self.group_offsets.commit(self.consumed(), time.monotonic() + self._commit_interval + 1)
            except KafkaError as error:
                log.warning(
                    "group %s: offsets were not committed before the rebalance: %s", self.config.group_id, error
                )

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> asyncio.Task[None]:
        """Commit beside everything else; `callback(offsets, error)` is called by a later poll."""
        deadline = time.monotonic() + self.config.default_api_timeout_ms / 1000
        task = asyncio.get_running_loop().create_task(self.group_offsets.commit(offsets, deadline))
        self._commits.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._commits.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None:
                log.warning("group %s: offsets were not committed: %s", self.config.group_id, error)
            if callback is not None and not task.cancelled():
                self._callbacks.append(lambda: callback(offsets, error))

        task.add_done_callback(ended)
        return task

    # Asking

    async def topics(self, timeout: float) -> set[str]:
        """All topics that this client may see."""
        response = await self._all_metadata(timeout)
        return set(response)

    async def _all_metadata(self, timeout: float) -> dict[str, tuple[PartitionInfo, ...]]:
        before = self.metadata.all_topics
        self.metadata.all_topics = True
        try:
            cluster = await self.metadata.refresh(timeout)
        finally:
            self.metadata.all_topics = before
        return {name: info.partitions for name, info in cluster.topics.items()}

    async def partitions_for(self, topic: str, timeout: float) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic; none when it does not exist."""
        found = self.metadata.cluster.partitions_of(topic)
        if found:
            return found
        try:
            return (await self.metadata.wait_for_topic(topic, timeout)).partitions
        except KafkaTimeoutError:
            if self.metadata.error is not None:
                raise
            return ()

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after each time; None where no record is that late."""
        for tp, timestamp in times.items():
            if timestamp < 0:
                raise ValueError(f"{tp}: {timestamp} is no time in milliseconds since 1970")
        found = await self.offsets.lookup(times, timeout)
        return {tp: found[tp] if found[tp].offset >= 0 else None for tp in times}

    def require_group(self) -> None:
        """IllegalStateError for a consumer without a group."""
        if not self.config.group_id:
            raise IllegalStateError("this needs a group_id")
