"""Figures of a report as HTML with inline SVG, for light and dark pages and narrow screens.

Except in calendars, texts are HTML beside the drawings, so that they keep their size on a phone. Colours are CSS
variables of the page. The accent marks the bar with the largest value; other bars are grey.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from html import escape
from typing import Final

from ottla.spark.report.report import Bars, Calendar, Figure, Multiples

_CELL: Final = 14
_GAP: Final = 2
_STEPS: Final = 5
"""The number of shades of a heat map."""
_MOST_TICKS: Final = 6
_WEEKDAYS: Final = ("Mon", "", "Wed", "", "Fri", "", "Sun")


def figure(content: Figure) -> str:
    """Return a figure with its title."""
    body = {Bars: _bars, Multiples: _multiples, Calendar: _calendar}[type(content)](content)  # type: ignore[operator]
    return f"<figure><figcaption>{escape(content.title)}{_unit(content)}</figcaption>{body}</figure>"


def _unit(content: Figure) -> str:
    unit = content.parts[0].unit if isinstance(content, Multiples) and content.parts else getattr(content, "unit", "")
    return f' <span class="unit">{escape(unit)}</span>' if unit else ""


def number(value: float) -> str:
    """Return a value as a label with thousands separators, and with one decimal if it is between -100 and 100 and
    not whole.
    """
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.1f}"


def _bars(bars: Bars) -> str:
    if not bars.values:
        return '<p class="none">no data</p>'
    return _columns(bars) if bars.is_series else _ranked(bars, max(bars.values), max(bars.values))


def _ranked(bars: Bars, largest: float, marked: float) -> str:
    """Return horizontal bars, the largest first. `largest` is the value of a bar of full length."""
    rows = []
    for label, value in sorted(zip(bars.labels, bars.values, strict=True), key=lambda row: -row[1]):
        length = 100 * max(0.0, value) / largest if largest > 0 else 0
        kind = "accent" if value == marked and value > 0 else "bar"
        rows.append(
            f'<div class="row"><span class="label">{escape(label)}</span>'
            f'<svg aria-hidden="true"><rect class="{kind}" width="{length:.2f}%" height="100%" rx="2"/></svg>'
            f'<span class="value">{number(value)}</span></div>'
        )
    return f'<div class="ranked">{"".join(rows)}</div>'


def _multiples(multiples: Multiples) -> str:
    largest = max((value for part in multiples.parts for value in part.values), default=0.0)
    parts = (f"<div><h3>{escape(part.title)}</h3>{_ranked(part, largest, largest)}</div>" for part in multiples.parts)
    return f'<div class="multiples">{"".join(parts)}</div>'


def _columns(bars: Bars) -> str:
    """Return a column for each label, in their order."""
    largest = max(bars.values)
    width = 100 / len(bars.values)
    columns = []
    for at, (label, value) in enumerate(zip(bars.labels, bars.values, strict=True)):
        height = 100 * max(0.0, value) / largest if largest > 0 else 0
        kind = "accent" if value == largest and value > 0 else "bar"
        columns.append(
            f'<rect class="{kind}" x="{at * width:.3f}%" y="{100 - height:.2f}%" width="{width * 0.8:.3f}%" '
            f'height="{height:.2f}%"><title>{escape(label)}: {number(value)}</title></rect>'
        )
    step = -(-len(bars.labels) // _MOST_TICKS)
    ticks = "".join(f"<span>{escape(label)}</span>" for label in bars.labels[::step])
    return (
        f'<div class="most">{number(largest)}</div><svg class="columns" role="img" '
        f'aria-label="{escape(bars.title)}">{"".join(columns)}</svg><div class="ticks">{ticks}</div>'
    )


def _calendar(calendar: Calendar) -> str:
    days = sorted(calendar.days)
    if not days:
        return '<p class="none">no data</p>'
    monday = days[0] - dt.timedelta(days=days[0].weekday())
    bounds = _bounds([calendar.days[day] for day in days])
    size = _CELL + _GAP
    left, top = 34, 18
    cells, months = [], []
    for day in days:
        week, weekday = divmod((day - monday).days, 7)
        shade = sum(calendar.days[day] > bound for bound in bounds)
        text = f"{day:%A, %d %B %Y}: {number(calendar.days[day])} {calendar.unit}"
        cells.append(
            f'<rect class="shade{shade}" x="{left + week * size}" y="{top + weekday * size}" '
            f'width="{_CELL}" height="{_CELL}" rx="2"><title>{escape(text)}</title></rect>'
        )
        if day.day == 1 or day == days[0]:
            months.append(f'<text x="{left + week * size}" y="11">{day:%b}</text>')
    names = (f'<text x="0" y="{top + i * size + 11}">{name}</text>' for i, name in enumerate(_WEEKDAYS) if name)
    width = left + ((days[-1] - monday).days // 7 + 1) * size
    shades = "".join(
        f'<svg aria-hidden="true"><rect class="shade{shade}" width="{_CELL}" height="{_CELL}" rx="2"/></svg>'
        for shade in range(_STEPS)
    )
    least, most = number(min(calendar.days.values())), number(max(calendar.days.values()))
    return (
        f'<div class="wide"><svg class="calendar" width="{width}" height="{top + 7 * size}" role="img" '
        f'aria-label="{escape(calendar.title)}">{"".join(months)}{"".join(names)}{"".join(cells)}</svg></div>'
        f'<div class="legend">{least} {shades} {most} {escape(calendar.unit)}</div>'
    )


def _bounds(values: Sequence[float]) -> list[float]:
    """Return the upper bounds of all shades but the last. With many different values, each shade has about a fifth of
    the days.
    """
    ordered = sorted(values)
    return [ordered[min(len(ordered) - 1, len(ordered) * step // _STEPS)] for step in range(1, _STEPS)]
