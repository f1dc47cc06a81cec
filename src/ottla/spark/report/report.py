"""The content of a report: sentences, tables, bars and rates. `chart` and `page` render it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class TableData(NamedTuple):
    """A table: its title, its columns and its cells as text; all columns but the first are numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class Bars(NamedTuple):
    """A bar chart: a number per label."""

    title: str
    unit: str
    labels: Sequence[str]
    values: Sequence[float]


@dataclass(frozen=True)
class Report:
    """The content of a report at the end of long work."""

    title: str
    findings: Sequence[str]
    tables: Sequence[TableData]
    bars: Sequence[Bars]
    rates: Sequence[tuple[str, str]] = field(default=())
