"""Sends what producer-perf-test sends, and measures it, with little work per record.

Records of a batch are acknowledged together, so one callback per batch notes the time. The sending thread counts then,
so that no lock is needed, and neither thread waits for the other.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from queue import SimpleQueue
from typing import Final

from ottla.cli.framework.throughput_throttler import ThroughputThrottler
from ottla.cli.perf.producer_report import Report
from ottla.client.core.futures import Outcome, RecordFuture
from ottla.client.producer.producer import KafkaProducer
from ottla.clock import now_ms
from ottla.errors import KafkaTimeoutError

_timestamp: Final = itemgetter(2)
_size: Final = itemgetter(4)


class _Group:
    """Records of one batch that were sent one after the other."""

    __slots__ = ("done", "ended", "futures", "reports")

    def __init__(self, outcome: Outcome, reports: tuple[Report, ...], done: SimpleQueue[_Group]) -> None:
        self.futures: list[RecordFuture] = []
        """The sending thread's, which looks for groups that are done only when it has added the last to this one."""
        self.reports = reports
        self.done = done
        self.ended = 0
        outcome.when_done(self._end)

    def _end(self) -> None:
        """On the I/O thread."""
        self.ended = now_ms()
        self.done.put(self)


class Load:
    """Records on their way to a topic, `rate` per second (below 0: as many as can be)."""

    def __init__(
        self, producer: KafkaProducer, topic: str, payloads: Iterator[bytes], rate: float, transaction_ms: int | None
    ) -> None:
        self.producer = producer
        self.topic = topic
        self.failed = 0
        """Records that were refused."""
        self._payloads = payloads
        self._pace = ThroughputThrottler(rate)
        self._sent = 0
        self._transaction_ms = transaction_ms
        self._transaction_start: int | None = None
        self._groups = 0
        """Those that were not counted yet."""
        self._done: SimpleQueue[_Group] = SimpleQueue()
        self._told: set[type[BaseException]] = set()

    def send(self, count: int, *reports: Report) -> None:
        """Send so many, and count them in these reports."""
        paced, transactional = self._pace.is_limited, self._transaction_ms is not None
        topic, payloads, send = self.topic, self._payloads, self.producer.send
        outcome = None
        futures: list[RecordFuture] = []
        for number in range(self._sent, self._sent + count):
            if paced:
                self._pace.wait(number)
            if transactional:
                self._begin()
            future = send(topic, next(payloads))
            if future[0] is not outcome:
                self.take()
                outcome = future[0]
                futures = self._group(outcome, reports).futures
            futures.append(future)
            if transactional:
                self._commit_in_time(future)
        self._sent += count

    def finish(self, interval: int) -> None:
        """Wait for all of them; what is acknowledged in between is counted each `interval` ms."""
        if self._transaction_start is not None:
            self.producer.commit_transaction()
        while not self._flushed(interval / 1000):
            self.take()
        while self._groups:
            self._count(self._done.get())

    def take(self) -> None:
        """Count what has been acknowledged since."""
        while not self._done.empty():
            self._count(self._done.get())

    def _group(self, outcome: Outcome, reports: tuple[Report, ...]) -> _Group:
        self._groups += 1
        return _Group(outcome, reports, self._done)

    def _count(self, group: _Group) -> None:
        self._groups -= 1
        futures = group.futures
        if futures[0][0].error is not None:
            futures = self._sent_ones(futures)
        if not futures:
            return
        latencies = {max(0, group.ended - at): n for at, n in Counter(map(_timestamp, futures)).items()}
        size = sum(map(_size, futures))
        for report in group.reports:
            report.add(latencies, size, group.ended)

    def _sent_ones(self, futures: list[RecordFuture]) -> list[RecordFuture]:
        """A batch that was split may have failed in part. Each kind of error is told once."""
        sent = []
        for future in futures:
            error = future.exception()
            if error is None:
                sent.append(future)
                continue
            self.failed += 1
            if type(error) not in self._told:
                self._told.add(type(error))
                print(f"ottla: {self.topic}: {error}", file=sys.stderr)
        return sent

    def _flushed(self, seconds: float) -> bool:
        try:
            self.producer.flush(seconds)
        except KafkaTimeoutError:
            return False
        return True

    def _begin(self) -> None:
        if self._transaction_start is None:
            self.producer.begin_transaction()
            self._transaction_start = now_ms()

    def _commit_in_time(self, last: RecordFuture) -> None:
        assert self._transaction_ms is not None
        assert self._transaction_start is not None
        if _timestamp(last) - self._transaction_start >= self._transaction_ms:
            self.producer.commit_transaction()
            self._transaction_start = None
