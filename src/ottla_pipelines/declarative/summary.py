"""The summary at the end of `ottla pipeline run --demo`: the tables with their rows, and suggested next steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla_pipelines.declarative.tables import read_table
from ottla_pipelines.topic_tables import WrittenTable

_MOST_ROWS: Final = 5
_MOST_COLUMNS: Final = 6
_MOST_CHARACTERS: Final = 40


class TableSummary(NamedTuple):
    """A table of a pipeline: its name, its number of rows, and some of its columns and rows as text."""

    name: str
    rows: int
    columns: list[str]
    sample: list[list[str]]


def summaries(project: Path) -> list[TableSummary]:
    """Return the tables of a project that have rows, the smallest first: these are usually results, not inputs."""
    tables = []
    for directory in sorted(path for path in (project / "tables").glob("*") if path.is_dir()):
        table = read_table(directory)
        if table.num_rows:
            head = table.slice(0, _MOST_ROWS).select(table.column_names[:_MOST_COLUMNS]).to_pylist()
            sample = [[_text(value) for value in row.values()] for row in head]
            tables.append(TableSummary(directory.name, table.num_rows, table.column_names[:_MOST_COLUMNS], sample))
    return sorted(tables, key=lambda table: table.rows)


def lines(project: Path, topic_tables: Sequence[WrittenTable] = ()) -> Iterator[str]:
    """Yield the lines at the end of a demo: each table's size, rows of one of them, and suggested next steps. Yield
    nothing if no table has rows.

    `topic_tables`: the tables of topics.
    """
    tables = summaries(project)
    if not tables:
        return
    width = max(len(table.name) for table in tables)
    yield ""
    for table in tables:
        yield f"  {table.name:<{width}}  {table.rows:>9,} rows"
    shown = next((table for table in tables if table.rows >= 4 * _MOST_ROWS), tables[-1])
    yield ""
    for written in topic_tables:
        yield f"  topic {written.topic} as a table ({written.format}): {written.rows:,} rows"
    yield ""
    yield f"{shown.name}:"
    widths = [max(map(len, column)) for column in zip(shown.columns, *shown.sample, strict=True)]
    for row in [shown.columns, *shown.sample]:
        yield "  " + "  ".join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)).rstrip()
    yield ""
    yield "Next:"
    yield "  ottla pipeline run --demo                        again: only new records are processed"
    yield "  ottla pipeline run --bootstrap-server HOST:9092  the same with the topics of your brokers"
    yield f"  python -c \"import pandas; print(pandas.read_parquet('tables/{shown.name}'))\"   the table in Python"
    if topic_tables:
        yield "  ottla broker --override log.dirs=broker &        the demo's broker (stop it: kill $!), and SQL:"
        for written in topic_tables:
            yield f'  ottla tables query --bootstrap-server localhost:9092 "select * from {written.name} limit 5"'
    yield "  transformations/                                 the code of the tables, to be changed"


def _text(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
