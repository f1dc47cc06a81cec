"""The batch that is being filled, and the way into it from any thread: the inner part of the producer's send().

Compiled, `append` is atomic because it never gives up the interpreter's lock once it has looked at `closed`; the plain
form takes a lock. With appender.pxd.
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

if TYPE_CHECKING:
    from ottla.records.builder import Headers

NOW = -1
"""The timestamp that means the time of the call."""

_make = tuple.__new__


class OpenBatch:
    """A batch in the making. `future` is a subclass of tuple, made for every record that is taken.

    Its items are (outcome, index in the batch, timestamp, key size, value size), sizes -1 for None.
    """

    __slots__ = ("builder", "closed", "future", "lock", "outcome")

    def __init__(self, builder: BatchBuilder, outcome: Any, future: type[Any]) -> None:
        self.builder = builder
        self.outcome = outcome
        self.future = future
        self.closed = False
        self.lock = None if cython.compiled else threading.Lock()

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers | None) -> Any:
        """Take a record and return its future; None when the batch is closed, or closes for want of room.

        Timestamp in milliseconds since 1970, or NOW.
        """
        # What may run Python code comes first.
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
        return _make(self.future, (self.outcome, index, timestamp, key_size, value_size))

    def close(self) -> None:
        """Take no more records."""
        if self.lock is None:
            self.closed = True
        else:
            with self.lock:
                self.closed = True


def _now_ms() -> int:
    """Milliseconds since 1970, where this is compiled."""
    return int(_clock() * 1000)
