"""Transactions: list, and the description of one transactional id."""

from __future__ import annotations

import time
from typing import Final

from starlette.responses import Response

from ottla.client.admin.driver import Errors
from ottla.client.admin.transactions import TransactionState
from ottla_console.cluster.clients import READ_MS
from ottla_console.pages.paging import Slice
from ottla_console.web.page import Page

STATES: Final[dict[str, str]] = {"": "", **{state.value: state.value for state in TransactionState}}


async def listing(page: Page) -> Response:
    """Return the list of transactional ids."""
    state, search = page.choice("state", STATES, ""), page.text("search", "")
    failed: Errors = {}
    listed = await page.admin.list_transactions(
        state_filters=(state,) if state else (), timeout_ms=READ_MS, errors=failed
    )
    rows = sorted(row for row in listed if search.lower() in row.transactional_id.lower())
    return page.render(
        "transactions.html", part=Slice.of(page, rows), state=state, states=STATES, search=search, failed=failed
    )


async def transaction(page: Page) -> Response:
    """Return a transactional id: state, producer, partitions, age."""
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
