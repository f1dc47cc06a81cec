"""The report on streaming queries: rows, time by phase, lag and state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

from ottla.spark.monitoring.history import FAILED, QueryHistory
from ottla.spark.monitoring.progress import MicroBatch, total
from ottla.spark.report import chart, page
from ottla.spark.report.report import Bars, Report, TableData

MOST_BARS: Final = 120
MOST_CHARTED: Final = 4
"""Maximum number of queries with charts: those with the most rows."""


def write(queries: Sequence[QueryHistory], path: Path, title: str) -> Path:
    """Write an HTML page, or only the charts if the path ends in .png. Return the path."""
    report = report_of(queries, title)
    if path.suffix == ".png":
        chart.draw(report, path)
        return path
    page.write(report, path)
    return path


def report_of(queries: Sequence[QueryHistory], title: str) -> Report:
    """Return the content of the report."""
    charted = sorted(queries, key=lambda query: -query.rows)[:MOST_CHARTED]
    return Report(
        title,
        [finding(query) for query in queries] or ["No query has run."],
        [_queries(queries), _topics(queries), _phases(queries)],
        [bars for query in charted for bars in _bars(query)],
    )


def finding(query: QueryHistory) -> str:
    """Return a short summary of a query."""
    seconds = query.milliseconds / 1000
    text = f"{query.name}: {query.rows:,} rows in {query.batches:,} micro-batches of {seconds:,.1f} s in all"
    text += f", {query.rows_per_second:,.0f} rows/s"
    if query.behind:
        left = sum(query.behind.values())
        text += f"; {left:,} offsets behind at the end" if left else "; nothing left to read"
    if query.status == FAILED:
        text += ". It failed: " + (query.error or "").strip().partition("\n")[0]
    return text + "."


def _queries(queries: Sequence[QueryHistory]) -> TableData:
    rows = []
    for query in queries:
        state = query.state
        rows.append(
            (
                query.name,
                query.status,
                f"{query.batches:,}",
                f"{query.rows:,}",
                f"{query.rows_per_second:,.0f}",
                f"{state.rows:,}" if state else "",
                f"{(state.memory_bytes + state.disk_bytes) / 1e6:,.1f} MB" if state else "",
            )
        )
    return TableData("Queries", ("query", "", "micro-batches", "rows", "rows/s", "state rows", "state"), rows)


def _topics(queries: Sequence[QueryHistory]) -> TableData:
    rows = [
        (f"{query.name}, {topic}", f"{query.behind.get(topic, 0):,}", f"{most:,}")
        for query in queries
        for topic, most in sorted(query.most_behind.items())
    ]
    return TableData("Offsets behind", ("query, topic", "at the end", "at most"), rows)


def _phases(queries: Sequence[QueryHistory]) -> TableData:
    rows = [
        (f"{query.name}, {phase}", f"{ms / 1000:,.1f} s", f"{100 * ms / query.milliseconds:.0f} %")
        for query in queries
        for phase, ms in sorted(query.durations_ms.items(), key=lambda item: -item[1])
        if query.milliseconds
    ]
    return TableData("Where the time went", ("query, phase", "in all", "part"), rows)


def _bars(query: QueryHistory) -> list[Bars]:
    groups = _grouped([batch for batch in query.recent if batch.rows] or list(query.recent))
    labels = [str(group[0].batch_id) for group in groups]

    def bars(what: str, unit: str, value: Callable[[MicroBatch], float]) -> Bars:
        return Bars(f"{query.name}: {what} by micro-batch", unit, labels, [fmean(map(value, g)) for g in groups], True)

    made = [
        bars("rate", "rows/s", lambda batch: batch.rows_per_second),
        bars("duration", "s", lambda batch: batch.milliseconds / 1000),
    ]
    if query.most_behind:
        made.append(bars("offsets behind", "offsets", lambda batch: total(batch.behind)))
    if query.state is not None:
        made.append(bars("state", "rows", lambda batch: batch.state.rows if batch.state else 0))
    return made


def _grouped(batches: Sequence[MicroBatch]) -> list[Sequence[MicroBatch]]:
    """Return the micro-batches in at most MOST_BARS groups of consecutive ones."""
    size = -(-len(batches) // MOST_BARS) or 1
    return [batches[i : i + size] for i in range(0, len(batches), size)]
