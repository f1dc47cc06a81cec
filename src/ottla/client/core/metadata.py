"""The cluster metadata of a client, and how it is refreshed. Kafka's `Metadata` and `Cluster`.

`Cluster` is an immutable snapshot that any thread may read. `Metadata` replaces snapshots in the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from ottla import errors
from ottla.backoff import ExponentialBackoff
from ottla.client.core.connections import NOT_AUTHENTICATED, Connections
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.config.client import ClientConfig
from ottla.futures import shielded
from ottla.model import ACLOperation, Node, TopicPartition
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.security.acl import ResourceType, allowing_command

log = logging.getLogger("ottla.client")

NO_LEADER: Final = -1
MAX_STRING_BYTES: Final = 32_767
"""The maximum size of a string in Kafka's protocol."""


class PartitionInfo(NamedTuple):
    """A partition as a broker describes it. `leader` is -1 if there is none or it is unknown."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicInfo(NamedTuple):
    """A topic as a broker describes it. `partitions` are sorted by number; `error` is set if the broker reports one."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
    error: type[errors.KafkaError] | None = None


def error_text(error: type[errors.KafkaError], operation: ACLOperation, topic: str) -> str:
    """Return the message for a topic's error. If it is an authorization error, the message contains the `ottla acls`
    command that allows the operation.
    """
    if error is not errors.TopicAuthorizationFailedError:
        return error.__doc__ or ""
    command = allowing_command("User:NAME", operation, ResourceType.TOPIC, topic)
    creation = ", or Create if the topic does not exist" if operation is ACLOperation.WRITE else ""
    where = f"(the broker's log has the principal and the denied operation{creation})"
    return f"{error.__doc__} To allow it: {command} {where}"


class Cluster:
    """An immutable snapshot of brokers and topics. `controller_id` is -1 if the controller is unknown."""

    __slots__ = ("cluster_id", "controller_id", "nodes", "topics")

    def __init__(
        self,
        nodes: dict[int, Node] | None = None,
        topics: dict[str, TopicInfo] | None = None,
        controller_id: int = -1,
        cluster_id: str | None = None,
    ) -> None:
        self.nodes: dict[int, Node] = nodes or {}
        self.topics: dict[str, TopicInfo] = topics or {}
        self.controller_id: int = controller_id
        self.cluster_id: str | None = cluster_id

    def partitions_of(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Return the partitions of a topic; an empty tuple if the topic is unknown."""
        info = self.topics.get(topic)
        return info.partitions if info is not None else ()

    def partition(self, tp: TopicPartition) -> PartitionInfo | None:
        """Return a partition, or None if it is unknown."""
        partitions = self.partitions_of(tp.topic)
        if 0 <= tp.partition < len(partitions) and partitions[tp.partition].partition == tp.partition:
            return partitions[tp.partition]
        return next((p for p in partitions if p.partition == tp.partition), None)

    def leader(self, tp: TopicPartition) -> int:
        """Return the node id of a partition's leader; -1 if there is none, or the partition or the leader's address is
        unknown.
        """
        info = self.partition(tp)
        return NO_LEADER if info is None or info.leader not in self.nodes else info.leader


class MetadataSource(Protocol):
    """Sends metadata requests, as `Connections` does."""

    async def send_any(self, request: MetadataRequest) -> MetadataResponse:
        """Send the request to a broker of the source's choice, and return the response."""
        ...


class Metadata:
    """Refreshes the cluster metadata: on request, after metadata.max.age.ms, and with backoff after a failed refresh
    and while the metadata of a requested topic is incomplete.

    It requests only the topics that the client uses, or all topics. Event loop only, except for `cluster`, `version`,
    `updated_at` and `touch`, which any thread may use.
    """

    def __init__(
        self,
        source: MetadataSource,
        *,
        max_age_ms: int,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
        allow_auto_create: bool,
        topic_idle_ms: int | None = None,
        clock: Clock = SYSTEM_CLOCK,
        rebootstrap: Callable[[], None] | None = None,
        rebootstrap_trigger_ms: int = 0,
        slow_reason: Callable[[], str] = str,
    ) -> None:
        """Create metadata without any brokers or topics.

        A topic is no longer requested if it has not been used for `topic_idle_ms` (None: no limit). `rebootstrap` is
        called when refreshes have failed for `rebootstrap_trigger_ms`, or if the broker demands it.

        `slow_reason` returns why connection attempts are slow, for the error of a call that times out; empty if they
        are not.
        """
        self.cluster: Cluster = Cluster()
        self.version: int = 0
        """Incremented with the snapshot of each metadata response."""
        self.listeners: list[Callable[[Cluster], None]] = []
        """Called with the snapshot of each metadata response."""
        self.all_topics = False
        self.error: errors.KafkaError | None = None
        """The error of the last refresh; None if it succeeded or there has been none."""
        self.updated_at: float = clock.monotonic()
        """The monotonic time in seconds of the last successful refresh; of the creation if there has been none."""
        self._source = source
        self._slow_reason = slow_reason
        self._clock = clock
        self._topics: dict[str, float] = {}
        self._max_age = max_age_ms / 1000
        self._min_delay = retry_backoff_ms / 1000
        self._backoff = ExponentialBackoff(self._min_delay, retry_backoff_max_ms / 1000)
        self._allow_auto_create = allow_auto_create
        self._topic_idle = None if topic_idle_ms is None else topic_idle_ms / 1000
        self._rebootstrap = rebootstrap
        self._rebootstrap_after = rebootstrap_trigger_ms / 1000
        self._failing_since: float | None = None
        self._requested = asyncio.Event()
        self._new_topic = asyncio.Event()
        """Set when a call waits for a topic that has not been requested. The refresh for it does not wait for the delay
        after the previous one.
        """
        self._updated: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Start the background task that refreshes the metadata."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop the background task. Calls that wait for metadata raise IllegalStateError."""
        self._closed = True
        self._fail_waiting(errors.IllegalStateError("the client is closed"))
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # Topics of interest

    def touch(self, topic: str) -> None:
        """Record that a topic is used. A topic that was not used before is requested from the next refresh on; this
        does not start one. Thread-safe.
        """
        self._topics[topic] = self._clock.monotonic()

    def set_topics(self, topics: Iterable[str]) -> None:
        """Replace the topics to request; all of them count as used now. Request a refresh if one of them is new. Raises
        TypeError or InvalidTopicError for a name that no request can contain.
        """
        now = self._clock.monotonic()
        before = set(self._topics)
        self._topics = dict.fromkeys(map(writable, topics), now)
        if set(self._topics) - before:
            self.request_update()

    def add_topics(self, topics: Iterable[str]) -> None:
        """Add topics to request, like `set_topics`. The time at which other topics were last used is unchanged."""
        new = False
        for topic in [writable(topic) for topic in topics]:
            new |= topic not in self._topics
            self.touch(topic)
        if new:
            self.request_update()

    # Refreshes

    def request_update(self) -> None:
        """Request a refresh. It starts as soon as the delay after the previous one has passed."""
        self._requested.set()

    def next_update(self) -> asyncio.Future[None]:
        """Return a future that completes when the next metadata response arrives, or fails if the client cannot
        authenticate or is closed.
        """
        if self._updated is None or self._updated.done():
            self._updated = asyncio.get_running_loop().create_future()
        return self._updated

    async def refresh(self, timeout: float) -> Cluster:
        """Refresh, and return the new snapshot. Raises KafkaTimeoutError after `timeout` seconds, caused by the error
        of the last refresh if it failed.

        Authentication errors are raised at once, and IllegalStateError before `start` and when the client is closed.
        """
        if self._closed:
            raise errors.IllegalStateError("the client is closed")
        if self._task is None:
            raise errors.IllegalStateError("the client is not started; use `async with`, or `await client.start()`")
        update = self.next_update()
        self.request_update()
        try:
            async with asyncio.timeout(timeout):
                await shielded(update)
        except TimeoutError:
            raise self._timed_out("no metadata", timeout) from self.error
        return self.cluster

    async def wait_for_topic(self, topic: str, timeout: float, partition: int = 0) -> TopicInfo:
        """Wait until a topic has a partition with this number, and return the topic.

        Raises KafkaTimeoutError after `timeout` seconds. Authentication errors, and errors of the topic that are not
        retriable (such as an invalid name or no authorization), are raised at once.
        """
        deadline = time.monotonic() + timeout
        if topic not in self._topics:
            self._new_topic.set()
        self.touch(writable(topic))
        while True:
            info = self.cluster.topics.get(topic)
            if info is not None and len(info.partitions) > partition:
                return info
            if info is not None and info.error is not None and not info.error.retriable:
                raise info.error(f"topic {topic!r}: {error_text(info.error, ACLOperation.WRITE, topic)}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._timed_out(_missing(topic, partition, info), timeout)
            try:
                await self.refresh(left)
            except errors.KafkaTimeoutError:
                continue

    def _timed_out(self, what: str, timeout: float) -> errors.KafkaTimeoutError:
        cause = str(self.error) if self.error is not None else self._slow_reason()
        return errors.KafkaTimeoutError(f"{what} after {timeout:.3g} s{f' ({cause})' if cause else ''}")

    async def _run(self) -> None:
        """Refresh when it is requested or the metadata is too old. Repeat it with backoff after a failure, and while a
        requested topic is missing, has a retriable error, or has a partition without a leader.
        """
        incomplete = 0
        while True:
            await self._clock.wait(self._requested, self._clock.monotonic() + self._max_age)
            self._requested.clear()
            self._new_topic.clear()
            complete = await self._refresh_once()
            # Refreshes are apart by at least a quarter of the first delay, however often they are requested; by more
            # while something is missing or fails. Only a refresh for a new topic may start earlier.
            incomplete = 0 if complete else incomplete + 1
            is_healthy = complete and not any(info.error for info in self.cluster.topics.values())
            await self._pause(self._min_delay / 4 if is_healthy else self._backoff.backoff(max(incomplete - 1, 0)))
            if not complete:
                self._requested.set()

    async def _pause(self, seconds: float) -> None:
        """Wait for `seconds`, or until a call waits for a topic that has not been requested, as Kafka's client does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._new_topic.wait()

    async def _refresh_once(self) -> bool:
        """Send one metadata request. Return False if it failed, or if a topic in use is missing, has a retriable error,
        or has a partition without a leader.
        """
        request = self._request()
        try:
            response = await self._source.send_any(request)
            if response.error_code:
                raise errors.for_code(response.error_code)
        except errors.KafkaError as error:
            log.debug("Cannot refresh the metadata; retrying after the backoff: %s", error)
            self.error = error
            self._failed(error)
            return False
        self.error = self._failing_since = None
        self._apply(response)
        waiting = [t for t in list(self._topics) if not self._is_complete(t)]
        return not waiting

    def _failed(self, error: errors.KafkaError) -> None:
        """Handle a failed refresh. Authentication errors are raised in waiting calls. Call `rebootstrap`, if there is
        one, when the broker demands it or refreshes have failed for too long (KIP-1102).
        """
        if isinstance(error, NOT_AUTHENTICATED):
            self._fail_waiting(error)
        if self._rebootstrap is None:
            return
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        long_enough = now - self._failing_since >= self._rebootstrap_after
        if long_enough or isinstance(error, errors.RebootstrapRequiredError):
            self._failing_since = now
            self._rebootstrap()

    def _fail_waiting(self, error: errors.KafkaError) -> None:
        if self._updated is not None and not self._updated.done():
            self._updated.set_exception(error)
            self._updated.exception()  # marks the exception as retrieved: the caller may have given up

    def _is_complete(self, topic: str) -> bool:
        info = self.cluster.topics.get(topic)
        if info is None:
            return False
        if info.error is not None:
            return not info.error.retriable
        return all(p.leader != NO_LEADER for p in info.partitions)

    def _request(self) -> MetadataRequest:
        self._forget_idle()
        topics = None if self.all_topics else [MetadataRequestTopic(name=name) for name in list(self._topics)]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self._allow_auto_create)

    def _forget_idle(self) -> None:
        if self._topic_idle is None:
            return
        oldest = self._clock.monotonic() - self._topic_idle
        for topic in [t for t, used in list(self._topics.items()) if used < oldest]:
            self._topics.pop(topic, None)

    def _apply(self, response: MetadataResponse) -> None:
        """Replace the snapshot, and call the listeners."""
        nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        topics = {}
        for topic in response.topics:
            if topic.name is not None:
                topics[topic.name] = topic_info(topic, self.cluster.topics.get(topic.name))
        self.cluster = Cluster(nodes, topics, response.controller_id, response.cluster_id)
        self.version += 1
        self.updated_at = self._clock.monotonic()
        if self._updated is not None and not self._updated.done():
            self._updated.set_result(None)
        for listener in self.listeners:
            listener(self.cluster)

    def leader_changed(self, tp: TopicPartition, leader: int, epoch: int, nodes: Iterable[Node] = ()) -> bool:
        """Apply a leader from a produce, fetch or share fetch response (KIP-951) if it is newer than the metadata and
        its address is known. Return whether it was applied.

        `nodes` are the brokers in the same response, which may be new.
        """
        info = self.cluster.partition(tp)
        all_nodes = {**{node.id: node for node in nodes}, **self.cluster.nodes}
        if info is None or leader not in all_nodes:
            return False
        # an epoch that `update_last_seen_epoch` has recorded lacks its leader
        newest = info.leader_epoch if info.leader != NO_LEADER else info.leader_epoch - 1
        if epoch <= newest:
            return False
        self._set_leader(info, leader, epoch, all_nodes)
        return True

    def update_last_seen_epoch(self, tp: TopicPartition, epoch: int) -> bool:
        """Record the leader epoch of an offset. Return whether it is newer than the metadata: then the partition has no
        leader until newer metadata arrives, which is requested (KIP-320). Kafka's `updateLastSeenEpochIfNewer`.

        If the epoch were ignored, a consumer whose metadata comes from an isolated broker would fetch from the leader
        that was replaced, find the offset out of range, and reset its position.
        """
        info = self.cluster.partition(tp)
        if info is None or epoch <= info.leader_epoch:
            return False
        log.info(
            "%s: an offset has leader epoch %d, but the metadata has %d; not using the partition's leader until newer "
            "metadata arrives",
            tp,
            epoch,
            info.leader_epoch,
        )
        self._set_leader(info, NO_LEADER, epoch, self.cluster.nodes)
        self.request_update()
        return True

    def _set_leader(self, info: PartitionInfo, leader: int, epoch: int, nodes: dict[int, Node]) -> None:
        topic = self.cluster.topics[info.topic]
        changed = info._replace(leader=leader, leader_epoch=epoch)
        partitions = tuple(changed if p.partition == info.partition else p for p in topic.partitions)
        topics = {**self.cluster.topics, info.topic: topic._replace(partitions=partitions)}
        self.cluster = Cluster(nodes, topics, self.cluster.controller_id, self.cluster.cluster_id)


def metadata_of(
    config: ClientConfig,
    connections: Connections,
    *,
    source: MetadataSource | None = None,
    allow_auto_create: bool = False,
    topic_idle_ms: int | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Metadata:
    """Return the metadata of a client. It is requested through `connections`, or from `source`."""
    return Metadata(
        source or connections,
        max_age_ms=config.metadata_max_age_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        allow_auto_create=allow_auto_create,
        topic_idle_ms=topic_idle_ms,
        clock=clock,
        rebootstrap=connections.rebootstrap if config.metadata_recovery_strategy == "rebootstrap" else None,
        rebootstrap_trigger_ms=config.metadata_recovery_rebootstrap_trigger_ms,
        slow_reason=lambda: connections.slow_reason,
    )


def writable(topic: str) -> str:
    """Return the topic name. Raises TypeError or InvalidTopicError if it cannot be encoded in a request, because that
    would make the request fail for all its topics.
    """
    if not isinstance(topic, str):
        raise TypeError(f"the topic must be a str, not {type(topic).__name__}")
    try:
        length = len(topic.encode())
    except UnicodeEncodeError:
        raise errors.InvalidTopicError(f"topic {topic!r} cannot be encoded as UTF-8") from None
    if length > MAX_STRING_BYTES:
        raise errors.InvalidTopicError(f"topic {topic[:20]!r}… has {length} bytes; at most {MAX_STRING_BYTES}")
    return topic


def topic_info(topic: MetadataResponseTopic, previous: TopicInfo | None = None) -> TopicInfo:
    """Return a topic from a metadata response. A partition with an older leader epoch than in `previous`, if that has
    the same topic id, is taken from there.
    """
    assert topic.name is not None
    error = errors.for_code(topic.error_code) if topic.error_code else None
    same = previous is not None and previous.topic_id == topic.topic_id
    before = {p.partition: p for p in previous.partitions} if previous is not None and same else {}
    partitions = sorted(
        (_partition_info(topic.name, p, before.get(p.partition_index)) for p in topic.partitions),
        key=lambda p: p.partition,
    )
    return TopicInfo(topic.name, topic.topic_id, topic.is_internal, tuple(partitions), error)


def _missing(topic: str, partition: int, info: TopicInfo | None) -> str:
    """Return what is wrong with a topic in which a partition was not found."""
    if info is not None and info.partitions:
        return f"topic {topic!r}, partition {partition}: the topic has {len(info.partitions)} partitions"
    if info is not None and info.error is errors.UnknownTopicOrPartitionError:
        return f"topic {topic!r} does not exist, and the broker has not created it (auto.create.topics.enable)"
    return f"topic {topic!r} is unknown"


def _partition_info(topic: str, p: MetadataResponsePartition, previous: PartitionInfo | None) -> PartitionInfo:
    """Return the partition `p` or, if that has an older leader epoch, the previous one: the broker may have outdated
    metadata (KIP-320).
    """
    if previous is not None and -1 < p.leader_epoch < previous.leader_epoch:
        return previous
    return partition_info(topic, p)


def partition_info(topic: str, p: Any) -> PartitionInfo:
    """Return a partition from a Metadata or DescribeTopicPartitions response."""
    return PartitionInfo(
        topic,
        p.partition_index,
        p.leader_id,
        p.leader_epoch,
        tuple(p.replica_nodes),
        tuple(p.isr_nodes),
        tuple(p.offline_replicas),
    )
