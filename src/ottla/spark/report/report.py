"""The content of a report: sentences, figures, tables and rates. `chart` and `page` render it."""

from __future__ import annotations

import datetime as dt
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class TableData(NamedTuple):
    """A table: its title, its columns, and its cells as text. All columns but the first are right-aligned."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class Bars(NamedTuple):
    """A bar chart: a value for each label."""

    title: str
    unit: str
    labels: Sequence[str]
    values: Sequence[float]
    is_series: bool = False
    """Whether the labels have a natural order, such as months; the HTML page sorts other bars by value."""


class Multiples(NamedTuple):
    """Several bar charts with the same labels and one scale, to be compared with each other."""

    title: str
    parts: Sequence[Bars]


class Calendar(NamedTuple):
    """A value for each day, as a heat map."""

    title: str
    unit: str
    days: Mapping[dt.date, float]


Figure = Bars | Multiples | Calendar


@dataclass(frozen=True)
class Report:
    """The content of a report at the end of a long run."""

    title: str
    findings: Sequence[str]
    tables: Sequence[TableData]
    bars: Sequence[Bars]
    rates: Sequence[tuple[str, str]] = field(default=())
    figures: Sequence[Figure] = field(default=(), kw_only=True)
    """The figures of the HTML page. If there are none, the page shows `bars`."""


def provenance(*packages: str) -> list[tuple[str, str]]:
    """Return the environment of a report: versions of Ottla, Python and those of `packages` that are installed, the
    machine, and the time.
    """
    from importlib.metadata import PackageNotFoundError, version

    rows = []
    for package in ("ottla", *packages):
        try:
            rows.append((package, version(package)))
        except PackageNotFoundError:  # run from a checkout, or not installed
            continue
    made = dt.datetime.now(dt.UTC)
    return [
        *rows,
        ("Python", platform.python_version()),
        ("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        ("made", f"{made:%Y-%m-%d %H:%M} UTC"),
    ]
