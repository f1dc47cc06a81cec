"""Draws the bar charts of a report as one PNG file."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

from ottla.spark.report.report import Bars, Report

_COLOURS = ("#3b6ea5", "#b5543c", "#5b8c5a", "#8a6fa8")
_MOST_LABELS = 24


def draw(report: Report, path: Path) -> None:
    """Write all bar charts of the report to one PNG file."""
    # The object interface: pyplot would look for a display, and keep figures alive.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = max(1, (len(report.bars) + 1) // 2)
    figure = Figure(figsize=(13, 4.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(report.title, fontsize=15)
    axes = list(figure.subplots(rows, 2, squeeze=False).flat)
    for axis, bars, colour in zip(axes, report.bars, cycle(_COLOURS), strict=False):
        _draw_bars(axis, bars, colour)
    for axis in axes[len(report.bars) :]:
        axis.set_visible(False)
    figure.savefig(path, dpi=110)


def _draw_bars(axis: Any, bars: Bars, colour: str) -> None:
    axis.set_title(bars.title, fontsize=11)
    axis.set_ylabel(bars.unit)
    places = range(len(bars.values))
    axis.bar(places, bars.values, color=colour)
    # Of many labels every nth is shown; all of them would be a black band.
    step = -(-len(bars.labels) // _MOST_LABELS) or 1
    axis.set_xticks(list(places)[::step], list(bars.labels)[::step], rotation=45, ha="right", fontsize=8)
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
