"""Creation of instances of subclasses of tuple. tuples.pxd has the same function for the compiled modules, in C."""

from __future__ import annotations

from typing import Any


def tuple_of(cls: type[Any], first: tuple[Any, ...], second: tuple[Any, ...]) -> Any:
    """Return an instance of `cls`, a subclass of tuple, with the items of `first` and `second`."""
    return tuple.__new__(cls, first + second)
