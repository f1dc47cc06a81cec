"""Sends the batches of the accumulator to the leaders, and handles the results. Kafka's `Sender`.

The sender runs when the accumulator has a batch to send, after each response and metadata update, and when a batch is
due or expires. It does not wait for responses: up to `max.in.flight.requests.per.connection` requests are in flight to
each broker. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Final

from ottla import errors
from ottla.client.core.connections import Connections
from ottla.client.core.handshake import BrokerConnection
from ottla.client.core.metadata import Metadata
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import NO_SEQUENCE, PartitionQueue, ProducerBatch
from ottla.client.producer.metrics import ProducerMetrics
from ottla.client.producer.transaction_manager import TransactionManager
from ottla.client.producer.transactions import Transactions
from ottla.clock import Clock
from ottla.config.producer import ProducerConfig
from ottla.errors import BrokerConnectionError, KafkaError, KafkaTimeoutError, SerializationError
from ottla.model import TopicPartition
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.security.acl import PLACEHOLDER, producer_command, with_name

log = logging.getLogger("ottla.client")

OLDEST_PRODUCE: Final = 3
"""The first version with record batches of magic 2 (Kafka 0.11)."""
NEWEST_PRODUCE: Final = 11
JOINING_PRODUCE: Final = 12
"""Version 12, in which partitions are added to transactions implicitly (KIP-890). Version 13, which has topic ids, is
not used.
"""
ID_RETRY_SECONDS: Final = 0.1
RESPONSE_SECONDS: Final = 0.5
"""Maximum time in seconds, in addition to request.timeout.ms, for the response of a leader that has itself waited that
long.
"""


class Sender:
    """Sends the batches of one producer in a background task, and completes their results."""

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        connections: Connections,
        metadata: Metadata,
        transactions: TransactionManager | None,
        metrics: ProducerMetrics,
        clock: Clock,
    ) -> None:
        self.scope: Transactions | None = None
        """The producer's transactions; None without a transactional id."""
        self.config = config
        self.accumulator = accumulator
        self.connections = connections
        self.metadata = metadata
        self.transactions = transactions
        self.metrics = metrics
        self._clock = clock
        self._keeps_order = config.max_in_flight_requests_per_connection == 1
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        request_timeout = config.request_timeout_ms / 1000
        # A leader waits that long. Its response, a little later, contains the reason, such as a slow disk.
        self._response_timeout = request_timeout + min(RESPONSE_SECONDS, request_timeout / 2)
        self._wakeup = asyncio.Event()
        self._in_flight: dict[int, int] = defaultdict(int)
        self._on_the_way: dict[ProducerBatch, None] = {}
        """Batches in requests that have not ended: a connection may still be writing them. Their memory must not be
        reused, even if they have a result.
        """
        self._connecting: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the background task."""
        self.metadata.listeners.append(lambda _: self.wake())
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        """Let the sender check the accumulator soon. Event loop only."""
        self._wakeup.set()

    async def close(self, error: KafkaError) -> None:
        """Stop sending. Pending batches fail with `error`."""
        tasks = [*self._tasks, *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.accumulator.close()
        for batch in self.accumulator.pending():
            self._fail(batch, error)

    async def _run(self) -> None:
        while True:
            try:
                next_look = self._send_ready()
            except Exception:  # a bug must be logged, not block every record
                log.exception(
                    "Unexpected error while sending batches; retrying within 1 s (client.id=%s)",
                    self.connections.client_id,
                )
                next_look = self._clock.monotonic() + 1.0
            await self._clock.wait(self._wakeup, next_look)
            self._wakeup.clear()

    def _send_ready(self) -> float | None:
        """Expire batches, and send requests to nodes for which batches are ready. Return the time of the next check
        (None: only when woken).
        """
        now = self._clock.monotonic()
        next_expiry = self._expire_late(now)
        ready = self.accumulator.ready(self.metadata.cluster, now)
        if ready.leaderless:
            for topic in ready.leaderless:
                self.metadata.touch(topic)
            self.metadata.request_update()
        if ready.nodes and self.transactions is not None and not self.transactions.has_producer_id:
            if self.scope is not None:
                return None  # until init_transactions
            self._spawn(self._get_producer_id(), -1)
            return None
        for node in ready.nodes:
            self._send_to(node, now)
        next_check = ready.next_check
        if self.accumulator.incomplete:
            next_check = next_expiry if next_check is None else min(next_check, next_expiry)
        return next_check

    def _expire_late(self, now: float) -> float:
        """Fail batches that are older than delivery.timeout.ms. Return the time of the next check for such batches."""
        limit = self._delivery_timeout
        expired, next_expiry = self.accumulator.expired(now, limit)
        for batch in self._on_the_way:
            if batch.outcome.done:
                continue
            if now - batch.created >= limit:
                expired.append(batch)
            else:
                next_expiry = min(next_expiry, batch.created + limit)
        for batch in expired:
            self._expire(batch)
        return next_expiry

    def _spawn(self, work: asyncio.coroutines.Coroutine[None, None, None], node: int) -> None:  # type: ignore[name-defined]
        if node in self._connecting:
            work.close()
            return
        self._connecting.add(node)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._connecting.discard(node)
            self.wake()

        task.add_done_callback(ended)

    async def _connect(self, node: int) -> None:
        """Connect to a node. While that takes long, as after failures, request metadata, because the leaders may have
        changed.
        """
        connecting = asyncio.ensure_future(self.connections.connect(node))
        try:
            while not (await asyncio.wait([connecting], timeout=self.config.retry_backoff_ms / 1000))[0]:
                self.metadata.request_update()
            connecting.result()
        except asyncio.CancelledError:
            connecting.cancel()
            raise
        except KafkaError as error:
            log.debug("Cannot connect to node %d; its batches wait, and the metadata is refreshed: %s", node, error)
            self.metadata.request_update()

    async def _get_producer_id(self) -> None:
        assert self.transactions is not None
        try:
            await self.transactions.get_producer_id()
        except KafkaError as error:
            if not error.retriable and error.code is not None:
                if isinstance(error, errors.ClusterAuthorizationFailedError):
                    error = self._no_topic_is_writable()
                log.debug(
                    "Cannot get a producer id; failing all queued batches (client.id=%s): %s",
                    self.connections.client_id,
                    error,
                )
                self.abort_batches(error)
            else:
                log.debug(
                    "Cannot get a producer id; retrying in %g s if records are pending (client.id=%s): %s",
                    ID_RETRY_SECONDS,
                    self.connections.client_id,
                    error,
                )
            await asyncio.sleep(ID_RETRY_SECONDS)

    def _no_topic_is_writable(self) -> errors.ClusterAuthorizationFailedError:
        """Return the error of a producer that gets no producer id, with the command that allows it to write."""
        topic = min((batch.tp.topic for batch in self.accumulator.pending()), default=PLACEHOLDER)
        return errors.ClusterAuthorizationFailedError(
            "The principal may not write to any topic: an idempotent producer requires WRITE on its topic, or "
            f"IDEMPOTENT_WRITE on the cluster. To allow it: {producer_command('User:NAME', topic)} (the broker's log "
            "has the principal)"
        )

    # Nodes

    def _send_to(self, node: int, now: float) -> None:
        if self._in_flight[node] >= self.config.max_in_flight_requests_per_connection:
            self.accumulator.note_ready(node, now, taken=False)
            return
        connection = self.connections.ready(node)
        self.accumulator.note_ready(node, now, taken=connection is not None)
        if connection is None:
            self._spawn(self._connect(node), node)
            return
        while self._in_flight[node] < self.config.max_in_flight_requests_per_connection:
            batches = self.accumulator.drain(
                self.metadata.cluster, node, self.config.max_request_size, now, self._may_send
            )
            if not batches:
                return
            self._send(node, connection, batches, now)

    def _may_send(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        if self.scope is not None and not self.scope.may_send(batch.tp):
            return False
        return self.transactions is None or self.transactions.may_send(batch)

    def abort_batches(self, error: KafkaError) -> None:
        """Fail all batches in the queues with `error`."""
        for batch in self.accumulator.abort():
            self._fail(batch, error)

    def _close_batch(self, batch: ProducerBatch) -> bool:
        """Number and encode a batch. If the encoding fails, let the batch fail, and return False."""
        # Only now that it is closed: the next sequence number depends on its count.
        if self.transactions is not None:
            self.transactions.number(batch)
        try:
            batch.finish(transactional=self.scope is not None)
        except Exception as error:  # an error of a codec must not fail other batches
            log.exception("%s: could not encode a batch; its %d record(s) fail", batch.tp, batch.count)
            self._fail(batch, SerializationError(f"{batch.tp}: could not encode the batch: {error}"))
            return False
        self.accumulator.shrink(batch)
        return True

    def _send(self, node: int, connection: BrokerConnection, batches: list[ProducerBatch], now: float) -> None:
        batches = [batch for batch in batches if self._close_batch(batch)]
        for batch in batches:
            self.metadata.touch(batch.tp.topic)
            batch.attempts += 1
            batch.last_attempt = now
            if self._keeps_order:
                self.accumulator.mute(batch.tp, True)
        if not batches:
            return
        self.metrics.record_sent(batches, now)
        self._on_the_way.update(dict.fromkeys(batches))
        request = ProduceRequest(
            transactional_id=self.scope.id if self.scope is not None else None,
            acks=self.config.acks,
            timeout_ms=self.config.replication_timeout_ms,
            topic_data=_by_topic(batches),
        )
        self._in_flight[node] += 1
        try:
            newest = JOINING_PRODUCE if self.scope is not None and self.scope.newer else NEWEST_PRODUCE
            version = connection.version(ProduceRequest, newest, OLDEST_PRODUCE)
        except KafkaError as error:
            self._handle_disconnect(node, batches, error)
            return
        if self.config.acks == 0:
            sent = connection.channel.send_without_response(request, version)
            sent.add_done_callback(lambda done: self._sent_without_acks(node, batches, done))
            return
        answered = connection.channel.send(request, version, self._response_timeout)
        answered.add_done_callback(lambda done: self._handle_response(node, batches, now, done))

    def _sent_without_acks(self, node: int, batches: list[ProducerBatch], done: asyncio.Future[None]) -> None:
        """Handle a request with acks=0, whose result is known when the socket has accepted it. It is never retried."""
        error = BrokerConnectionError("the client is closed") if done.cancelled() else done.exception()
        for batch in self._request_ended(node, batches):
            if error is not None:
                self._fail(batch, error if isinstance(error, KafkaError) else BrokerConnectionError(str(error)))
            else:
                self._succeed(batch, -1, -1)
        self.wake()

    def _handle_response(
        self, node: int, batches: list[ProducerBatch], sent_at: float, done: asyncio.Future[ProduceResponse]
    ) -> None:
        error = BrokerConnectionError("the client is closed") if done.cancelled() else done.exception()
        if error is not None:
            self._handle_disconnect(
                node, batches, error if isinstance(error, KafkaError) else BrokerConnectionError(str(error))
            )
            return
        answers = {
            TopicPartition(topic.name, partition.index): partition
            for topic in done.result().responses
            for partition in topic.partition_responses
        }
        now = self._clock.monotonic()
        self._measure(node, (now - sent_at) * 1000, done.result().throttle_time_ms, now)
        for batch in self._request_ended(node, batches):
            answer = answers.get(batch.tp)
            if answer is None:
                self._handle_failure(
                    batch, errors.UnknownServerError("the response does not contain the partition"), now
                )
            else:
                self._handle_partition(batch, answer, now)
        self.wake()

    def _measure(self, node: int, latency_ms: float, throttle_ms: int, now: float) -> None:
        self.metrics.record_latency(latency_ms, throttle_ms, now)
        self.connections.metrics.for_node(node).latency.record(latency_ms, now)

    def _handle_disconnect(self, node: int, batches: list[ProducerBatch], error: KafkaError) -> None:
        """Handle a request without a response. The broker may have written its batches."""
        now = self._clock.monotonic()
        self.metadata.request_update()
        for batch in self._request_ended(node, batches):
            self._handle_failure(batch, error, now)
        self.wake()

    def _request_ended(self, node: int, batches: list[ProducerBatch]) -> list[ProducerBatch]:
        """Handle the end of a request, with or without a response. Return its batches that have no result yet; release
        the memory of the others.
        """
        self._in_flight[node] -= 1
        for batch in batches:
            self._on_the_way.pop(batch, None)
        for batch in batches:
            if self._keeps_order:
                self.accumulator.mute(batch.tp, False)
            if batch.outcome.done:
                self.accumulator.retire(batch)
        return [batch for batch in batches if not batch.outcome.done]

    # Batches

    def _handle_partition(self, batch: ProducerBatch, answer: PartitionProduceResponse, now: float) -> None:
        leader = answer.current_leader
        if leader is not None and self.metadata.leader_changed(batch.tp, leader.leader_id, leader.leader_epoch):
            log.debug("%s: the leader is now node %d, which receives the next batches", batch.tp, leader.leader_id)
        if not answer.error_code or answer.error_code == errors.DuplicateSequenceNumberError.code:
            self._succeed(batch, answer.base_offset, answer.log_append_time_ms)
            return
        error = errors.for_code(answer.error_code)(
            with_name(answer.error_message, batch.tp.topic) if answer.error_message else None
        )
        if isinstance(error, errors.MessageTooLargeError) and batch.count > 1:
            parts = self.accumulator.split(batch)
            self.metrics.record_split()
            if self.transactions is not None:
                self.transactions.split(batch, parts)
            for part in reversed(parts):
                self.accumulator.put_back(part)
            return
        self._handle_failure(batch, error, now)

    def _handle_failure(self, batch: ProducerBatch, error: KafkaError, now: float) -> None:
        """Retry a batch if the error allows it, acks is not 0, and neither delivery.timeout.ms nor `retries` is
        exceeded; otherwise let it fail.
        """
        if error.refresh_metadata:
            self.metadata.request_update()
        in_time = now - batch.created < self._delivery_timeout
        again = error.retriable
        if self.transactions is not None and not again:
            again = in_time and self.transactions.may_retry(batch, error)
        if again and in_time and self.config.acks != 0 and batch.attempts <= self.config.retries:
            log.debug("%s: retrying a batch of %d record(s): %s", batch.tp, batch.count, error)
            batch.last_error = error
            self.metrics.record_retry(batch)
            self.accumulator.put_back(batch)
            return
        if again and not in_time:
            error = _too_late(batch, self._delivery_timeout, error)
        self._fail(batch, error)

    def _expire(self, batch: ProducerBatch) -> None:
        self._fail(batch, _too_late(batch, self._delivery_timeout, batch.last_error or self.metadata.error))

    def _succeed(self, batch: ProducerBatch, base_offset: int, append_time: int) -> None:
        if self.transactions is not None and batch.base_sequence != NO_SEQUENCE:
            self.transactions.acknowledged(batch)
        self.accumulator.retire(batch)
        batch.outcome.complete(base_offset, append_time)

    def _fail(self, batch: ProducerBatch, error: KafkaError) -> None:
        if batch.outcome.done:
            return
        if self.transactions is not None:
            self.transactions.failed(batch, certain=error.code is not None and not error.retriable)
        if self.scope is not None:
            self.scope.batch_failed(error)
        self.metrics.record_failure(batch.tp.topic, batch.count)
        if batch not in self._on_the_way:
            self.accumulator.retire(batch)
        batch.outcome.complete(-1, -1, error)


def _by_topic(batches: list[ProducerBatch]) -> list[TopicProduceData]:
    topics: dict[str, list[PartitionProduceData]] = {}
    for batch in batches:
        data = PartitionProduceData(index=batch.tp.partition, records=batch.data)
        topics.setdefault(batch.tp.topic, []).append(data)
    return [TopicProduceData(name=name, partition_data=data) for name, data in topics.items()]


def _too_late(batch: ProducerBatch, timeout: float, reason: KafkaError | None) -> KafkaTimeoutError:
    why = f"; last: {reason}" if reason is not None else ""
    return KafkaTimeoutError(f"{batch.tp}: {batch.count} records were not delivered within {timeout:g} s{why}")
