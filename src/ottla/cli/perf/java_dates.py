"""Formats times with the patterns of java.text.SimpleDateFormat."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import Final

from ottla.errors import ConfigurationError

_PARTS: Final = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z']+)")
"""Matches a quoted text, a run of one letter, or other characters."""
_QUOTE: Final = "''"

_NUMBERS: Final[Mapping[str, Callable[[datetime], int]]] = {
    "d": lambda at: at.day,
    "D": lambda at: at.timetuple().tm_yday,
    "H": lambda at: at.hour,
    "k": lambda at: at.hour or 24,
    "K": lambda at: at.hour % 12,
    "h": lambda at: at.hour % 12 or 12,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
    "S": lambda at: at.microsecond // 1000,
    "u": lambda at: at.isoweekday(),
}
"""Numbers by pattern letter. Each is padded with zeros to the length of the run of the letter."""

_TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "E": ("%a", "%A"),
    "a": ("%p", "%p"),
    "z": ("%Z", "%Z"),
    "Z": ("%z", "%z"),
}
"""Codes of strftime by pattern letter: the short form, and the long form for four letters or more."""


class DateFormat:
    """A pattern of SimpleDateFormat for times in `zone` (None: local time). Raises ConfigurationError, with the name of
    the option, if a quote is not closed or a letter is not supported.
    """

    def __init__(self, pattern: str, option: str, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._parts = [_part(match, pattern, option) for match in _matches(pattern, option)]

    def text(self, ms: int) -> str:
        """Format a time, which is in milliseconds since 1970."""
        at = datetime.fromtimestamp(ms // 1000, self._zone).astimezone(self._zone).replace(microsecond=ms % 1000 * 1000)
        return "".join(part(at) for part in self._parts)


def _matches(pattern: str, option: str) -> list[re.Match[str]]:
    matches = list(_PARTS.finditer(pattern))
    if sum(len(match[0]) for match in matches) != len(pattern):
        raise ConfigurationError(f"{option} {pattern!r}: a quote is not closed")
    return matches


def _part(match: re.Match[str], pattern: str, option: str) -> Callable[[datetime], str]:
    quoted, letters, letter, other = match.groups()
    if letters is None:
        text = other if other is not None else (quoted.replace(_QUOTE, "'") or "'")
        return lambda at: text
    count = len(letters)
    if letter == "y":
        return (lambda at: f"{at.year % 100:02}") if count == 2 else (lambda at: f"{at.year:0{count}}")
    if letter in "ML":
        return (lambda at: f"{at.month:0{count}}") if count < 3 else _formatted("%b" if count == 3 else "%B")
    if letter in _NUMBERS:
        number = _NUMBERS[letter]
        return lambda at: f"{number(at):0{count}}"
    if letter in _TEXTS:
        return _formatted(_TEXTS[letter][count > 3])
    raise ConfigurationError(f"{option} {pattern!r}: {letter!r} is not a letter of a date format")


def _formatted(code: str) -> Callable[[datetime], str]:
    return lambda at: at.strftime(code)
