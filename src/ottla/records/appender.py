"""The open batch, and appending to it from any thread: the inner part of the producers' send().

The compiled `append` is atomic, because it keeps the interpreter's lock after checking `closed`; the plain form uses
a lock. With appender.pxd.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from ottla.records import _cython as cython

from ottla.records.builder import NO_HEADERS, BatchBuilder, encode_headers

if cython.compiled:
    from cython.cimports.cpython.time import time as _clock
else:
    from ottla.records.murmur2 import murmur2
    from ottla.records.tuples import tuple_of

if TYPE_CHECKING:
    from ottla.records.builder import Headers

NOW = -1
"""The timestamp that stands for the time of the call."""

_NO_ITEMS = ()


class OpenBatch:
    """A batch under construction. `future` is a subclass of tuple; every appended record gets an instance.

    The items of the tuple are (outcome, index in the batch, timestamp, key size, value size). The size of None is -1.
    """

    __slots__ = ("builder", "closed", "future", "lock", "outcome")

    def __init__(self, builder: BatchBuilder, outcome: Any, future: type[Any]) -> None:
        self.builder = builder
        self.outcome = outcome
        self.future = future
        self.closed = False
        self.lock = None if cython.compiled else threading.Lock()

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers | None) -> Any:
        """Append a record and return its future.

        If the record does not fit, close the batch. Returns None if the batch is closed. `timestamp`: milliseconds
        since 1970, or NOW.
        """
        # Calls that may run Python code come first.
        tail = encode_headers(headers) if headers else NO_HEADERS
        if cython.compiled:
            if timestamp == NOW:
                timestamp = _now_ms()
            return self._append(timestamp, key, value, tail)
        with self.lock:  # type: ignore[union-attr]
            return self._append(time.time_ns() // 1_000_000 if timestamp == NOW else timestamp, key, value, tail)

    def _append(self, timestamp: int, key: bytes | None, value: bytes | None, tail: bytes) -> Any:
        if self.closed:
            return None
        builder = self.builder
        index = builder.count
        if not builder._append(builder.base_offset + builder.last_delta + 1, timestamp, key, value, tail):
            self.closed = True
            return None
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        return tuple_of(self.future, _NO_ITEMS, (self.outcome, index, timestamp, key_size, value_size))

    def close(self) -> None:
        """Close the batch: later calls of `append` return None."""
        if self.lock is None:
            self.closed = True
        else:
            with self.lock:
                self.closed = True


class DirectAppender:
    """The producers' fast path: appends plain records of bytes to the open batches of their partitions.

    `topics` has the queues of each topic. They are used only while their version is that of `metadata`. `sticky(queues,
    size)` returns the partition of a record without a key.
    """

    __slots__ = ("enabled", "metadata", "sticky", "topics")

    def __init__(self, topics: dict[str, Any], metadata: Any, sticky: Any) -> None:
        self.topics = topics
        self.metadata = metadata
        self.sticky = sticky
        self.enabled = False
        """Whether the producer is open and has no serializers, interceptors, transactions or partitioner."""

    def append(self, topic: Any, value: Any, key: Any, partition: Any, timestamp_ms: Any) -> Any:
        """Append a record, and return its future.

        Returns the record's partition if the open batch has no room, and None if the record is not plain or the fast
        path is not enabled.
        """
        if not self.enabled or type(value) is not bytes or type(topic) is not str:
            return None
        queues = self.topics.get(topic)
        if queues is None or queues.version != self.metadata.version:
            return None
        if key is not None and type(key) is not bytes:
            return None
        count = queues.count
        if partition is not None:
            if not 0 <= partition < count:
                return None
            number = partition
        elif key is None:
            number = self.sticky(queues, len(value))
        else:
            number = (murmur2(key) & 0x7FFFFFFF) % count
        timestamp = NOW if timestamp_ms is None else timestamp_ms
        if timestamp < 0 and timestamp_ms is not None:
            return None
        batch = queues.queues[number].open
        future = batch.append(timestamp, key, value, None)
        return number if future is None else future


def _now_ms() -> int:
    """Return the milliseconds since 1970. Only used in the compiled form."""
    return int(_clock() * 1000)
