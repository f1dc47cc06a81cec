"""The page of log directories."""

from __future__ import annotations

from starlette.responses import Response

from ottla_console.web.page import Page


async def listing(page: Page) -> Response:
    """Return the list of log directories."""
    collector = page.console.collector
    return page.render("log_dirs.html", directories=await collector.directories(), flushes=collector.flushes)
