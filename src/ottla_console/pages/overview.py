"""The start page: the health and the throughput of the cluster."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from ottla_console.cluster.byte_rates import series
from ottla_console.cluster.collector import TOTAL
from ottla_console.cluster.snapshots import GroupRow
from ottla_console.web.page import Page
from ottla_console.web.texts import nbytes, number

BUSIEST: Final = 8
FULL_DISKS: Final = 5


async def overview(page: Page) -> Response:
    """Return the start page."""
    collector = page.console.collector
    snapshot, groups = await collector.cluster(), await collector.groups()
    rates = [(rate, row) for row in snapshot.topics if (rate := collector.rates.latest(row.name))]
    behind = sorted((row for row in groups.values() if row.lag), key=_lag, reverse=True)
    return page.render(
        "overview.html",
        snapshot=snapshot,
        groups=groups,
        internal=sum(row.is_internal for row in snapshot.topics),
        rate=collector.rates.latest(TOTAL),
        points=collector.rates.points(TOTAL),
        is_partial=collector.is_partial,
        busiest=sorted(rates, reverse=True)[:BUSIEST],
        behind=behind[:BUSIEST],
        full_disks=collector.full_disks[:FULL_DISKS],
        offline_directories=collector.offline_directories[:FULL_DISKS],
        under_min_isr=collector.under_min_isr,
        rebalancing=sum(row.is_rebalancing for row in groups.values()),
        rings=collector,
        bytes_in=collector.byte_rates.points(series("in", TOTAL)),
        bytes_out=collector.byte_rates.points(series("out", TOTAL)),
        shown_rate=lambda value: f"{number(value)}/s",
        shown_bytes=lambda value: f"{nbytes(value)}/s",
    )


def _lag(row: GroupRow) -> int:
    return row.lag or 0
