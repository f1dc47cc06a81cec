"""How the texts of options are read: functions take what the user wrote, and raise ValueError with what is wanted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from ottla.errors import ConfigurationError

T = TypeVar("T")


def get(lowered: Mapping[str, str], name: str, parse: Callable[[str], T]) -> T | None:
    """The value of an option, None where it is not set. ConfigurationError names option, value and what is wanted."""
    text = lowered.get(name.lower())
    if text is None:
        return None
    try:
        return parse(text.strip())
    except ValueError as error:
        raise ConfigurationError(f"{name}: {text!r} is not allowed: {error}") from None


def get_or(lowered: Mapping[str, str], name: str, parse: Callable[[str], T], default: T) -> T:
    """The same, with a default."""
    value = get(lowered, name, parse)
    return default if value is None else value


def _whole(text: str, at_least: int) -> int:
    if not re.fullmatch(r"[+-]?\d+", text) or int(text) < at_least:
        raise ValueError(f"a whole number of at least {at_least} is wanted")
    return int(text)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    return _whole(text, 1)


def not_negative(text: str) -> int:
    """A whole number of at least 0."""
    return _whole(text, 0)


def boolean(text: str) -> bool:
    """true or false, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false is wanted")
    return text.lower() == "true"


def group(text: str) -> str:
    """The id of a consumer group."""
    if not text:
        raise ValueError("the id of a consumer group is wanted")
    return text


def paths(text: str) -> tuple[str, ...]:
    """Directories, separated by commas."""
    paths = tuple(path.strip() for path in text.split(",") if path.strip())
    if not paths:
        raise ValueError("one or more directories are wanted, as in a broker's log.dirs")
    return paths


def strategy(text: str) -> str:
    """error or latest."""
    if text.lower() not in ("error", "latest"):
        raise ValueError("error or latest is wanted")
    return text.lower()


_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}


def duration_ms(text: str) -> int:
    """Spark's notation of durations, such as 15m, as milliseconds."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if not match or match[2] not in _UNITS_MS:
        raise ValueError("a duration such as 500ms, 30s, 15m or 1h is wanted")
    return int(int(match[1]) * _UNITS_MS[match[2]])
