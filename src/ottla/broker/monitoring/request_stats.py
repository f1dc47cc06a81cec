"""Counters and times of the requests of each API: Kafka's `RequestMetrics`.

Most requests are answered in the step of the event loop that receives them, so that their whole time is local. The
others wait, for example for other brokers, new records or a worker: their time until they start to wait is local, the
rest is remote. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from ottla.latency import LatencyHistogram
from ottla.protocol.message import Response, Struct

R = TypeVar("R")

QUEUE_SAMPLING: Final = 8
"""The queue time is measured for one in this many requests."""
COUNTED_AT_ONCE: Final = 256
"""Number of items of a large response whose error codes are counted before other tasks may run."""
ERROR_CODE: Final = "error_code"
PARTITION_ERROR_CODE: Final = "partition_error_code"
"""The field of a partition's result in AddPartitionsToTxn that other messages name `error_code`."""

CountErrors = Callable[[Any, dict[int, int]], None]


class LoopTime(Protocol):
    """The interface that reports when the event loop began its current iteration."""

    @property
    def woken_at(self) -> float:
        """The time at which the sockets were polled last, in seconds of `time.perf_counter`."""
        ...


class ApiStats:
    """The counters and times of one API."""

    __slots__ = (
        "_count_errors",
        "_loop_time",
        "deferred",
        "errors",
        "inline",
        "name",
        "queue",
        "remote",
        "request_bytes",
        "send",
        "started",
        "throttle",
        "total",
        "versions",
        "waiting",
    )

    def __init__(self, name: str, loop_time: LoopTime | None) -> None:
        self.name = name
        self._loop_time = loop_time
        self._count_errors: CountErrors | None = None
        self.versions: dict[int, int] = {}
        """The number of requests by version."""
        self.errors: dict[int, int] = {}
        """The number of occurrences in fields `error_code` (in AddPartitionsToTxn also `partition_error_code`) of
        responses, by error code; code 0 is success.
        """
        self.request_bytes = 0
        self.started = 0
        self.inline = LatencyHistogram()
        """Total time, in seconds, of requests that were answered at once."""
        self.deferred = LatencyHistogram()
        """Local time (Kafka's LocalTimeMs) of requests that were not answered at once."""
        self.remote = LatencyHistogram()
        self.total = LatencyHistogram()
        """`remote` and `total`: Kafka's RemoteTimeMs and TotalTimeMs, in seconds, of requests that were not answered at
        once.
        """
        self.queue = LatencyHistogram()
        self.throttle = LatencyHistogram()
        self.send = LatencyHistogram()
        """Time until the socket accepted a response, for responses that it did not accept at once."""
        self.waiting = 0
        """The number of requests that are not answered yet."""

    def record(self, version: int, nbytes: int, began: float) -> None:
        """Count a request that was answered at once. `began`: the start of its processing, in seconds of
        `time.perf_counter`.
        """
        self.inline.record(time.perf_counter() - began)
        self._count(version, nbytes, began)

    async def measured(self, reply: Awaitable[R], version: int, nbytes: int, began: float) -> R:
        """Await a response, and count its request."""
        handled = time.perf_counter()
        self.deferred.record(handled - began)
        self._count(version, nbytes, began)
        self.waiting += 1
        try:
            return await reply
        finally:
            self.waiting -= 1
            ended = time.perf_counter()
            self.remote.record(ended - handled)
            self.total.record(ended - began)

    def _count(self, version: int, nbytes: int, began: float) -> None:
        try:
            self.versions[version] += 1
        except KeyError:
            self.versions[version] = 1
        self.request_bytes += nbytes
        self.started += 1
        if self._loop_time is not None and not self.started % QUEUE_SAMPLING:
            self.queue.record(began - self._loop_time.woken_at)

    def count_errors(self, response: Response) -> None:
        """Count the values of the fields `error_code` in a response."""
        count = self._count_errors
        if count is None:
            count = self._count_errors = _counter(type(response)) or _count_none
        count(response, self.errors)

    async def count_errors_in_slices(self, response: Response) -> None:
        """Count the values of the fields `error_code` in a large response; other tasks may run in between."""
        done = 0
        if hasattr(response, "error_code"):
            _count_own(response, self.errors)
        for field in type(response).FIELDS:
            count = _counter(field.element) if field.kind == "array" else None
            for item in (getattr(response, field.name) or ()) if count is not None else ():
                assert count is not None
                count(item, self.errors)
                done += 1
                if done % COUNTED_AT_ONCE == 0:
                    await asyncio.sleep(0)


class RequestStats:
    """The counters and times of all APIs that were requested."""

    def __init__(self, loop_time: LoopTime | None = None) -> None:
        self._loop_time = loop_time
        self._apis: dict[str, ApiStats] = {}

    def add(self, name: str) -> ApiStats:
        """Return the counters of an API; create them if there are none yet."""
        return self._apis.setdefault(name, ApiStats(name, self._loop_time))

    def get(self, name: str) -> ApiStats | None:
        return self._apis.get(name)

    @property
    def apis(self) -> Mapping[str, ApiStats]:
        return self._apis


def _count_none(_response: Any, errors: dict[int, int]) -> None:
    """Count a response without a field `error_code` as a success."""
    errors[0] = errors.get(0, 0) + 1


def _counter(struct: Any) -> CountErrors | None:
    """Return a function that counts the error codes in a structure and in the structures of its arrays.

    None if there are none.
    """
    if not (isinstance(struct, type) and issubclass(struct, Struct)):
        return None
    names = {field.name for field in struct.FIELDS}
    if PARTITION_ERROR_CODE in names:
        return _count_partition
    has_own = ERROR_CODE in names
    arrays = [
        (field.name, count)
        for field in struct.FIELDS
        if field.kind == "array" and (count := _counter(field.element)) is not None
    ]
    if not arrays:
        return _count_own if has_own else None

    def count_all(value: Any, errors: dict[int, int]) -> None:
        if has_own:
            _count_own(value, errors)
        for name, count in arrays:
            items = getattr(value, name) or ()
            if count is _count_own:  # without a call for each
                for item in items:
                    errors[item.error_code] = errors.get(item.error_code, 0) + 1
            else:
                for item in items:
                    count(item, errors)

    return count_all


def _count_partition(value: Any, errors: dict[int, int]) -> None:
    _count(value.partition_error_code, errors)


def _count_own(value: Any, errors: dict[int, int]) -> None:
    _count(value.error_code, errors)


def _count(code: int, errors: dict[int, int]) -> None:
    try:
        errors[code] += 1
    except KeyError:
        errors[code] = 1
