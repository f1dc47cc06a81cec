"""Formatting of numbers, sizes and times, mostly as filters of templates, and parsing of times."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

NONE: Final = "\N{EN DASH}"
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
SECOND_MS: Final = 1_000
MAX_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def number(value: float | None) -> str:
    """Return a number with thousands separators, rounded to an integer, or to one decimal if it is a float between -10
    and 10 other than 0. Return a dash for None.
    """
    if value is None:
        return NONE
    if isinstance(value, float) and 0 < abs(value) < 10:
        return f"{value:.1f}"
    return f"{round(value):,}"


def nbytes(value: float | None) -> str:
    """Return a number of bytes with a binary unit, such as 1.5 MiB. Return a dash for None and negative numbers."""
    if value is None or value < 0:
        return NONE
    size, unit = float(value), 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {UNITS[unit]}" if size >= 100 or not unit else f"{size:.1f} {UNITS[unit]}"


def timestamp(ms: int | None) -> str:
    """Return a time in milliseconds since 1970 as text in UTC, such as `2026-01-31 12:00:00.000Z`. Return a dash if
    there is none, or if it is negative or after the year 9999.
    """
    if ms is None or not 0 <= ms <= MAX_MS:
        return NONE
    return datetime.fromtimestamp(ms / SECOND_MS, UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")


def age(seconds: float) -> str:
    """Return a duration, given in seconds, as text with one unit, such as `5 min`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def clock(seconds: float) -> str:
    """Return the time of day in UTC for a time in seconds since 1970."""
    return time.strftime("%H:%M:%S UTC", time.gmtime(seconds))


def parsed_time(text: str) -> int:
    """Return milliseconds since 1970 for a number of milliseconds, or for a time in ISO 8601, which is in UTC if it has
    no time zone.

    Raises ValueError for other texts.
    """
    text = text.strip()
    if text.isdecimal():
        return int(text)
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * SECOND_MS)
