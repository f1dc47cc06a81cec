"""The output of kafka-consumer-perf-test.sh. Points in time are in milliseconds since 1970."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ottla.cli.perf.java_dates import DateFormat
from ottla.cli.perf.java_format import decimal, ratio
from ottla.client.consumer.group.membership import ConsumerRebalanceListener
from ottla.model import TopicPartition

MIB: Final = 1024 * 1024
RATES: Final = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
FETCHING: Final = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
HEADER: Final = f"start.time, end.time, {RATES}, {FETCHING}"
DETAILED_HEADER: Final = f"time, threadId, {RATES}, {FETCHING}"
THREAD: Final = 0
"""The value of the column `threadId`: there is only one thread."""


class Progress(NamedTuple):
    """The totals of a consumer up to the point in time `at`."""

    at: int
    records: int = 0
    size: int = 0
    """The total size of keys and values in bytes."""
    rebalance_ms: int = 0
    """The time in milliseconds in which the consumer had no partitions, up to the last assignment."""


class RebalanceTimer(ConsumerRebalanceListener):
    """Measures the time in milliseconds (`ms`) in which the consumer has no partitions."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.ms = 0
        self._now = now
        self._since = now()
        self._partitions: set[TopicPartition] = set()

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Start the time measurement if the consumer has no partitions left."""
        self._partitions -= revoked
        if not self._partitions:
            self._since = self._now()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Add the measured time to `ms` if the consumer had no partitions. It starts again if it still has none."""
        if not self._partitions:
            now = self._now()
            self.ms += now - self._since
            self._since = now
        self._partitions |= assigned


class Span(NamedTuple):
    """The progress between two points in time."""

    begin: Progress
    end: Progress

    @property
    def size(self) -> float:
        """The size of the keys and values of the records in MiB."""
        return (self.end.size - self.begin.size) / MIB

    @property
    def records(self) -> int:
        """The number of records between begin and end."""
        return self.end.records - self.begin.records

    @property
    def rebalance_ms(self) -> int:
        """The increase of `Progress.rebalance_ms` from begin to end."""
        return self.end.rebalance_ms - self.begin.rebalance_ms

    @property
    def elapsed(self) -> int:
        """The time from begin to end, in milliseconds."""
        return self.end.at - self.begin.at

    @property
    def fetching(self) -> int:
        """The elapsed time minus `rebalance_ms`, in milliseconds."""
        return self.elapsed - self.rebalance_ms

    def line(self, dates: DateFormat) -> str:
        """Return the output line for a whole run."""
        seconds, fetching = self.elapsed / 1000, self.fetching / 1000
        times = f"{dates.text(self.begin.at)}, {dates.text(self.end.at)}"
        fetched = self._fetched(ratio(self.size, fetching), ratio(self.records, fetching))
        return f"{times}, {self._line(self, seconds)}, {fetched}"

    def detail(self, dates: DateFormat) -> str:
        """Return the output line for an interval: the totals up to its end, and the rates within it."""
        whole = Span(Progress(0), self.end)
        seconds = self.elapsed / 1000
        rates = (
            (self.size / self.fetching * 1000, self.records / self.fetching * 1000) if self.fetching > 0 else (0.0, 0.0)
        )
        return f"{dates.text(self.end.at)}, {THREAD}, {self._line(whole, seconds)}, {self._fetched(*rates)}"

    def _line(self, total: Span, seconds: float) -> str:
        size, records = decimal(ratio(self.size, seconds), 4), decimal(ratio(self.records, seconds), 4)
        return f"{decimal(total.size, 4)}, {size}, {total.records}, {records}"

    def _fetched(self, size: float, records: float) -> str:
        return f"{self.rebalance_ms}, {self.fetching}, {decimal(size, 4)}, {decimal(records, 4)}"

    def as_json(self) -> dict[str, Any]:
        """Return the progress in the form that `--json` prints. Rates over no time are None, and MB are MiB."""
        return {
            "start_time_ms": self.begin.at,
            "end_time_ms": self.end.at,
            "records": self.records,
            "bytes": self.end.size - self.begin.size,
            "mb_per_second": self.size / self.elapsed * 1000 if self.elapsed else None,
            "records_per_second": self.records / self.elapsed * 1000 if self.elapsed else None,
            "rebalance_time_ms": self.rebalance_ms,
            "fetch_time_ms": self.fetching,
            "fetch_mb_per_second": self.size / self.fetching * 1000 if self.fetching else None,
            "fetch_records_per_second": self.records / self.fetching * 1000 if self.fetching else None,
        }
