"""What producer-perf-test sends: letters by chance, lines of a file, or numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from ottla.errors import ConfigurationError

SEED: Final = 0
"""Each run sends the same."""
BLOCK_BYTES: Final = 64 * 1024
"""So much is drawn at a time: a record then costs no more than a copy."""
LETTERS: Final = bytes(ord("A") + i % 26 for i in range(256))
"""A letter for each byte."""


def letters(size: int) -> Iterator[bytes]:
    """Texts of `size` capital letters, without end."""
    random = Random(SEED)
    length = max(1, BLOCK_BYTES // size) * size
    while True:
        block = random.randbytes(length).translate(LETTERS)
        for start in range(0, length, size):
            yield block[start : start + size]


def choices(payloads: list[bytes]) -> Iterator[bytes]:
    """One of these by chance, without end."""
    random = Random(SEED)
    while True:
        yield from random.choices(payloads, k=1000)


def numbers() -> Iterator[bytes]:
    """0, 1, 2…"""
    return (b"%d" % number for number in count())


def read(file: str, delimiter: str) -> list[bytes]:
    """The payloads in a text file. ConfigurationError where there are none, or `delimiter` is no expression."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError(f"--payload-file: {file} cannot be read: {reason}") from None
    try:
        found = _split(text, delimiter)
    except re.error as error:
        raise ConfigurationError(f"--payload-delimiter {delimiter!r} is no regular expression: {error}") from None
    if not found:
        raise ConfigurationError(f"--payload-file: {file} is empty: at least one payload is wanted")
    return [payload.encode() for payload in found]


def _split(text: str, delimiter: str) -> list[str]:
    """As Java's Scanner: a delimiter at the beginning or at the end has nothing before or behind it."""
    pattern = re.compile(delimiter)
    leading = pattern.match(text)
    parts = pattern.split(text[leading.end() :] if leading else text)
    return parts if parts[-1] else parts[:-1]
