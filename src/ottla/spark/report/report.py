"""The content of a report: sentences, tables, bar charts and rates. `chart` and `page` render it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class TableData(NamedTuple):
    """A table: its title, its columns, and its cells as text. All columns but the first contain numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class Bars(NamedTuple):
    """A bar chart: a value for each label."""

    title: str
    unit: str
    labels: Sequence[str]
    values: Sequence[float]


@dataclass(frozen=True)
class Report:
    """The content of a report at the end of a long run."""

    title: str
    findings: Sequence[str]
    tables: Sequence[TableData]
    bars: Sequence[Bars]
    rates: Sequence[tuple[str, str]] = field(default=())
