"""The payloads of producer-perf-test: random letters, random parts of a file, or numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from ottla.errors import ConfigurationError

SEED: Final = 0
"""The seed is fixed, so that each run sends the same payloads."""
BLOCK_BYTES: Final = 64 * 1024
"""The maximum size in bytes of blocks of random letters, unless a payload is larger. Payloads are slices of a
block, which is faster than generating each.
"""
LETTERS: Final = bytes(ord("A") + i % 26 for i in range(256))
"""Translates each byte to a capital letter."""


def letters(size: int) -> Iterator[bytes]:
    """Yield random payloads of `size` capital letters without end: the same ones in each run."""
    random = Random(SEED)
    length = max(1, BLOCK_BYTES // size) * size
    while True:
        block = random.randbytes(length).translate(LETTERS)
        for start in range(0, length, size):
            yield block[start : start + size]


def choices(payloads: list[bytes]) -> Iterator[bytes]:
    """Yield payloads that are randomly chosen from a list, without end: the same ones in each run."""
    random = Random(SEED)
    while True:
        yield from random.choices(payloads, k=1000)


def numbers() -> Iterator[bytes]:
    """Yield the numbers 0, 1, 2… as decimal text, without end."""
    return (b"%d" % number for number in count())


def read(file: str, delimiter: str) -> list[bytes]:
    """Read the payloads from a UTF-8 text file, separated by the regular expression `delimiter`. Raises
    ConfigurationError if there are none, the file cannot be read, or the expression is invalid.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError(f"--payload-file: {file} cannot be read: {reason}") from None
    try:
        parts = _split(text, delimiter)
    except re.error as error:
        raise ConfigurationError(f"--payload-delimiter {delimiter!r} is not a regular expression: {error}") from None
    if not parts:
        raise ConfigurationError(f"--payload-file: {file} is empty: expected at least one payload")
    return [payload.encode() for payload in parts]


def _split(text: str, delimiter: str) -> list[str]:
    """Split like Java's Scanner, which ignores a delimiter at the beginning and at the end."""
    pattern = re.compile(delimiter)
    leading = pattern.match(text)
    text = text[leading.end() :] if leading else text
    # Not re.split, which also returns the groups of the expression.
    matches = [match.span() for match in pattern.finditer(text)]
    begins, ends = [0, *(end for _, end in matches)], [*(start for start, _ in matches), len(text)]
    parts = [text[begin:end] for begin, end in zip(begins, ends, strict=True)]
    return parts if parts[-1] else parts[:-1]
