"""Pages of transactions: the list of transactional ids, and one of them."""

from __future__ import annotations

import time
from typing import Final

from starlette.responses import Response

from ottla.client.admin.transactions import TransactionState
from ottla_console.cluster.clients import READ_MS
from ottla_console.pages.paging import Slice
from ottla_console.web.page import Page

STATES: Final[dict[str, str]] = {"": "", **{state.value: state.value for state in TransactionState}}


async def listing(page: Page) -> Response:
    """Return the page that lists transactional ids."""
    state, search = page.choice("state", STATES, ""), page.text("search", "")
    listed = await page.console.collector.transactions()
    rows = [r for r in listed.rows if search.lower() in r.transactional_id.lower() and state in ("", r.state)]
    part, failed = Slice.for_page(page, rows), listed.failed
    return page.render("transactions.html", part=part, state=state, states=STATES, search=search, failed=failed)


async def transaction(page: Page) -> Response:
    """Return the page of a transactional id, with its state, its producer, and the partitions and age of its
    transaction.
    """
    name = page.text("id")
    described = (await page.admin.describe_transactions([name], READ_MS))[name]
    start = described.start_time_ms
    return page.render(
        "transaction.html",
        name=name,
        transaction=described,
        seconds=None if start is None else max(0.0, time.time() - start / 1000),
        partitions=sorted(described.topic_partitions),
    )
