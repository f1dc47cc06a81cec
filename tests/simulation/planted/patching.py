"""Replaces functions of the production code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.simulation.world import ZOOKEEPER

Bug = Callable[[], None]


class Needs(NamedTuple):
    """The faults and workloads that detect a bug quickly (by default those of the seed), and the metadata store."""

    faults: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    store: str = ZOOKEEPER


NEEDS: dict[str, Needs] = {}
"""The needs of a bug, by its name."""


def needs(*faults: str, workloads: tuple[str, ...] = (), store: str = ZOOKEEPER) -> Callable[[Bug], Bug]:
    """Register the faults and workloads that detect a bug quickly."""

    def register(bug: Bug) -> Bug:
        NEEDS[bug.__name__] = Needs(faults, workloads, store)
        return bug

    return register


def imported(module: Any, name: str) -> Any:
    """Return the object that a module has imported under a name."""
    return getattr(module, name)


def patch(owner: Any, name: str, replacement: Any) -> None:
    """Replace a function, method or constant permanently."""
    assert hasattr(owner, name), f"{owner} has no {name}"
    setattr(owner, name, replacement)
