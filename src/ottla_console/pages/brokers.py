"""Pages of brokers: the list, and a broker with its configs and log directories."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from ottla.aio import ConfigResource
from ottla.client.admin.configs import BROKER
from ottla_console.cluster.byte_rates import broker_series
from ottla_console.cluster.clients import READ_MS
from ottla_console.cluster.collector import Collector
from ottla_console.cluster.snapshots import BrokerRow
from ottla_console.pages import configs
from ottla_console.web.page import NoSuchPageError, Page


class TrafficRow(NamedTuple):
    """The bytes per second of a broker; None if they are unknown. `address` is that of its metrics."""

    address: str
    bytes_in: float | None
    bytes_out: float | None
    error: str


async def listing(page: Page) -> Response:
    """Return the list of brokers."""
    collector = page.console.collector
    return page.render("brokers.html", snapshot=await collector.cluster(), traffic=_traffic(collector))


def _traffic(collector: Collector) -> list[TrafficRow]:
    pages, rates = collector.metric_pages, collector.byte_rates
    if pages is None:
        return []
    return [
        TrafficRow(
            address,
            rates.latest(broker_series("in", address)),
            rates.latest(broker_series("out", address)),
            pages.errors.get(address, ""),
        )
        for address in pages.addresses
    ]


async def broker(page: Page) -> Response:
    """Return the page of a broker."""
    row = await _row(page)
    rows = await configs.config_rows(page, ConfigResource(BROKER, str(row.id)), READ_MS)
    directories = [entry for entry in await page.console.collector.directories() if entry.broker == row.id]
    return page.render("broker.html", broker=row, configs=rows, directories=directories)


async def alter_config(page: Page) -> Response:
    """Set or remove a dynamic config of a broker."""
    row = await _row(page)
    with page.audited("alter-configs", f"broker:{row.id} {page.text('name', '')}"):
        text = await configs.alter(page, ConfigResource(BROKER, str(row.id)))
    return page.done(f"/brokers/{row.id}", text)


async def _row(page: Page) -> BrokerRow:
    broker_id = page.path["broker"]
    for row in (await page.console.collector.cluster()).brokers:
        if row.id == broker_id:
            return row
    raise NoSuchPageError(f"The cluster has no broker {broker_id}.")
