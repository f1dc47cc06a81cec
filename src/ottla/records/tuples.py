"""Instances of subclasses of tuple. The compiled modules have the same in tuples.pxd, without a call of Python."""

from __future__ import annotations

from typing import Any


def tuple_of(cls: type[Any], first: tuple[Any, ...], second: tuple[Any, ...]) -> Any:
    """Return an instance of `cls`, a subclass of tuple, with the items of both."""
    return tuple.__new__(cls, first + second)
