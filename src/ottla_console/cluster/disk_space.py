"""Log directories that are out of service or nearly full, from the Prometheus metrics of the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla_console.cluster.metric_pages import samples_of

FREE: Final = "ottla_log_directory_free_bytes"
TOTAL: Final = "ottla_log_directory_total_bytes"
OFFLINE: Final = "kafka_log_logmanager_logdirectoryoffline"
NAMES: Final = (FREE, TOTAL, OFFLINE)
NEARLY_FULL_PERCENT: Final = 10.0
"""The free percentage of a disk below which it is reported, as by the alert KafkaDiskNearlyFull."""


class FullDisk(NamedTuple):
    """A log directory with little space. `address` is that of the broker's metrics."""

    free_percent: float
    free_bytes: float
    address: str
    directory: str


class OfflineDirectory(NamedTuple):
    """A log directory that is out of service. `address` is that of the broker's metrics."""

    address: str
    directory: str


def offline_directories(pages: Mapping[str, str]) -> list[OfflineDirectory]:
    """Return the log directories that are out of service, from the metrics by address."""
    return sorted(
        OfflineDirectory(address, sample.labels.get("logDirectory", ""))
        for address, page in pages.items()
        for sample in samples_of(page, OFFLINE)
        if sample.value
    )


def full_disks(pages: Mapping[str, str]) -> list[FullDisk]:
    """Return the log directories with little space, the fullest first, from the metrics by address."""
    rows = []
    for address, page in pages.items():
        totals = {s.labels.get("logDirectory", ""): s.value for s in samples_of(page, TOTAL)}
        for sample in samples_of(page, FREE):
            directory = sample.labels.get("logDirectory", "")
            total = totals.get(directory, 0.0)
            if total > 0 and 100 * sample.value / total < NEARLY_FULL_PERCENT:
                rows.append(FullDisk(100 * sample.value / total, sample.value, address, directory))
    return sorted(rows)
