"""The output of kafka-producer-perf-test.sh, at intervals and at the end.

Times are milliseconds since 1970. All latencies are counted by value instead of sampled, because there are far fewer
values than records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ottla.cli.perf.java_format import decimal, ratio

Printer = Callable[[str], None]
"""Prints a line."""

MIB: Final = 1024 * 1024
PERCENTILES: Final = (("50th", 0.5), ("95th", 0.95), ("99th", 0.99), ("99.9th", 0.999))


class Tally:
    """The size and latencies of acknowledged records, from the time `start` on."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.size = 0
        """The total size of the records' values in bytes."""
        self.latencies: Counter[int] = Counter()
        """The number of records by latency in milliseconds."""

    def add(self, latencies: Mapping[int, int], size: int) -> None:
        """Add acknowledged records: their number by latency in milliseconds, and the size of their values in bytes."""
        self.latencies.update(latencies)
        self.size += size

    @property
    def count(self) -> int:
        """The number of acknowledged records."""
        return self.latencies.total()

    @property
    def average(self) -> float:
        """The average latency in milliseconds; NaN without records."""
        return ratio(float(sum(ms * count for ms, count in self.latencies.items())), self.count)

    @property
    def longest(self) -> int:
        """The longest latency in milliseconds; 0 without records."""
        return max(self.latencies, default=0)

    def rates(self, now: int) -> tuple[float, float]:
        """Return the records per second and the MiB per second from `start` to `now`; infinity or NaN over no time."""
        seconds = (now - self.start) / 1000
        return ratio(self.count, seconds), ratio(self.size / MIB, seconds)

    def percentiles(self, shares: Sequence[float]) -> list[int]:
        """Return the percentiles of the latency in milliseconds; zeros without records. `shares` are rising numbers, at
        least 0 and less than 1.
        """
        latencies: list[int] = []
        ranks = [int(share * self.count) for share in shares]
        seen = 0
        for ms, count in sorted(self.latencies.items()):
            seen += count
            while len(latencies) < len(ranks) and ranks[len(latencies)] < seen:
                latencies.append(ms)
        return latencies or [0] * len(ranks)


class Report:
    """The report of a run. It prints a line when records are acknowledged at least `interval` ms after the previous
    line or `start`, until it is muted. `steady` labels it as the report of the records after the warm-up.
    """

    def __init__(self, start: int, interval: int, printer: Printer, *, steady: bool = False) -> None:
        self.total = Tally(start)
        self._printer: Printer | None = printer
        self._window = Tally(start)
        self._interval = interval
        self._steady = steady
        self._started = False

    def add(self, latencies: Mapping[int, int], size: int, now: int) -> None:
        """Add records that were acknowledged at the time `now`, as `Tally.add` does. Print a line if the interval has
        elapsed, unless the report is muted.
        """
        self.total.add(latencies, size)
        self._window.add(latencies, size)
        if now - self._window.start >= self._interval:
            if self._printer is not None:
                self._print_window(self._printer, now)
            self._window = Tally(now)

    def mute(self) -> None:
        """Print no further lines, because another report prints them from now on."""
        self._printer = None

    def _print_window(self, printer: Printer, now: int) -> None:
        if self._steady and not self._started:
            printer("In steady state.")
        self._started = True
        printer(_window_line(self._window, now))

    def line(self, now: int) -> str:
        """Return the summary up to the time `now` as a line."""
        total = self.total
        records, mib = total.rates(now)
        latencies = total.percentiles([share for _, share in PERCENTILES])
        percentiles = ", ".join(f"{ms} ms {name}" for ms, (name, _) in zip(latencies, PERCENTILES, strict=True))
        return (
            f"{total.count}{' steady state' if self._steady else ''} records sent, {decimal(records, 6)} records/sec "
            f"({decimal(mib, 2)} MB/sec), {decimal(total.average, 2)} ms avg latency, "
            f"{decimal(float(total.longest), 2)} ms max latency, {percentiles}."
        )

    def as_json(self, now: int) -> dict[str, Any]:
        """Return the summary up to the time `now` in the form that `--json` prints. Rates over no time, and the average
        of no records, are None.
        """
        total = self.total
        records, mib = total.rates(now)
        latencies = total.percentiles([share for _, share in PERCENTILES])
        return {
            "records": total.count,
            "bytes": total.size,
            "elapsed_ms": now - total.start,
            "records_per_second": records if now > total.start else None,
            "mb_per_second": mib if now > total.start else None,
            "average_latency_ms": total.average if total.count else None,
            "max_latency_ms": total.longest,
            "percentiles_ms": {name: ms for ms, (name, _) in zip(latencies, PERCENTILES, strict=True)},
        }


def _window_line(window: Tally, now: int) -> str:
    records, mib = window.rates(now)
    return (
        f"{window.count} records sent, {decimal(records, 1)} records/sec ({decimal(mib, 2)} MB/sec), "
        f"{decimal(window.average, 1)} ms avg latency, {decimal(float(window.longest), 1)} ms max latency."
    )
