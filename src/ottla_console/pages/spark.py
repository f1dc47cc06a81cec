"""Pages of Spark's streaming queries and pipelines: the list, and the progress of a query or a run."""

from __future__ import annotations

import asyncio
import time

from starlette.responses import Response

from ottla_console.cluster.spark_progress import SparkProgress, read_progress
from ottla_console.pages.paging import Slice
from ottla_console.web.page import NoSuchPageError, Page
from ottla_console.web.texts import number


async def listing(page: Page) -> Response:
    """Return the page that lists queries and pipelines."""
    progress = await _progress(page)
    return page.render("spark.html", part=Slice.for_page(page, progress.queries), progress=progress)


async def query(page: Page) -> Response:
    """Return the page of a query, with charts of its last micro-batches."""
    file, query_id = page.text("file"), page.text("id")
    for row in (await _progress(page)).queries:
        if (row.file, row.query_id) == (file, query_id):
            return page.render(
                "spark_query.html",
                query=row,
                shown_rate=lambda value: f"{number(value)} rows/s",
                shown_behind=lambda value: f"{number(value)} offsets",
                shown_ms=lambda value: f"{number(value)} ms",
            )
    raise NoSuchPageError("The progress of this query was not found.")


async def pipeline(page: Page) -> Response:
    """Return the page of a pipeline's run, with the states of its flows."""
    file = page.text("file")
    for row in (await _progress(page)).pipelines:
        if row.file == file:
            return page.render("spark_pipeline.html", pipeline=row)
    raise NoSuchPageError("The progress of this run was not found.")


async def _progress(page: Page) -> SparkProgress:
    directories = page.console.settings.progress_dirs
    return await asyncio.to_thread(read_progress, directories, int(time.time() * 1000))
