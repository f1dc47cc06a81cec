"""Records that wait to be sent, in batches by partition. Kafka's `RecordAccumulator`.

Any thread may append; the sender drains in the event loop. One lock protects the queues. It is never held for long: a
thread neither waits for memory nor compresses a batch while it holds the lock.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable

from ottla.backoff import ExponentialBackoff
from ottla.client.core.futures import ProduceRequestResult
from ottla.client.core.metadata import Cluster
from ottla.client.producer.batch import NO_SEQUENCE, Headers, PartitionQueue, ProducerBatch, Ready, TopicQueues
from ottla.client.producer.buffer_pool import BufferPool, closed_error
from ottla.model import TopicPartition
from ottla.records.appender import RecordFuture
from ottla.records.batch import read_header
from ottla.records.builder import BatchBuilder
from ottla.records.decoder import decode_records


class Sendable:
    """The work of the sender: the nodes for which batches are ready, the time of the next check, and the topics with a
    partition that has batches but no leader.
    """

    __slots__ = ("leaderless", "next_check", "nodes")

    def __init__(self) -> None:
        self.nodes: set[int] = set()
        self.next_check: float | None = None
        self.leaderless: set[str] = set()


class NodeTimes:
    """The monotonic times in seconds at which batches for a node were last ready, and up to which they could be
    drained.
    """

    __slots__ = ("drained", "ready")

    def __init__(self, now: float) -> None:
        self.ready = now
        self.drained = now


class Accumulator:
    """The batches of all partitions, and their memory. `wake` is called when the sender has work."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        memory_bytes: int,
        codec: int,
        level: int | None,
        linger: float,
        backoff: ExponentialBackoff,
        wake: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.batch_bytes = batch_bytes
        self.pool: BufferPool = BufferPool(memory_bytes, batch_bytes)
        self.topics: dict[str, TopicQueues] = {}
        self.lock: threading.Lock = threading.Lock()
        self.active: dict[TopicPartition, PartitionQueue] = {}
        """The queues that contain batches. An empty queue remains until the next call of `ready` or `abort`."""
        self.incomplete: dict[ProducerBatch, None] = {}
        """The batches in a queue, or in a request that has not ended. A dictionary is used as an ordered set."""
        self.flushing = 0
        self.closing = False
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the application, if the producer runs in it."""
        self.closed: bool = False
        """Whether the producer is closed. Appending then fails, because the record would never be sent."""
        self._codec = codec
        self._level = level
        self._linger = linger
        self._backoff = backoff
        self._wake = wake
        self._clock = clock
        self._drain_index: dict[int, int] = {}
        self._nodes: dict[int, NodeTimes] = {}

    # Appending (any thread)

    def topic(self, name: str) -> TopicQueues:
        """Return the queues of a topic. They are created if the topic is new."""
        queues = self.topics.get(name)
        if queues is None:
            with self.lock:
                queues = self.topics.setdefault(name, TopicQueues(name, 0))
        return queues

    def append(self, record: Ready) -> RecordFuture | None:
        """Append a record to the open batch of its partition. Return None if there is no open batch with room."""
        return record.queue.open.append(record.timestamp, record.key, record.value, record.headers)

    def buffer_bytes(self, record: Ready) -> int:
        """Return the buffer size for a new batch with this record."""
        return max(self.batch_bytes, record.size)

    def append_to_new(self, record: Ready, buffer: bytearray) -> RecordFuture:
        """Append a record to a new batch, which uses a buffer of the pool. A record that fills batch.size stays
        alone in its batch, even if the buffer has room for another small one.

        If another thread has meanwhile opened a batch with room, append to that one, and release the buffer. Raises
        IllegalStateError, and releases the buffer, if the producer is closed.
        """
        queue = record.queue
        batch = self.private_batch(queue, buffer)
        with self.lock:
            future = None if self.closed else self.append(record)
            if future is None and not self.closed:
                # A batch is never visible without a record: the sender might drain it.
                future = batch.open.append(record.timestamp, record.key, record.value, record.headers)
                assert future is not None, "a new batch has room for its first record"
                if batch.size >= self.batch_bytes:
                    batch.open.close()
                queue.batches.append(batch)
                queue.open = batch.open
                self.active[queue.tp] = queue
                self.incomplete[batch] = None
                buffer = bytearray()
        if buffer:
            self.pool.release(buffer)
        else:
            self._wake()
        if future is None:
            raise closed_error()
        return future

    def private_batch(self, queue: PartitionQueue, buffer: bytearray) -> ProducerBatch:
        """Create a batch that is in no queue yet. The caller fills it, and passes it to `add_closed`."""
        batch = ProducerBatch(queue.tp, BatchBuilder(buffer, self._codec, level=self._level), buffer, self._clock())
        batch.outcome.loop = self.loop
        return batch

    def add_closed(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Close `batch` and the open batch of its partition, and append `batch` to the partition's queue. Raises
        IllegalStateError, and releases the buffer of `batch`, if the producer is closed.
        """
        batch.open.close()
        with self.lock:
            if self.closed:
                self.pool.release(buffer_of(batch))
                raise closed_error()
            queue.open.close()
            queue.batches.append(batch)
            self.active[queue.tp] = queue
            self.incomplete[batch] = None
        self._wake()

    # Draining (event loop)

    def ready(self, cluster: Cluster, now: float) -> Sendable:
        """Return the work of the sender. The first batch of a queue that is not muted is ready if it is full, closed,
        followed by another one or at least linger.ms old; a retry is ready after its backoff. During a flush, while
        callers wait for memory, and while the producer closes, batches do not linger.
        """
        sendable = Sendable()
        hurry = self.flushing > 0 or self.closing or self.pool.queued > 0
        with self.lock:
            queues = list(self.active.values())
        for queue in queues:
            batch = self._head(queue)
            if batch is None or queue.muted:
                continue
            leader = cluster.leader(queue.tp)
            if leader < 0:
                sendable.leaderless.add(queue.tp.topic)
                continue
            due = self._due(batch, len(queue.batches), hurry)
            if due <= now:
                sendable.nodes.add(leader)
            elif sendable.next_check is None or due < sendable.next_check:
                sendable.next_check = due
        return sendable

    def _head(self, queue: PartitionQueue) -> ProducerBatch | None:
        with self.lock:
            if queue.batches:
                return queue.batches[0]
            self.active.pop(queue.tp, None)
            return None

    def _due(self, batch: ProducerBatch, queued: int, hurry: bool) -> float:
        """Return the monotonic time in seconds from which the first batch of a queue may be sent."""
        if batch.attempts > 0:
            return batch.last_attempt + self._backoff.backoff(batch.attempts - 1)
        if batch.open.closed or queued > 1 or hurry or batch.size >= self.batch_bytes:
            return 0.0
        return batch.created + self._linger

    def drain(
        self,
        cluster: Cluster,
        node: int,
        max_bytes: int,
        now: float,
        may_send: Callable[[PartitionQueue, ProducerBatch], bool],
    ) -> list[ProducerBatch]:
        """Remove, close and return batches for a node: at most one of each partition that the node leads, if the batch
        is ready and `may_send` returns true, up to `max_bytes` in total. The first batch may be larger than that.

        If there are several partitions, successive calls start with different ones, so that none starves.
        """
        with self.lock:
            led = [queue for queue in self.active.values() if cluster.leader(queue.tp) == node]
        if not led:
            return []
        led.sort(key=lambda queue: queue.tp)
        start = self._drain_index.get(node, 0) % len(led)
        hurry = self.flushing > 0 or self.closing or self.pool.queued > 0
        drained: list[ProducerBatch] = []
        size = 0
        for step in range(len(led)):
            queue = led[(start + step) % len(led)]
            with self.lock:
                if queue.muted or not queue.batches:
                    continue
                batch = queue.batches[0]
                if self._due(batch, len(queue.batches), hurry) > now:
                    continue
                if drained and size + batch.size > max_bytes:
                    self._drain_index[node] = start + step
                    break
                if not may_send(queue, batch):
                    continue
                queue.batches.popleft()
                batch.open.close()
            drained.append(batch)
            size += batch.size
        else:
            self._drain_index[node] = start + 1
        return drained

    def note_ready(self, node: int, now: float, taken: bool) -> None:
        """Record that batches are ready for a node, and whether they can be drained now."""
        times = self._nodes.get(node)
        if times is None:
            times = self._nodes[node] = NodeTimes(now)
        times.ready = now
        if taken:
            times.drained = now

    def stalled_for(self, node: int) -> float:
        """Return the seconds for which batches for a node have been ready but could not be drained; 0 if the last ones
        could, or if there were none. Thread-safe.
        """
        times = self._nodes.get(node)
        # The later time is read first: a change between the two reads can only make the result smaller.
        return 0.0 if times is None else times.ready - times.drained

    def shrink(self, batch: ProducerBatch) -> None:
        """If an encoded batch fills at most half of its buffer, copy it to separate memory, and release the buffer.

        Without this, many small batches in flight would use up the pool, and the next batches would be even smaller.
        """
        if batch.buffer is None or batch.data is None or batch.data.nbytes * 2 > len(batch.buffer):
            return
        batch.data = memoryview(bytearray(batch.data))
        buffer, batch.buffer = batch.buffer, None
        batch.held_bytes = batch.data.nbytes
        self.pool.exchange(buffer, batch.held_bytes)

    # Results (event loop)

    def put_back(self, batch: ProducerBatch) -> None:
        """Put a batch back into its queue for a retry, before the batches that follow it."""
        queue = self._queue(batch.tp)
        with self.lock:
            place = 0
            if batch.base_sequence != NO_SEQUENCE:
                # Several may come back in any order; those with sequence numbers are kept in that order.
                for waiting in queue.batches:
                    if waiting.base_sequence == NO_SEQUENCE or _after(waiting.base_sequence, batch.base_sequence):
                        break
                    place += 1
            queue.batches.insert(place, batch)
            self.active[batch.tp] = queue

    def _queue(self, tp: TopicPartition) -> PartitionQueue:
        queue: PartitionQueue = self.topics[tp.topic].queues[tp.partition]
        return queue

    def mute(self, tp: TopicPartition, muted: bool) -> None:
        """Mute a partition, so that its batches are not drained, or unmute it."""
        self._queue(tp).muted = muted

    def expired(self, now: float, timeout: float) -> tuple[list[ProducerBatch], float]:
        """Remove and return the batches at the heads of the queues that are at least `timeout` seconds old. The second
        result is a monotonic time before which no other head will be that old.
        """
        batches = []
        oldest = now
        with self.lock:
            for queue in self.active.values():
                while queue.batches and now - queue.batches[0].created >= timeout:
                    batch = queue.batches.popleft()
                    batch.open.close()
                    batches.append(batch)
                if queue.batches:
                    oldest = min(oldest, queue.batches[0].created)
        return batches, oldest + timeout

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Split a batch that the broker rejected as too large. Return the parts, which the caller must `put_back`."""
        assert batch.data is not None
        header = read_header(batch.data, 0)
        rows = decode_records(batch.data, 0, header)
        parts: list[tuple[int, ProduceRequestResult]] = []
        made: list[ProducerBatch] = []
        half = (len(rows) + 1) // 2
        for first in range(0, len(rows), half):
            some = rows[first : first + half]
            # Temporarily exceeds the pool: the parts are as large as the batch, whose buffer is released later.
            need = 61 + sum(64 + len(r.key or b"") + len(r.value or b"") + _headers_bound(r.headers) for r in some)
            builder = BatchBuilder(bytearray(need), self._codec, level=self._level)
            part = ProducerBatch(batch.tp, builder, None, batch.created)
            for r in some:
                assert builder.append(r.timestamp, r.key, r.value, r.headers), (
                    "the upper bound of the record's size was too low"
                )
            part.open.close()
            parts.append((first, part.outcome))
            made.append(part)
        with self.lock:
            self.incomplete.update(dict.fromkeys(made))
        batch.outcome.split(parts)
        self.retire(batch)
        return made

    def retire(self, batch: ProducerBatch) -> None:
        """Release the memory of a batch that was acknowledged, has failed, or was split."""
        with self.lock:
            self.incomplete.pop(batch, None)
            buffer, batch.buffer = batch.buffer, None
            held, batch.held_bytes = batch.held_bytes, 0
        batch.data = None
        if buffer is not None:
            self.pool.release(buffer)
        elif held:
            self.pool.release_bytes(held)

    def close(self) -> list[ProducerBatch]:
        """Let further appends fail, empty all queues, and return the batches that were in them."""
        with self.lock:
            self.closed = True
        self.pool.close()
        return self.abort()

    def abort(self) -> list[ProducerBatch]:
        """Empty all queues, and return the batches that were in them."""
        with self.lock:
            batches = [batch for queue in self.active.values() for batch in queue.batches]
            for queue in self.active.values():
                queue.batches.clear()
            self.active.clear()
        for batch in batches:
            batch.open.close()
        return batches

    def pending(self) -> Iterable[ProducerBatch]:
        """Return the batches in queues, and in requests that have not ended."""
        with self.lock:
            return list(self.incomplete)


def buffer_of(batch: ProducerBatch) -> bytearray:
    """Take the buffer out of a batch that was never sent, and return it."""
    buffer, batch.buffer = batch.buffer, None
    assert buffer is not None
    return buffer


def _headers_bound(headers: Headers) -> int:
    return sum(16 + len(name.encode()) + len(value or b"") for name, value in headers)


def _after(sequence: int, other: int) -> bool:
    """Return whether a sequence number comes after another one. They wrap around at 2^31."""
    return 0 < (sequence - other) & 0x7FFFFFFF < 0x40000000
