"""The flushes of log directories, from the Prometheus metrics of the brokers: which disk is slow, or hangs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla_console.cluster.metric_pages import samples_of

PREFIX: Final = "ottla_log_flush_"
TIMES: Final = f"{PREFIX}time_ms"
SLOW: Final = f"{PREFIX}slow_total"
RUNNING: Final = f"{PREFIX}longest_running_seconds"
NAMES: Final = (TIMES, SLOW, RUNNING)
QUANTILE: Final = "0.99"
SLOW_MS: Final = 500.0
HANGING_SECONDS: Final = 10.0


class FlushRow(NamedTuple):
    """The flushes of a log directory. `address` is that of the broker's metrics."""

    address: str
    directory: str
    flushes: int
    """The number of flushes since the broker was started."""
    p99_ms: float | None
    """The 99th percentile of the durations in the last one to two minutes; None if there were no flushes."""
    slow: int
    """The number of flushes that took longer than 500 ms while producers may have waited for them."""
    running_seconds: float
    """The time since the start of the oldest flush that has not returned; 0 if there is none."""

    @property
    def is_slow(self) -> bool:
        """Whether the disk is slow now, or hangs."""
        return (self.p99_ms or 0) > SLOW_MS or self.hangs

    @property
    def hangs(self) -> bool:
        """Whether a flush has been running for more than ten seconds."""
        return self.running_seconds > HANGING_SECONDS


def flush_rows(pages: Mapping[str, str]) -> list[FlushRow]:
    """Return the flushes of all log directories, the slowest first, from the metrics by address."""
    rows = (row for address, page in pages.items() for row in _rows(address, page))
    return sorted(rows, key=lambda row: (-row.running_seconds, -(row.p99_ms or 0), row.address, row.directory))


def _rows(address: str, page: str) -> Iterator[FlushRow]:
    values: dict[str, dict[str, float]] = {}
    for sample in samples_of(page, PREFIX):
        of_directory = values.setdefault(sample.labels.get("logDirectory", ""), {})
        of_directory[sample.name + sample.labels.get("quantile", "")] = sample.value
    for directory, value in values.items():
        count, slow, running = (value.get(name, 0.0) for name in (f"{TIMES}_count", SLOW, RUNNING))
        yield FlushRow(address, directory, round(count), value.get(TIMES + QUANTILE), round(slow), running)
