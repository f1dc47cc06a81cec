"""The load of producer-perf-test: sends records and measures their latencies, with little work per record.

The records of a batch are acknowledged together, so one callback notes the time for consecutive records of a batch.
The sending thread adds up the latencies, so that no lock is needed and the I/O thread does not wait.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from queue import SimpleQueue
from typing import Final

from ottla.cli.perf.producer_report import Report
from ottla.cli.perf.throughput_throttler import ThroughputThrottler
from ottla.client.core.futures import ProduceRequestResult
from ottla.client.producer.producer import KafkaProducer
from ottla.clock import now_ms
from ottla.errors import KafkaTimeoutError
from ottla.records.appender import RecordFuture

_timestamp: Final = attrgetter("timestamp")
_size: Final = attrgetter("value_size")


class _Group:
    """Consecutive records in the same batch, which are counted together after they are acknowledged or have failed."""

    __slots__ = ("done", "ended", "futures", "reports")

    def __init__(self, outcome: ProduceRequestResult, reports: tuple[Report, ...], done: SimpleQueue[_Group]) -> None:
        self.futures: list[RecordFuture] = []
        """The results of the records. Only the sending thread uses them: it counts a completed group only after it has
        added the group's last record.
        """
        self.reports = reports
        self.done = done
        self.ended = 0
        outcome.when_done(self._end)

    def _end(self) -> None:
        """Record the time at which the batch was acknowledged or failed. Called in the I/O thread, or in the sending
        thread if the batch is already complete.
        """
        self.ended = now_ms()
        self.done.put(self)


class Load:
    """Sends records to a topic, about `rate` per second (negative: no limit). `transaction_ms` is the time in
    milliseconds after which each transaction is committed; None: no transactions.
    """

    def __init__(
        self, producer: KafkaProducer, topic: str, payloads: Iterator[bytes], rate: float, transaction_ms: int | None
    ) -> None:
        self.producer = producer
        self.topic = topic
        self.failed = 0
        """The number of records that have failed."""
        self._payloads = payloads
        self._throttler = ThroughputThrottler(rate)
        self._sent = 0
        self._transaction_ms = transaction_ms
        self._transaction_start: int | None = None
        self._groups = 0
        """The number of groups that have not been counted yet."""
        self._done: SimpleQueue[_Group] = SimpleQueue()
        self._reported: set[type[BaseException]] = set()

    def send(self, count: int, *reports: Report) -> None:
        """Send `count` records. Those that are acknowledged are counted in all of these reports."""
        throttled, transactional = self._throttler.is_limited, self._transaction_ms is not None
        topic, payloads, send = self.topic, self._payloads, self.producer.send
        outcome = None
        futures: list[RecordFuture] = []
        for number in range(self._sent, self._sent + count):
            if throttled:
                self._throttler.wait(number)
            if transactional:
                self._begin()
            future = send(topic, next(payloads))
            if future.outcome is not outcome:
                self.count_acknowledged()
                outcome = future.outcome
                futures = self._group(outcome, reports).futures
            futures.append(future)
            if transactional:
                self._commit_in_time(future)
        self._sent += count

    def finish(self, interval: int) -> None:
        """Commit the open transaction, if any, and wait until all records are acknowledged or have failed. Meanwhile
        count acknowledged records every `interval` ms.
        """
        if self._transaction_start is not None:
            self.producer.commit_transaction()
        while not self._flushed(interval / 1000):
            self.count_acknowledged()
        while self._groups:
            self._count(self._done.get())

    def count_acknowledged(self) -> None:
        """Count the groups of records that have been acknowledged or have failed since the last call."""
        while not self._done.empty():
            self._count(self._done.get())

    def _group(self, outcome: ProduceRequestResult, reports: tuple[Report, ...]) -> _Group:
        self._groups += 1
        return _Group(outcome, reports, self._done)

    def _count(self, group: _Group) -> None:
        self._groups -= 1
        futures = group.futures
        if futures[0].outcome.error is not None:
            futures = self._successful(futures)
        if not futures:
            return
        latencies = {max(0, group.ended - at): n for at, n in Counter(map(_timestamp, futures)).items()}
        size = sum(map(_size, futures))
        for report in group.reports:
            report.add(latencies, size, group.ended)

    def _successful(self, futures: list[RecordFuture]) -> list[RecordFuture]:
        """Return the futures whose records were acknowledged, and add the number of the others to `failed`. If a batch
        was split, only some of its records may have failed.

        Print each type of error once.
        """
        successful = []
        for future in futures:
            error = future.exception()
            if error is None:
                successful.append(future)
                continue
            self.failed += 1
            if type(error) not in self._reported:
                self._reported.add(type(error))
                print(f"ottla producer-perf-test: {self.topic}: {error}", file=sys.stderr)
        return successful

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
