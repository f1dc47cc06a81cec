"""Charts as inline SVG. The server renders them, so that they need no JavaScript."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from markupsafe import Markup

from ottla_console.cluster.samples import Point

WIDTH: Final = 640
HEIGHT: Final = 120
SPARK_WIDTH: Final = 96
SPARK_HEIGHT: Final = 24
MARGIN: Final = 2


def line_chart(points: Sequence[Point], label: str, shown: Callable[[float], str]) -> Markup:
    """Return a line chart with the current and the highest value and the times of its first and last point. Return a
    text if there are fewer than two points.
    """
    if len(points) < 2:
        return Markup(
            '<p class="empty">{}: too few samples yet; the chart is shown from the second one on.</p>'
        ).format(label)
    top = max(point.value for point in points) or 1.0
    line = _line(points, WIDTH, HEIGHT, top)
    first, last = line.split(" ")[0], line.split(" ")[-1]
    area = f"{first.split(',')[0]},{HEIGHT} {line} {last.split(',')[0]},{HEIGHT}"
    current = points[-1].value
    return Markup(
        '<figure class="chart"><figcaption><span>{label}</span> <b>{current}</b> <span class="quiet">max {top}</span>'
        '</figcaption><svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="{text}">'
        '<line class="grid" x1="0" x2="{width}" y1="{half}" y2="{half}"/>'
        '<polygon class="area" points="{area}"/><polyline class="line" points="{line}"/></svg>'
        '<div class="axis"><time>{start}</time><time>{end}</time></div></figure>'
    ).format(
        label=label,
        current=shown(current),
        top=shown(max(point.value for point in points)),
        text=f"{label}: {shown(current)} at {_clock(points[-1])}, at most {shown(top)} since {_clock(points[0])}",
        width=WIDTH,
        height=HEIGHT,
        half=HEIGHT // 2,
        area=area,
        line=line,
        start=_clock(points[0]),
        end=_clock(points[-1]),
    )


def sparkline(points: Sequence[Point]) -> Markup:
    """Return a small line chart for a table row; empty if there are fewer than two points. It is hidden from screen
    readers, because the row also has the number.
    """
    if len(points) < 2:
        return Markup("")
    top = max(point.value for point in points) or 1.0
    return Markup(
        '<svg class="spark" viewBox="0 0 {width} {height}" preserveAspectRatio="none" aria-hidden="true">'
        '<polyline class="line" points="{line}"/></svg>'
    ).format(width=SPARK_WIDTH, height=SPARK_HEIGHT, line=_line(points, SPARK_WIDTH, SPARK_HEIGHT, top))


def _line(points: Sequence[Point], width: int, height: int, top: float) -> str:
    start, span = points[0].time, points[-1].time - points[0].time or 1.0
    room = height - 2 * MARGIN
    return " ".join(
        f"{(p.time - start) / span * width:.1f},{height - MARGIN - p.value / top * room:.1f}" for p in points
    )


def _clock(point: Point) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(point.time))
