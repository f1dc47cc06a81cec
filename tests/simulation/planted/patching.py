"""Replaces functions of the production code."""

from __future__ import annotations

from typing import Any


def imported(module: Any, name: str) -> Any:
    """Return what a module has imported under a name, and uses."""
    return getattr(module, name)


def patch(owner: Any, name: str, replacement: Any) -> None:
    """Put a replacement in the place of a function, method or constant, for good."""
    assert hasattr(owner, name), f"{owner} has no {name}"
    setattr(owner, name, replacement)
