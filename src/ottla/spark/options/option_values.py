"""Parsers of option values: each takes the text of an option, and raises ValueError, with a description of valid
values, if the text is invalid. `get` and `get_or` look up an option and parse its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from ottla.errors import ConfigurationError

T = TypeVar("T")


def get(lowered: Mapping[str, str], name: str, parse: Callable[[str], T]) -> T | None:
    """Return the parsed value of an option; None if it is not set. Raises ConfigurationError, which contains the
    option, the value and the reason, for an invalid value.

    `lowered` has the options by their names in lower case.
    """
    text = lowered.get(name.lower())
    if text is None:
        return None
    try:
        return parse(text.strip())
    except ValueError as error:
        raise ConfigurationError(f"{name}: {text!r} is not allowed: {error}") from None


def get_or(lowered: Mapping[str, str], name: str, parse: Callable[[str], T], default: T) -> T:
    """Return the parsed value of an option; `default` if it is not set. Raises ConfigurationError as `get` does."""
    value = get(lowered, name, parse)
    return default if value is None else value


def _whole(text: str, at_least: int) -> int:
    if not re.fullmatch(r"[+-]?\d+", text) or int(text) < at_least:
        raise ValueError(f"expected an integer of at least {at_least}")
    return int(text)


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    return _whole(text, 1)


def not_negative(text: str) -> int:
    """Parse an integer of at least 0."""
    return _whole(text, 0)


def boolean(text: str) -> bool:
    """Parse true or false, case-insensitively."""
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def group(text: str) -> str:
    """Check that the id of a consumer group is not empty, and return it."""
    if not text:
        raise ValueError("expected the id of a consumer group")
    return text


def paths(text: str) -> tuple[str, ...]:
    """Parse directories separated by commas."""
    paths = tuple(path.strip() for path in text.split(",") if path.strip())
    if not paths:
        raise ValueError("expected one or more directories, as in a broker's log.dirs")
    return paths


def strategy(text: str) -> str:
    """Parse "error" or "latest", case-insensitively."""
    if text.lower() not in ("error", "latest"):
        raise ValueError("expected error or latest")
    return text.lower()


_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}


def duration_ms(text: str) -> int:
    """Parse a duration in Spark's notation, such as 15m, and return it in milliseconds, rounded down. A number without
    a unit is in milliseconds.
    """
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if not match or match[2] not in _UNITS_MS:
        raise ValueError("expected a duration such as 500ms, 30s, 15m or 1h")
    return int(int(match[1]) * _UNITS_MS[match[2]])
