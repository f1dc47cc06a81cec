"""Replaces functions of the production code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.simulation.world import ZOOKEEPER

Bug = Callable[[], None]


class Needs(NamedTuple):
    """The faults and workloads by which a bug is detected soon, the choice of the seed by default, and the store."""

    faults: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    store: str = ZOOKEEPER


NEEDS: dict[str, Needs] = {}
"""By the name of the bug."""


def needs(*faults: str, workloads: tuple[str, ...] = (), store: str = ZOOKEEPER) -> Callable[[Bug], Bug]:
    """Note what a bug needs to be detected soon."""

    def note(bug: Bug) -> Bug:
        NEEDS[bug.__name__] = Needs(faults, workloads, store)
        return bug

    return note


def imported(module: Any, name: str) -> Any:
    """Return what a module has imported under a name, and uses."""
    return getattr(module, name)


def patch(owner: Any, name: str, replacement: Any) -> None:
    """Put a replacement in the place of a function, method or constant, for good."""
    assert hasattr(owner, name), f"{owner} has no {name}"
    setattr(owner, name, replacement)
