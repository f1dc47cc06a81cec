"""The producers' hot path: from send() to the open batch of a partition, and the future of the record.

The compiled `OpenBatch.append` is atomic, because it does not release the GIL between checking `closed` and adding the
record. In free-threaded Python, it holds the batch's critical section instead; the plain form uses a lock. Another
thread may replace `PartitionAppender.open` and extend `TopicAppender.queues` at any time, so the fast path reads them
through `current` and `queue_of`, which take a reference before the old object can be freed. Compiled with appender.pxd.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from ottla.records import _cython as cython

from ottla.errors import KafkaTimeoutError
from ottla.model import ProducerRecord, RecordMetadata
from ottla.records.builder import NO_HEADERS, BatchBuilder, encode_headers

if cython.compiled:
    from cython.cimports.cpython.time import time as _clock
    from cython.cimports.ottla.records.gc_tracking import untrack
else:
    from ottla.records.murmur2 import murmur2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.records.builder import Headers

log = logging.getLogger("ottla.client")

NOW = -1
"""The timestamp that stands for the time of the call."""


class RecordFuture:
    """The future of a record: `get`, `await` and callbacks provide its metadata, or its error.

    It has no lock and no event: the result of the batch (`ProduceRequestResult`) is completed once.
    """

    __slots__ = ("_index", "_key_size", "_outcome", "_timestamp", "_value_size")

    def __init__(self, outcome: Any, index: int, timestamp: int, key_size: int, value_size: int) -> None:
        """`index` is the record's position in the batch. Sizes are in bytes; -1 for None, or if the record failed
        before it was in a batch.
        """
        self._outcome = outcome
        self._index = index
        self._timestamp = timestamp
        self._key_size = key_size
        self._value_size = value_size

    @property
    def outcome(self) -> Any:
        """The `ProduceRequestResult` of the record, which all records of its batch share."""
        return self._outcome

    @property
    def timestamp(self) -> int:
        """The timestamp with which the record was sent; -1 if the record failed before it was in a batch."""
        return self._timestamp

    @property
    def value_size(self) -> int:
        """Bytes of the value; -1 for None, or if the record failed before it was in a batch."""
        return self._value_size

    def __repr__(self) -> str:
        outcome = self._outcome
        state = "pending" if not outcome.done else f"failed: {outcome.error}" if outcome.error else "acknowledged"
        return f"<RecordFuture {outcome.tp} {state}>"

    def done(self) -> bool:
        """Return whether the record was acknowledged or has failed."""
        done: bool = self._outcome.done
        return done

    @property
    def is_done(self) -> bool:
        """Whether the record was acknowledged or has failed."""
        return self.done()

    def succeeded(self) -> bool:
        """Return whether the record was acknowledged."""
        return self.done() and self.exception() is None

    def failed(self) -> bool:
        """Return whether the record has failed."""
        return self.done() and self.exception() is not None

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the acknowledgement and return the record's metadata.

        Raises the record's error, KafkaTimeoutError if the record is still pending after `timeout` seconds (None: no
        limit), or IllegalStateError if it is pending and the caller cannot wait for it: in a client's I/O thread, in
        the event loop of an asyncio producer, or in a process that was forked after the send.
        """
        self._wait(timeout)
        return self._result()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return what `get` returns."""
        return self.get(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the result, and return the record's error; None if the record was acknowledged.

        Raises KafkaTimeoutError and IllegalStateError like `get`.
        """
        self._wait(timeout)
        error: BaseException | None = self._outcome.result_of(self._index)[0].error
        return error

    def _wait(self, timeout: float | None) -> None:
        if not self._outcome.wait(timeout):
            raise KafkaTimeoutError(f"{self._outcome.tp}: no acknowledgement within {timeout:g} s")

    def _result(self) -> RecordMetadata:
        outcome, index = self._outcome.result_of(self._index)
        if outcome.error is not None:
            raise outcome.error
        timestamp, kind = (self._timestamp, 0) if outcome.append_time < 0 else (outcome.append_time, 1)
        offset = outcome.base_offset + index if outcome.base_offset >= 0 else -1
        tp = outcome.tp
        return RecordMetadata(tp.topic, tp.partition, offset, timestamp, kind, self._key_size, self._value_size)

    def add_done_callback(self, callback: Callable[[RecordFuture], Any]) -> None:
        """Call `callback(future)` when the record is acknowledged or has failed, in the producer's I/O thread or event
        loop; immediately, in the calling thread, if the result is already available.
        """
        self._outcome.when_done(lambda: _guarded(callback, self))

    def add_callback(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> RecordFuture:
        """Call `callback(*args, metadata, **kwargs)` when the record is acknowledged, in the producer's I/O thread or
        event loop; immediately, in the calling thread, if it already is.
        """

        def call() -> None:
            if self.exception() is None:
                _guarded(callback, *args, self._result(), **kwargs)

        self._outcome.when_done(call)
        return self

    def add_errback(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> RecordFuture:
        """Call `callback(*args, error, **kwargs)` when the record has failed, in the producer's I/O thread or event
        loop; immediately, in the calling thread, if it already has.
        """

        def call() -> None:
            error = self.exception()
            if error is not None:
                _guarded(callback, *args, error, **kwargs)

        self._outcome.when_done(call)
        return self

    def add_both(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> RecordFuture:
        """Add `callback` for both outcomes: it gets the metadata or the error."""
        return self.add_callback(callback, *args, **kwargs).add_errback(callback, *args, **kwargs)

    def report_to(self, callback: Callable[[RecordMetadata | None, BaseException | None], Any]) -> None:
        """Call `callback(metadata, None)` when the record is acknowledged, or `callback(None, error)` when it has
        failed, in the producer's I/O thread or event loop; immediately, in the calling thread, if the result is already
        available. Unlike Java's Callback, `callback` gets no metadata with an error.
        """

        def call() -> None:
            error = self.exception()
            _guarded(callback, None if error is not None else self._result(), error)

        self._outcome.when_done(call)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        yield from self._outcome.wait_in_loop()
        return self._result()


def _guarded(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    try:
        callback(*args, **kwargs)
    except Exception:  # an error in a user's callback must not stop the I/O thread
        log.exception("Ignoring an exception of the producer's delivery callback %r", callback)


class OpenBatch:
    """A batch under construction. `outcome` is its result, which every appended record's future refers to."""

    __slots__ = ("builder", "closed", "lock", "outcome")

    def __init__(self, builder: BatchBuilder, outcome: Any) -> None:
        self.builder: BatchBuilder = builder
        self.outcome: Any = outcome
        self.closed: bool = False
        self.lock: threading.Lock | None = None if cython.compiled else threading.Lock()

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers | None
    ) -> RecordFuture | None:
        """Append a record and return its future.

        If the record does not fit, close the batch. Returns None if the batch is closed. `timestamp`: milliseconds
        since 1970, or NOW.
        """
        # Calls that may run Python code come first.
        tail = encode_headers(headers) if headers else NO_HEADERS
        if cython.compiled:
            if timestamp == NOW:
                timestamp = _now_ms()
            with cython.critical_section(self):
                return self._append(timestamp, key, value, tail)
        with self.lock:  # type: ignore[union-attr]
            return self._append(time.time_ns() // 1_000_000 if timestamp == NOW else timestamp, key, value, tail)

    def _append(self, timestamp: int, key: bytes | None, value: bytes | None, tail: bytes) -> RecordFuture | None:
        if self.closed:
            return None
        builder = self.builder
        index = builder.count
        if not builder._append(builder.base_offset + builder.last_delta + 1, timestamp, key, value, tail):
            self.closed = True
            return None
        future = RecordFuture.__new__(RecordFuture)
        if cython.compiled:
            untrack(future)  # the result refers to futures only until it is complete
        future._outcome = self.outcome
        future._index = index
        future._timestamp = timestamp
        future._key_size = -1 if key is None else len(key)
        future._value_size = -1 if value is None else len(value)
        return future

    def close(self) -> None:
        """Close the batch: later calls of `append` return None."""
        if cython.compiled:
            with cython.critical_section(self):
                self.closed = True
        else:
            with self.lock:  # type: ignore[union-attr]
                self.closed = True


class PartitionAppender:
    """The batch of one partition to which the fast path appends records."""

    __slots__ = ("open",)

    def __init__(self, batch: OpenBatch) -> None:
        self.open: OpenBatch = batch
        """The batch to which records are appended. It may be closed."""

    def current(self) -> OpenBatch:
        """Return `open`. Safe while another thread replaces it."""
        if cython.compiled:
            with cython.critical_section(self):
                return self.open
        return self.open


class TopicAppender:
    """The appenders of a topic's partitions. `version`: the version of the metadata that `count` is from, or -1."""

    __slots__ = ("count", "queues", "sticky_left", "sticky_partition", "version")

    def __init__(self, count: int, queues: list[Any]) -> None:
        self.count: int = count
        """The number of partitions."""
        self.queues: list[Any] = queues
        """The `PartitionAppender` of each partition, at the index of its number."""
        self.version: int = -1
        self.sticky_partition: int = -1
        """The partition for records whose key does not determine it; -1 before the first choice. Another choice follows
        after about `sticky_left` more bytes of such records.
        """
        self.sticky_left: int = 0

    def queue_of(self, partition: int) -> Any:
        """Return the `PartitionAppender` of a partition. Safe while another thread adds partitions."""
        if cython.compiled:
            with cython.critical_section(self.queues):
                return self.queues[partition]
        return self.queues[partition]


class DirectAppender:
    """The producers' fast path: appends plain records of bytes to the open batches of their partitions.

    It appends only to topics whose `version` is that of the newest metadata (`DirectAppender.version`).
    `choose_sticky(topic_appender)` sets the topic's `sticky_partition` and `sticky_left`.
    """

    __slots__ = ("choose_sticky", "enabled", "topics", "version")

    def __init__(self, topics: dict[str, Any], choose_sticky: Callable[[Any], Any]) -> None:
        self.topics: dict[str, Any] = topics
        self.choose_sticky: Callable[[Any], Any] = choose_sticky
        self.version: int = 0
        self.enabled: bool = False
        """Whether the producer is open and nothing prevents the fast path, such as serializers or transactions."""

    def append(self, topic: Any, value: Any, key: Any, partition: Any, timestamp_ms: Any) -> Any:
        """Append a record, and return its future.

        Returns the record's partition if it has no open batch with room. Returns None if the fast path cannot append
        the record: it is not enabled, the topic is not a str, the value is not bytes, the key is neither bytes nor
        None, the partition or the timestamp is out of range, or the topic's metadata is unknown or not the newest.
        """
        if not self.enabled or type(value) is not bytes or type(topic) is not str:
            return None
        appenders: TopicAppender | None = self.topics.get(topic)
        if appenders is None or appenders.version != self.version:
            return None
        if key is not None and type(key) is not bytes:
            return None
        count = appenders.count
        if partition is not None:
            if not 0 <= partition < count:
                return None
            number = partition
        elif key is None:
            number = self.sticky(appenders, len(value))
        else:
            number = (murmur2(key) & 0x7FFFFFFF) % count
        timestamp = NOW if timestamp_ms is None else timestamp_ms
        if timestamp < 0 and timestamp_ms is not None:
            return None
        queue: PartitionAppender = appenders.queue_of(number)
        future = queue.current().append(timestamp, key, value, None)
        return number if future is None else future

    def sticky(self, appenders: TopicAppender, size: int) -> int:
        """Return the sticky partition for records of `size` bytes, and subtract `size` from `sticky_left`."""
        if appenders.sticky_left <= 0:
            self.choose_sticky(appenders)
        appenders.sticky_left -= size
        return appenders.sticky_partition


class DirectSender:
    """The method `send` of the synchronous producer, with the fast path. Subclasses have the general path, `_send`."""

    __slots__ = ("_direct",)

    def __init__(self, direct: DirectAppender) -> None:
        self._direct = direct

    def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        key: Any = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        """Send a record, and return the future of its metadata. `send(ProducerRecord(…), callback)` works as in Java.

        `timestamp_ms` is in milliseconds since 1970 (default: now); the partitioner chooses `partition` if it is None.
        Blocks for up to max.block.ms while metadata or memory is missing. Raises KafkaTimeoutError,
        BufferExhaustedError, SerializationError, IllegalStateError (closed, or no open transaction), ValueError or
        TypeError for invalid arguments, and the error of a transaction that has failed. Other errors that a broker can
        return as well (such as a record that is too large, or a lack of authorization) are set on the future and passed
        to the callback instead.
        """
        # The fast path for a plain record of bytes whose topic is known; everything else below.
        if headers is None:
            appended = self._direct.append(topic, value, key, partition, timestamp_ms)
            if type(appended) is RecordFuture:
                return appended
            if appended is not None:
                partition = appended
        if isinstance(topic, ProducerRecord):
            return self._send(topic, value)
        return self._send(ProducerRecord(topic, value, key, headers, partition, timestamp_ms), None)

    def _send(self, record: ProducerRecord, callback: Callable[..., Any] | None) -> RecordFuture:
        raise NotImplementedError


def _now_ms() -> int:
    """Return the milliseconds since 1970. Only used in the compiled form."""
    return int(_clock() * 1000)
