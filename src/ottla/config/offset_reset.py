"""Values of auto.offset.reset and share.auto.offset.reset: a word, or a duration (KIP-1106)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.config.options import Parser, one_of

BY_DURATION: Final = "by_duration:"
DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.I,
)
"""Durations as Java's java.time.Duration reads them: P2DT3H4M5.6S."""
UNIT_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


def duration_ms(value: str) -> int:
    """Return the milliseconds of a duration such as PT1H. Raises ValueError for other values, including negative
    durations.
    """
    match = DURATION.fullmatch(value.strip())
    if match is None or not any(match.groupdict().values()):
        raise ValueError("expected a duration that is not negative, such as PT1H or P2DT12H")
    return int(sum(float(number) * UNIT_MS[unit] for unit, number in match.groupdict().items() if number))


def reset_policy(*words: str, aliases: Mapping[Any, str] | None = None) -> Parser[str]:
    """Return a parser of one of the words, or `by_duration:` with a duration."""
    other = one_of(*words, f"{BY_DURATION}<duration>", aliases=aliases)

    def parse(value: Any) -> str:
        word = str(value).strip()
        if not word.lower().startswith(BY_DURATION):
            return other(value)
        duration = word[len(BY_DURATION) :].strip()
        duration_ms(duration)
        return BY_DURATION + duration

    return parse
