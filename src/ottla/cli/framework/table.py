"""Columns for a terminal, as Kafka's tools lay them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MIN_WIDTH = 15


def lines(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Header and rows, each column as wide as its widest cell and Kafka's minimum; None is shown as `-`."""
    cells = [list(header), *([("-" if c is None else str(c)) for c in row] for row in rows)]
    widths = [max(MIN_WIDTH, *(len(row[i]) for row in cells)) for i in range(len(header))]
    return [" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def tabbed(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The same as some of Kafka's newer tools have it: no minimum, and a tab behind each column."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return ["".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)) for row in cells]
