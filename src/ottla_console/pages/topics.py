"""Pages that list and create topics."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from starlette.responses import Response

from ottla.aio import NewTopic
from ottla.names import check_topic_name
from ottla_console.cluster.clients import CHANGE_MS
from ottla_console.cluster.samples import SampleRing
from ottla_console.cluster.snapshots import TopicRow
from ottla_console.pages.paging import Slice
from ottla_console.web.page import BadInputError, Page

ORDERS: Final[dict[str, str]] = {"name": "name", "partitions": "partitions", "rate": "rate", "health": "health"}
MAX_PARTITIONS: Final = 100_000
CONFIG_LINE: Final = re.compile(r"([A-Za-z0-9._-]+)=(.*)")


async def listing(page: Page) -> Response:
    """Return the page that lists topics."""
    collector = page.console.collector
    snapshot = await collector.cluster()
    search, order = page.text("search", ""), page.choice("order", ORDERS, "name")
    with_internal = page.text("internal", "") == "yes"
    words = search.lower().split()
    rows: list[TopicRow] = [
        row
        for row in snapshot.topics
        if (with_internal or not row.is_internal) and all(word in row.name.lower() for word in words)
    ]
    if order != "name":
        rows.sort(key=_key(order, collector.rates))
    part = Slice.for_page(page, rows)
    collector.view_topics(row.name for row in part.rows)
    return page.render(
        "topics.html",
        part=part,
        total=len(snapshot.topics),
        search=search,
        order=order,
        with_internal=with_internal,
        rates=collector.rates,
    )


def _key(order: str, rates: SampleRing) -> Callable[[TopicRow], Any]:
    keys: dict[str, Callable[[TopicRow], Any]] = {
        "partitions": lambda row: (-row.partitions, row.name),
        "rate": lambda row: (-(rates.latest(row.name) or 0), row.name),
        "health": lambda row: (-row.offline, -row.under_replicated, row.name),
    }
    return keys[order]


async def creation(page: Page) -> Response:
    """Return the form for creating a topic."""
    return page.render("topic_create.html", brokers=len((await page.console.collector.cluster()).brokers))


async def create(page: Page) -> Response:
    """Create a topic."""
    name = page.text("name")
    try:
        check_topic_name(name)
    except ValueError as error:
        raise BadInputError(f"name: {error}") from None
    partitions = page.integer("partitions", 1, MAX_PARTITIONS, 1)
    replicas = page.integer("replicas", -1, 1_000, -1)
    topic = NewTopic(name, partitions, replicas or -1, topic_configs=_configs(page.text("configs", "")))
    with page.audited("create-topic", f"topic:{name} partitions={partitions} replicas={replicas}"):
        await page.admin.create_topics([topic], CHANGE_MS, wait_for_metadata=True)
    return page.done(f"/topics/{name}", f"Topic {name} was created.")


def _configs(text: str) -> dict[str, str | None]:
    configs: dict[str, str | None] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        match = CONFIG_LINE.fullmatch(line)
        if match is None:
            raise BadInputError(f"configs: {line[:60]!r} is invalid: expected a line NAME=VALUE for each config")
        configs[match[1]] = match[2].strip()
    return configs
