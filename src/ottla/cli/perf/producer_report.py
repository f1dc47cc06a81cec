"""How quickly records were sent, as kafka-producer-perf-test.sh tells it: while they are sent, and at the end.

Times are milliseconds since 1970. Latencies are counted, not sampled: there are fewer different ones than records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ottla.cli.framework.java_format import decimal, ratio

Say = Callable[[str], None]
"""Tells a line."""

MIB: Final = 1024 * 1024
PERCENTILES: Final = (("50th", 0.5), ("95th", 0.95), ("99th", 0.99), ("99.9th", 0.999))


class Tally:
    """Records of some time."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.size = 0
        """In bytes."""
        self.latencies: Counter[int] = Counter()
        """How many records took so many milliseconds."""

    def add(self, latencies: Mapping[int, int], size: int) -> None:
        """More of them."""
        self.latencies.update(latencies)
        self.size += size

    @property
    def count(self) -> int:
        """How many there are."""
        return self.latencies.total()

    @property
    def average(self) -> float:
        """Of the latencies; not a number where there are none."""
        return ratio(float(sum(ms * count for ms, count in self.latencies.items())), self.count)

    @property
    def longest(self) -> int:
        """The longest latency; 0 where there are none."""
        return max(self.latencies, default=0)

    def rates(self, now: int) -> tuple[float, float]:
        """Records and MiB per second."""
        seconds = (now - self.start) / 1000
        return ratio(self.count, seconds), ratio(self.size / MIB, seconds)

    def percentiles(self, wanted: Sequence[float]) -> list[int]:
        """Latencies below which so much of the records lies; `wanted` rises."""
        found: list[int] = []
        places = [int(share * self.count) for share in wanted]
        seen = 0
        for ms, count in sorted(self.latencies.items()):
            seen += count
            while len(found) < len(places) and places[len(found)] < seen:
                found.append(ms)
        return found or [0] * len(places)


class Report:
    """The whole of a run, and a line each `interval` ms. `steady` is what followed a warm-up."""

    def __init__(self, start: int, interval: int, say: Say, *, steady: bool = False) -> None:
        self.total = Tally(start)
        self._say: Say | None = say
        self._window = Tally(start)
        self._interval = interval
        self._steady = steady
        self._told = False

    def add(self, latencies: Mapping[int, int], size: int, now: int) -> None:
        """Records that were acknowledged just `now`. May say how it goes."""
        self.total.add(latencies, size)
        self._window.add(latencies, size)
        if now - self._window.start >= self._interval:
            if self._say is not None:
                self._tell(self._say, now)
            self._window = Tally(now)

    def hush(self) -> None:
        """From now on another report says how it goes."""
        self._say = None

    def _tell(self, say: Say, now: int) -> None:
        if self._steady and not self._told:
            say("In steady state.")
        self._told = True
        say(_window_line(self._window, now))

    def line(self, now: int) -> str:
        """The line at the end."""
        total = self.total
        records, mib = total.rates(now)
        found = total.percentiles([share for _, share in PERCENTILES])
        percentiles = ", ".join(f"{ms} ms {name}" for ms, (name, _) in zip(found, PERCENTILES, strict=True))
        return (
            f"{total.count}{' steady state' if self._steady else ''} records sent, {decimal(records, 6)} records/sec "
            f"({decimal(mib, 2)} MB/sec), {decimal(total.average, 2)} ms avg latency, "
            f"{decimal(float(total.longest), 2)} ms max latency, {percentiles}."
        )

    def as_json(self, now: int) -> dict[str, Any]:
        """The same for programs; None where there is no number."""
        total = self.total
        records, mib = total.rates(now)
        found = total.percentiles([share for _, share in PERCENTILES])
        return {
            "records": total.count,
            "bytes": total.size,
            "elapsed_ms": now - total.start,
            "records_per_second": records if now > total.start else None,
            "mb_per_second": mib if now > total.start else None,
            "average_latency_ms": total.average if total.count else None,
            "max_latency_ms": total.longest,
            "percentiles_ms": {name: ms for ms, (name, _) in zip(found, PERCENTILES, strict=True)},
        }


def _window_line(window: Tally, now: int) -> str:
    records, mib = window.rates(now)
    return (
        f"{window.count} records sent, {decimal(records, 1)} records/sec ({decimal(mib, 2)} MB/sec), "
        f"{decimal(window.average, 1)} ms avg latency, {decimal(float(window.longest), 1)} ms max latency."
    )
