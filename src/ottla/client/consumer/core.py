"""The core of the synchronous and the asynchronous consumer: its parts, and the work of a poll. Not thread-safe: event
loop only.

`idle`, `next_records` and `next_columns` are exceptions: the synchronous consumer calls them in its caller's thread,
while no call is waiting for the event loop. A poll that finds fetched records therefore needs no switch of threads.
Methods that only read state may be called by any thread.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.client.consumer.fetch.fetch_buffer import FetchBuffer, Records
from ottla.client.consumer.fetch.fetch_metrics import FetchMetrics
from ottla.client.consumer.fetch.fetcher import Fetcher
from ottla.client.consumer.fetch.record_iterator import RecordIterator
from ottla.client.consumer.fetch.topic_errors import TopicErrors
from ottla.client.consumer.fetch.topic_metadata import TopicMetadataFetcher
from ottla.client.consumer.group.classic_membership import ClassicMembership
from ottla.client.consumer.group.consumer_membership import ConsumerMembership
from ottla.client.consumer.group.membership import LEAVE_SECONDS, GroupMembershipOperation, Membership
from ottla.client.consumer.interceptors import ConsumerInterceptors
from ottla.client.consumer.metrics import CoordinatorMetrics, PollMetrics
from ottla.client.consumer.offsets.committed_offsets import CommittedOffsets, Offsets
from ottla.client.consumer.offsets.leader_epochs import LeaderEpochs
from ottla.client.consumer.offsets.list_offsets import OffsetLookup
from ottla.client.consumer.offsets.offset_commits import CommitCallback, OffsetCommits
from ottla.client.consumer.offsets.positions import Positions
from ottla.client.consumer.poll_trigger import PollTrigger
from ottla.client.consumer.subscription import NO_EPOCH, PartitionState, Subscription, SubscriptionPattern
from ottla.client.consumer.wakeup import WakeupTrigger
from ottla.client.core.client_metrics import metrics_of
from ottla.client.core.connections import NOT_AUTHENTICATED, Connections
from ottla.client.core.coordinator import Coordinator
from ottla.client.core.interceptors import close_all
from ottla.client.core.metadata import Cluster, metadata_of, writable
from ottla.client.core.telemetry import telemetry_of
from ottla.client.serializers import find
from ottla.config.consumer import ConsumerConfig
from ottla.errors import IllegalStateError, KafkaError, UnsupportedVersionError
from ottla.model import LATEST_TIMESTAMP, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition, checked_offset
from ottla.net.client.channel_metrics import ChannelMetrics
from ottla.records.columns import Columns

log = logging.getLogger("ottla.client")

__all__ = ["CommitCallback", "ConsumerCore", "Offsets", "Records"]

LONGEST_WAIT: float = 1.0
"""Maximum time in seconds for which a poll waits for records before it checks again whether anything is due."""
LEAST_CLOSE_SECONDS: float = 0.1
"""Minimum of the time limit in seconds for leaving the group, even if close() has no time left."""

_numbers = itertools.count(1)


class ConsumerCore:
    """The parts and the logic of a consumer, without the public API."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        self.client_id = config.client_id or generated_client_id(config)
        self.subscription = Subscription()
        self.buffer = FetchBuffer(config.max_decompressed_batch_bytes)
        self.wakeup_trigger = WakeupTrigger()
        self.poll_trigger = PollTrigger()
        self.iteration = RecordIterator(self.subscription)
        self.is_started = False
        self._seen_version = 0
        self._authentication_error: KafkaError | None = None
        configs = {**config.originals, "client.id": self.client_id}
        self.key_deserializer = find(config.key_deserializer, "key_deserializer", configs)
        self.value_deserializer = find(config.value_deserializer, "value_deserializer", configs)
        self.interceptors = ConsumerInterceptors(config.interceptor_classes, configs)
        self.metrics = metrics_of(config, "consumer", self.client_id)
        try:
            self._connect()
            self._look_up()
            self._join()
            self._fetch()
        except BaseException:
            self.metrics.close()  # a reporter may have a thread
            raise

    def _connect(self) -> None:
        """Create the parts for brokers, metadata and telemetry."""
        config = self.config
        channels = ChannelMetrics(self.metrics, "consumer")
        self.connections = Connections(config, self.client_id, lambda: self.metadata.cluster.nodes, channels)
        self.metadata = metadata_of(config, self.connections, allow_auto_create=config.allow_auto_create_topics)
        self.topic_errors = TopicErrors(config, self.metadata, self.subscription)
        self.telemetry = telemetry_of(
            config.enable_metrics_push,
            self.connections,
            self.metadata,
            self.metrics,
            group_id=config.group_id,
            group_instance_id=config.group_instance_id,
            client_rack=config.client_rack,
        )

    def _look_up(self) -> None:
        """Create the metrics of polls and fetches, and the parts that look up offsets and topics."""
        config = self.config
        self.poll_metrics = PollMetrics(self.metrics)
        self.fetch_metrics = FetchMetrics(self.metrics, self._lag)
        self.offsets = OffsetLookup(
            self.connections,
            self.metadata,
            isolation_level=1 if config.isolation_level == "read_committed" else 0,
            retry_backoff=config.retry_backoff_ms / 1000,
        )
        self.topic_metadata = TopicMetadataFetcher(
            self.connections,
            self.offsets,
            allow_auto_create=config.allow_auto_create_topics,
            retry_backoff=config.retry_backoff_ms / 1000,
            done=self._retain_topics,
        )

    def _join(self) -> None:
        """Create the parts for the group."""
        config = self.config
        coordinator = Coordinator(
            config.group_id,
            self.connections,
            self.metadata,
            config.retry_backoff_ms / 1000,
            retry_backoff_max=config.retry_backoff_max_ms / 1000,
        )
        kind = ConsumerMembership if config.group_protocol == "consumer" else ClassicMembership
        self.membership: Membership = kind(
            config,
            coordinator,
            self.metadata,
            self.subscription,
            CoordinatorMetrics(self.metrics, lambda: len(self.subscription.partitions)),
            self.poll_trigger,
            before_revoke=lambda: self.commits.before_revoke(),
        )
        self.group_offsets = CommittedOffsets(coordinator, self.membership)
        self.commits: OffsetCommits = OffsetCommits(config, self.group_offsets, self.subscription, self.interceptors)

    def _fetch(self) -> None:
        """Create the parts for positions and fetches."""
        self.positions = Positions(
            self.config,
            self.subscription,
            self.metadata,
            self.group_offsets,
            self.offsets,
            LeaderEpochs(self.connections, self.metadata),
            self.poll_trigger,
        )
        self.fetcher = Fetcher(
            self.config,
            self.connections,
            self.metadata,
            self.subscription,
            self.positions,
            self.buffer,
            self.fetch_metrics,
            self.poll_trigger,
        )

    # Start and stop

    async def start(self) -> None:
        """Start the background task that refreshes the metadata."""
        self.is_started = True
        self.metadata.listeners.append(self._new_cluster)
        self.metadata.start()

    async def stop(
        self,
        timeout: float | None,
        auto_commit: bool,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Commit if both `auto_commit` and enable.auto.commit are set, leave the group and stop, within `timeout`
        seconds (None: default.api.timeout.ms). Raises the first error of the rebalance listener.

        A poll of another task raises IllegalStateError: otherwise it would join the group again.
        """
        self.membership.is_closing = True
        self.poll_trigger.set()
        deadline = time.monotonic() + (self.config.default_api_timeout_ms / 1000 if timeout is None else timeout)
        try:
            if auto_commit and self.commits.automatic:
                await self.membership.finish_rebalance(deadline - time.monotonic())
            await self.commits.commit_on_close(deadline, auto_commit)
            if self.in_group:
                await self._leave(operation, deadline)
        finally:
            await self._end()

    async def _leave(self, operation: GroupMembershipOperation, deadline: float) -> None:
        try:
            await self.membership.revoke_all()
        finally:
            try:
                async with asyncio.timeout(max(LEAST_CLOSE_SECONDS, min(LEAVE_SECONDS, deadline - time.monotonic()))):
                    await self.membership.leave(operation)
            except TimeoutError:
                log.warning(
                    "Leaving group %s was not confirmed in time; the broker removes the member after its session "
                    "timeout at the latest",
                    self.config.group_id,
                )

    async def _end(self) -> None:
        self.membership.reset()
        await self.commits.close()
        await self.fetcher.close()
        await self.positions.close()
        if self.telemetry is not None:
            await self.telemetry.close()
        await self.metadata.close()
        await self.connections.close()
        self.metrics.close()
        close_all(self.interceptors, self.key_deserializer, self.value_deserializer)

    # Metadata

    def _new_cluster(self, cluster: Cluster) -> None:
        if self.subscription.pattern is not None:
            self._match_pattern(cluster)
        self.topic_errors.metadata_updated()
        if self.in_group:
            self.membership.metadata_changed()
        elif self.subscription.has_subscription:
            self.positions.lacks_positions = True  # the next poll assigns new partitions, too
        self.poll_trigger.set()

    def _read_all(self, cluster: Cluster) -> None:
        """Assign all partitions of the subscribed topics. Used for a subscription without a group."""
        all_partitions = {
            TopicPartition(topic, p.partition)
            for topic in self.subscription.topics
            for p in cluster.partitions_of(topic)
        }
        if all_partitions != set(self.subscription.partitions):
            self.subscription.assign(sorted(all_partitions))

    def _match_pattern(self, cluster: Cluster) -> None:
        pattern = self.subscription.pattern
        assert pattern is not None
        internal = self.config.exclude_internal_topics
        self.subscription.topics = frozenset(
            name
            for name, info in cluster.topics.items()
            if pattern.search(name) and not (internal and info.is_internal)
        )

    # Calls of users

    def subscribe(self, topics: Iterable[str], pattern: Any, listener: Any) -> None:
        """Replace the subscription with topics or with a pattern."""
        names = topic_names(topics)
        if bool(names) == (pattern is not None):
            raise IllegalStateError("subscribe() takes either topics or a pattern; unsubscribe() ends a subscription")
        in_new_group = self.config.group_protocol == "consumer" and self.config.group_id
        if isinstance(pattern, SubscriptionPattern) and not in_new_group:
            raise UnsupportedVersionError("a SubscriptionPattern needs group.protocol=consumer and a group.id")
        if pattern is not None:
            self.subscription.subscribe_pattern(pattern)
        else:
            self.subscription.subscribe(names)
        self.membership.listener = listener
        self._update_metadata_topics()

    async def unsubscribe(self) -> None:
        """Leave the group (a static member stays in it), and clear the subscription or assignment."""
        try:
            if self.in_group:
                await self._leave(GroupMembershipOperation.DEFAULT, time.monotonic() + LEAVE_SECONDS)
        finally:
            self.subscription.unsubscribe()
            self.buffer.drop_stale()
            self._retain_topics()

    def assign(self, partitions: Iterable[Any]) -> None:
        """Assign exactly these partitions, without group management. Raises, for example, IllegalStateError after
        `subscribe`.
        """
        assigned = [TopicPartition(*tp) for tp in partitions]
        for tp in assigned:
            writable(tp.topic)
        self.subscription.assign_manually(assigned)
        self._update_metadata_topics()

    def _update_metadata_topics(self) -> None:
        """Request metadata only for the topics of the new subscription or assignment (for a pattern that the client
        evaluates: all topics), and let the next poll look up positions.
        """
        self.metadata.all_topics = self.subscription.pattern is not None
        self.metadata.set_topics(self.subscription.topics or {tp.topic for tp in self.subscription.partitions})
        if self.metadata.all_topics:
            self.metadata.request_update()
        self.topic_errors.subscribed()
        self.positions.lacks_positions = True
        self.buffer.drop_stale()

    def _retain_topics(self) -> None:
        """Set the topics to request metadata for: those that are assigned, subscribed to, or needed by the group."""
        read = {tp.topic for tp in self.subscription.partitions}
        self.metadata.set_topics(self.subscription.topics | self.membership.group_topics | read)

    def seek(self, tp: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        """Continue at `offset`. `epoch` is the leader epoch of the record before it; if it is known, the position is
        validated first.
        """
        if offset < 0:
            raise ValueError(f"offset {offset} is not valid")
        # The next poll starts the fetch: if the caller seeks again before, a fetch now would only delay the next one.
        self.subscription.state(tp).seek(offset, epoch)
        self.buffer.drop_stale()

    async def seek_to_time(self, times: Mapping[TopicPartition, int], timeout: float) -> None:
        """Continue at the first record at or after each time (ms since 1970). If there is none, continue at the latest
        offset.
        """
        for tp in times:
            self.subscription.state(tp)
        offsets = await self.topic_metadata.for_times(times, timeout)
        late = [tp for tp, at in offsets.items() if at is None]
        ends = await self.topic_metadata.positions(late, LATEST_TIMESTAMP, timeout) if late else {}
        for tp, at in offsets.items():
            self.seek(tp, ends[tp] if at is None else at.offset)

    def reset(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Reset the positions of partitions (none: of all) to the earliest (-2) or the latest (-1) offset. The next
        poll() or position() looks it up.
        """
        named = [self.subscription.state(tp) for tp in partitions]
        for state in named or list(self.subscription.partitions.values()):
            state.reset(timestamp)
        self.positions.lacks_positions = True
        self.buffer.drop_stale()

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        """Pause partitions; if `paused` is false, resume them."""
        for tp in partitions:
            self.subscription.state(tp).paused = paused

    # Polling

    def idle(self) -> bool:
        """Return whether poll() may return records at once, because there is no work for the event loop."""
        return not (
            self.positions.has_work
            or self.buffer.unreturned
            or self.wakeup_trigger.is_requested
            or self.commits.callbacks
            or self.topic_errors.pending
            or self.poll_trigger.error is not None
            or self.commits.is_due
            or (self.in_group and self.membership.has_work)
        )

    @property
    def in_group(self) -> bool:
        """Whether the consumer has a subscription and a group.id, so that the group assigns its partitions."""
        return self.subscription.has_subscription and bool(self.config.group_id)

    async def prepare(self, timeout: float) -> bool:
        """Do the pending work, such as joining the group, looking up positions and commits, and wait for records.

        Returns False if there are none after `timeout` seconds. Raises the errors of poll().
        """
        return await self.wakeup_trigger.interruptible(self._prepare(time.monotonic() + timeout))

    async def _prepare(self, deadline: float) -> bool:
        if not self.subscription.has_subscription and not self.subscription.manual:
            if not self.is_started:  # start() subscribes to the topics of the constructor
                raise IllegalStateError("the consumer is not started; use `async with`, or `await consumer.start()`")
            raise IllegalStateError("not subscribed to any topic, and no partition is assigned")
        while True:
            self._check_not_closing()
            self.membership.last_poll = time.monotonic()
            self.poll_trigger.clear()
            await self.commits.run_callbacks()
            self.poll_trigger.raise_error()
            self._raise_authentication_error()
            await self._describe(deadline)
            self.topic_errors.check()
            joined = await self._join_group(deadline)
            self._check_not_closing()
            if self.subscription.version != self._seen_version:
                self._seen_version = self.subscription.version
                self.fetch_metrics.update_assignment(self.subscription.partitions.values())
                self.positions.lacks_positions = True
            self.commits.make_due()
            self.positions.look_up()
            self.buffer.drop_stale()
            self.fetcher.wake()
            if self.buffer.has_records:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if (joined or self.subscription.partitions) and not self.poll_trigger.is_set:
                await self._wait(left)

    def _raise_authentication_error(self) -> None:
        """Raise the error of the last metadata refresh, once, if the client cannot authenticate. Without a group, no
        other request of a poll would fail, because the brokers are unknown.
        """
        error = self.metadata.error
        if isinstance(error, NOT_AUTHENTICATED) and error is not self._authentication_error:
            self._authentication_error = error
            raise error

    def _check_not_closing(self) -> None:
        if self.membership.is_closing:
            raise IllegalStateError("the consumer is closed")

    async def _describe(self, deadline: float) -> None:
        """Before joining the group, wait for metadata if it lacks a subscribed topic and no partition is assigned yet:
        the topic may be unauthorized, and joining may take long.
        """
        if self.in_group and not self.subscription.topics <= self.metadata.cluster.topics.keys():
            left = 0.0 if self.subscription.partitions else max(0.0, deadline - time.monotonic())
            await asyncio.wait({self.metadata.next_update()}, timeout=left)

    async def _join_group(self, deadline: float) -> bool:
        """Join the group if necessary; without a group, assign all partitions of the subscribed topics. Return False if
        joining a classic group is not done yet.
        """
        if self.in_group:
            # A cooperative member keeps reading its partitions while it rejoins.
            return await self.membership.join_if_needed(0.0 if self.subscription.partitions else deadline)
        if self.subscription.has_subscription:
            self._read_all(self.metadata.cluster)
        return True

    async def _wait(self, left: float) -> None:
        """Wait until records arrive or something is due, for at most `left` seconds."""
        if self.commits.automatic:
            left = min(left, max(0.0, self.commits.next_due - time.monotonic()))
        if self.in_group and self.membership.has_work:
            return
        try:
            async with asyncio.timeout(min(left, LONGEST_WAIT)):
                await self.poll_trigger.wait()
        except TimeoutError:
            pass

    # Records (caller's thread, or event loop)

    def next_records(self, at_most: int, wake: Callable[[], Any]) -> Records:
        """Return up to `at_most` fetched records, and advance the positions. `wake` is called after data was
        removed, if fetching was suspended.
        """
        records = self.buffer.next_records(at_most, wake, self.key_deserializer, self.value_deserializer)
        if records and self.interceptors:
            return self.interceptors.on_consume(records)
        return records

    def end_iteration(self) -> None:
        """End an iteration over records. Those that it has not returned are fetched again."""
        if self.iteration.has_remaining:
            self.iteration.return_remaining()
            self.buffer.drop_stale()
            self.fetcher.wake()

    def next_columns(
        self, wake: Callable[[], Any], headers: bool, until: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Columns]:
        """Return fetched records as columns, about 16 MiB per partition at most. Of a partition in `until`, only
        records before the offset there are returned.
        """
        return self.buffer.next_columns(wake, headers, until)

    # Queries

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group metadata for transactions. Raises IllegalStateError without a group."""
        self.require_group()
        member = self.membership
        return ConsumerGroupMetadata(
            str(self.config.group_id), member.generation, member.member_id, self.config.group_instance_id
        )

    def metric_values(self, raw: bool) -> dict[Any, Any]:
        """Return the metrics: `{group: {name: value}}`, or with `raw` `{MetricName: KafkaMetric}`."""
        return dict(self.metrics.metrics) if raw else dict(self.metrics.values())

    def require_group(self) -> None:
        """Raise IllegalStateError if the consumer has no group."""
        if not self.config.group_id:
            raise IllegalStateError("this requires a group_id")

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None, timeout: float) -> None:
        """Commit offsets (None: the positions), and wait for the result."""
        with self.poll_metrics.timed("commit-sync-time"):
            await self.commits.commit_sync(self.consumed(offsets), time.monotonic() + timeout)

    def consumed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None) -> Offsets:
        """Return the offsets to commit: `offsets` or, if it is None, all known positions."""
        self.require_group()
        if offsets is None:
            return self.commits.consumed()
        return {TopicPartition(*tp): self._with_epoch(TopicPartition(*tp), at) for tp, at in offsets.items()}

    def _with_epoch(self, tp: TopicPartition, at: OffsetAndMetadata | int) -> OffsetAndMetadata:
        """Return the offset as OffsetAndMetadata. An int that is the position gets the leader epoch of the record
        before.
        """
        state = self.subscription.partitions.get(tp)
        if isinstance(at, int) and state is not None and state.position == at:
            return OffsetAndMetadata(at, "", state.epoch)
        return checked_offset(tp, at)

    async def committed(self, partition: Any, metadata: bool, timeout: float) -> Any:
        """Return the committed offset of a partition, or those of a set or list of partitions as a dictionary."""
        self.require_group()
        many = not isinstance(partition, tuple)
        requested = [TopicPartition(*tp) for tp in (partition if many else [partition])]
        with self.poll_metrics.timed("committed-time"):
            entries = await self.group_offsets.committed(requested, time.monotonic() + timeout) if requested else {}
        if many:
            return {tp: entries.get(tp) for tp in requested}
        at = entries.get(requested[0])
        return at if metadata or at is None else at.offset

    def lag(self, tp: TopicPartition) -> int | None:
        """Return the lag in records according to the last fetch; None before the first fetch, or without a position."""
        return self._lag(self.subscription.state(tp))

    def _lag(self, state: PartitionState) -> int | None:
        committed = self.config.isolation_level == "read_committed"
        end = state.last_stable_offset if committed else state.high_watermark
        return None if end is None or state.position is None else max(0, end - state.position)


def generated_client_id(config: ConsumerConfig) -> str:
    """Return the default client id: as in Java, `consumer-` with the group id and the instance id or, without one, a
    number. A consumer without a group has only a number after `consumer-`.
    """
    number = next(_numbers)
    if not config.group_id:
        return f"consumer-{number}"
    return f"consumer-{config.group_id}-{config.group_instance_id or number}"


def topic_names(topics: Iterable[str]) -> list[str]:
    """Return the names as a list. Raises TypeError for a name that is not a str, and for a single str, which would be
    taken for a list of letters. Raises InvalidTopicError for a name that cannot be encoded.
    """
    if isinstance(topics, str):
        raise TypeError("topics must be a list of names")
    return [writable(topic) for topic in topics]


def check_max_records(max_records: int | None) -> None:
    """Raise ValueError if `max_records` is below 1."""
    if max_records is not None and max_records < 1:
        raise ValueError(f"max_records must be at least 1, not {max_records}")
