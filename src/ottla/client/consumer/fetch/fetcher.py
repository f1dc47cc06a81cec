"""Fetches records before poll() needs them. Kafka's `Fetcher`.

It keeps at most one request in flight to each broker, for partitions with too little buffered data. The fetch position
of a partition is ahead of the consumer's position, so that the next fetch does not wait until the last one has been
returned. Event loop only; the polling thread takes data out of the buffer.

Buffered data is limited to fetch.max.bytes plus one response of each broker (each at most fetch.max.bytes, or a single
batch that is larger). Data of partitions that have been paused meanwhile is not counted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from ottla import errors
from ottla.client.consumer.fetch.completed_fetch import CompletedFetch
from ottla.client.consumer.fetch.fetch_buffer import FetchBuffer
from ottla.client.consumer.fetch.fetch_metrics import FetchMetrics, ResponseTotals
from ottla.client.consumer.offsets.positions import Positions
from ottla.client.consumer.poll_trigger import PollTrigger
from ottla.client.consumer.subscription import PartitionState, Subscription
from ottla.client.core.connections import FETCH, Connections
from ottla.client.core.metadata import Metadata
from ottla.config.consumer import ConsumerConfig
from ottla.logs import listed
from ottla.model import Node, TopicPartition
from ottla.protocol.fetch_session import NO_ID, FetchLimits, FetchPosition, FetchSessionHandler
from ottla.protocol.messages.fetch import FetchResponse, PartitionData

log = logging.getLogger("ottla.client")

FETCHES_AHEAD: Final = 2
"""A partition is fetched as long as its buffered data is less than this many times max.partition.fetch.bytes: one fetch
that is being returned and one in reserve.
"""
END_SESSIONS_SECONDS: Final = 0.2
"""Maximum time in seconds that close() waits for brokers to end the fetch sessions."""

RequestedPartitions = dict[TopicPartition, tuple[PartitionState, int, FetchPosition]]
"""The partitions of a fetch request: for each its state, the state's generation when the request was made, and the
position.
"""


class Fetcher:
    """Fetches the assigned partitions that have a position."""

    def __init__(
        self,
        config: ConsumerConfig,
        connections: Connections,
        metadata: Metadata,
        subscription: Subscription,
        positions: Positions,
        buffer: FetchBuffer,
        metrics: FetchMetrics,
        poll_trigger: PollTrigger,
    ) -> None:
        self.config = config
        self.connections = connections
        self.metadata = metadata
        self.subscription = subscription
        self.positions = positions
        self.buffer = buffer
        self.metrics = buffer.metrics = metrics
        self.poll_trigger = poll_trigger
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._terms = FetchLimits(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            partition_max_bytes=config.max_partition_fetch_bytes,
            isolation_level=1 if config.isolation_level == "read_committed" else 0,
            rack_id=config.client_rack,
            sessions=config.enable_incremental_fetch_sessions,
        )
        self._busy: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = 0
        self._closed = False
        self._retry_backoff = config.retry_backoff_ms / 1000
        self._enough = FETCHES_AHEAD * config.max_partition_fetch_bytes

    async def close(self) -> None:
        """Stop fetching, and end the fetch sessions on brokers whose connections have no pending request."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.buffer.clear()
        goodbyes = [asyncio.ensure_future(self._end(node, s)) for node, s in self._sessions.items()]
        if goodbyes:
            _, late = await asyncio.wait(goodbyes, timeout=END_SESSIONS_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*goodbyes, return_exceptions=True)

    async def _end(self, node: int, session: FetchSessionHandler) -> None:
        request = session.last_request()
        connection = self.connections.ready(node, FETCH)
        # On a connection with a pending fetch, the request would wait for its response.
        if request is not None and connection is not None and not connection.channel.in_flight:
            await connection.channel.send(request, connection.version(type(request)), END_SESSIONS_SECONDS)

    # Requests

    def wake(self) -> None:
        """Unless the buffer is full, send a fetch request to each broker from which a partition is to be fetched and
        that has no fetch in flight. Event loop only.
        """
        if self._closed or self._is_full():
            return
        by_node: dict[int, RequestedPartitions] = {}
        now = time.monotonic()
        leaderless = unchecked = False
        for tp, state in self.subscription.partitions.items():
            if state.paused or state.at_end or state.fetch_from is None or state.in_flight:
                continue
            state.fetch_suspended = state.fetched_bytes - state.taken_bytes >= self._enough
            if state.fetch_suspended:
                continue
            node, place = self._fetch_position(tp, state, now)
            if node < 0:
                leaderless = True
            elif not state.is_validated(place.leader_epoch):
                unchecked = True
            elif node not in self._busy:
                by_node.setdefault(node, {})[tp] = (state, state.generation, place)
        if leaderless:
            self.metadata.request_update()
        if unchecked:
            self.positions.check_leaders(self.metadata.cluster)
        for node, requested in by_node.items():
            self._spawn(node, dict(sorted(requested.items(), key=lambda item: item[1][0].served)))

    def _is_full(self) -> bool:
        states = self.subscription.partitions.values()
        here = sum(s.fetched_bytes - s.taken_bytes for s in states if not (s.paused or s.at_end))
        self.buffer.is_full = here >= self.config.fetch_max_bytes
        return self.buffer.is_full

    def _fetch_position(self, tp: TopicPartition, state: PartitionState, now: float) -> tuple[int, FetchPosition]:
        """Return the node to fetch from (the leader, or the preferred read replica; -1 if unknown) and the position."""
        cluster = self.metadata.cluster
        info = cluster.partition(tp)
        topic = cluster.topics.get(tp.topic)
        epoch = -1 if info is None else info.leader_epoch
        place = FetchPosition(state.fetch_from or 0, epoch, NO_ID if topic is None else topic.topic_id)
        if state.preferred_replica is not None:
            node, until = state.preferred_replica
            if now < until and node in cluster.nodes:
                return node, place
            state.preferred_replica = None
        return cluster.leader(tp), place

    def _spawn(self, node: int, requested: RequestedPartitions) -> None:
        # Generations are those of now, not of the start of the task: in between, a partition may be lost or seek.
        self._busy.add(node)
        for state, _, _ in requested.values():
            state.in_flight = True
        task = asyncio.get_running_loop().create_task(self._try_fetch(node, requested))
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._busy.discard(node)
            for state, _, _ in requested.values():
                state.in_flight = False
            if not task.cancelled():
                self.wake()

        task.add_done_callback(ended)

    async def _try_fetch(self, node: int, requested: RequestedPartitions) -> None:
        """Fetch, or log an unexpected error and wait for the backoff."""
        try:
            await self._fetch(node, requested)
        except Exception:
            log.exception(
                "Unexpected error while fetching %s from node %d; retrying in %g s",
                listed(sorted(requested)),
                node,
                self._retry_backoff,
            )
            await asyncio.sleep(self._retry_backoff)

    async def _fetch(self, node: int, requested: RequestedPartitions) -> None:
        """Send one request, and handle the response. Data of partitions for which seek() was called meanwhile is
        dropped.
        """
        session = self._sessions.setdefault(node, FetchSessionHandler())
        request, version = session.request({tp: place for tp, (_, _, place) in requested.items()}, self._terms)
        began = time.monotonic()
        try:
            response = await self.connections.send(node, request, at_most=version, purpose=FETCH)
        except errors.KafkaError as error:
            session.restart()
            for state, _, _ in requested.values():
                state.preferred_replica = None
            self.metadata.request_update()
            if error.code is not None and not error.retriable:
                log.debug("Cannot fetch from node %d; poll() raises the error: %s", node, error)
                self.poll_trigger.fail(error)
            else:
                log.debug("Cannot fetch from node %d; retrying in %g s: %s", node, self._retry_backoff, error)
            await asyncio.sleep(self._retry_backoff)
            return
        except BaseException:
            session.restart()  # the broker may have updated the session, so its state is unknown
            raise
        self._measure(node, time.monotonic() - began, response.throttle_time_ms)
        if not session.handle_response(response):
            error_class = errors.for_code(response.error_code)
            log.debug("Node %d rejected a fetch (%s); the next one requests all partitions", node, error_class.name)
            if error_class.refresh_metadata or error_class is errors.FetchSessionTopicIdError:
                self.metadata.request_update()
                await asyncio.sleep(self._retry_backoff)
            return
        if self._handle_response(node, response, requested):
            await asyncio.sleep(self._retry_backoff)

    def _measure(self, node: int, seconds: float, throttled_ms: int) -> None:
        self.metrics.fetched(seconds, throttled_ms)
        self.connections.metrics.for_node(node).latency.record(seconds * 1000)

    # Responses

    def _handle_response(self, node: int, response: FetchResponse, requested: RequestedPartitions) -> bool:
        """Handle a response. Return whether a partition has an error after which the next fetch has to wait for the
        backoff.
        """
        names = {place.topic_id: tp.topic for tp, (_, _, place) in requested.items()}
        nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
        failed = False
        completed: list[CompletedFetch] = []
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for partition in topic.partitions:
                tp = TopicPartition(name, partition.partition_index)
                if tp in requested:
                    state, generation, place = requested[tp]
                    if state.generation == generation and partition.error_code:
                        failed |= not self._handle_partition_error(state, partition, place.offset, node, nodes)
                    elif state.generation == generation:
                        failed |= not self._handle_partition(state, partition, place.offset, completed)
        self._append_to_buffer(completed)
        return failed

    def _handle_partition_error(
        self, state: PartitionState, answer: PartitionData, fetch_offset: int, node: int, nodes: list[Node]
    ) -> bool:
        """Handle the error of a partition. Return False if the next fetch has to wait for the backoff."""
        leader = answer.current_leader
        if leader is not None and self.metadata.leader_changed(state.tp, leader.leader_id, leader.leader_epoch, nodes):
            state.preferred_replica = None
            return True
        return self._handle_error(state, errors.for_code(answer.error_code), fetch_offset, node)

    def _handle_partition(
        self, state: PartitionState, answer: PartitionData, fetch_offset: int, completed: list[CompletedFetch]
    ) -> bool:
        """Handle the data of a partition: add it to `completed`, if there is any. Return False if the next fetch has to
        wait for the backoff.
        """
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        if answer.log_start_offset >= 0:
            state.log_start_offset = answer.log_start_offset
        if answer.preferred_read_replica >= 0:
            until = time.monotonic() + self.config.metadata_max_age_ms / 1000
            state.preferred_replica = (answer.preferred_read_replica, until)
        if answer.records is None or not answer.records.nbytes:
            return True
        return self._add_records(state, answer, fetch_offset, completed)

    def _add_records(
        self, state: PartitionState, answer: PartitionData, fetch_offset: int, completed: list[CompletedFetch]
    ) -> bool:
        committed = self.config.isolation_level == "read_committed"
        assert answer.records is not None
        try:
            completed.append(
                CompletedFetch(
                    state,
                    answer.records,
                    fetch_offset,
                    limit=self.config.max_partition_fetch_bytes,
                    check_crc=self.config.check_crcs,
                    aborted=(answer.aborted_transactions or []) if committed else None,
                    max_decompressed_bytes=self.config.max_decompressed_batch_bytes,
                )
            )
        except errors.MessageTooLargeError as error:
            self.poll_trigger.fail(errors.MessageTooLargeError(f"{state.tp}, offset {fetch_offset}: {error}"))
            return False
        except errors.KafkaError as error:
            message = f"{state.tp}, offset {fetch_offset}: the following batch cannot be decoded: {error}"
            self.poll_trigger.fail(errors.CorruptBatchError(message, state.tp, fetch_offset, fetch_offset + 1))
            return False
        return True

    def _append_to_buffer(self, completed: list[CompletedFetch]) -> None:
        """Append the data of one response to the buffer. Data that was dropped before is not part of its totals."""
        totals = ResponseTotals(len(completed))
        for fetched in completed:
            state = fetched.state
            fetched.totals = totals
            state.fetch_from = fetched.end_offset
            state.fetch_epoch = fetched.last_epoch
            state.fetched_bytes += fetched.nbytes
            self._turn += 1
            state.served = self._turn
            self.buffer.completed.append(fetched)
        if completed:
            self.poll_trigger.set()

    def _handle_error(
        self, state: PartitionState, error: type[errors.KafkaError], fetch_offset: int, node: int
    ) -> bool:
        if error is errors.OffsetOutOfRangeError:
            return self._out_of_range(state, fetch_offset)
        state.preferred_replica = None
        if error.refresh_metadata:
            self.metadata.request_update()
        if not error.retriable or error is errors.CorruptMessageError:
            self.poll_trigger.fail(error(f"{state.tp}, offset {fetch_offset}: {error.__doc__}"))
        else:
            log.debug(
                "Cannot fetch %s from node %d; retrying in %g s: %s", state.tp, node, self._retry_backoff, error.name
            )
        return False

    def _out_of_range(self, state: PartitionState, fetch_offset: int) -> bool:
        if state.preferred_replica is not None:
            # A follower may lag behind; the leader decides.
            state.preferred_replica = None
            return True
        if state.position != fetch_offset:
            # Buffered data is still valid. After it is drained, the same response comes again.
            return False
        if not self.positions.out_of_range(state):
            self.poll_trigger.fail(
                errors.OffsetOutOfRangeError(
                    f"{state.tp}: offset {fetch_offset} is out of range, auto.offset.reset is none: seek() elsewhere"
                )
            )
            return False
        self.poll_trigger.set()
        return True
