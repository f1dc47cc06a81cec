"""The registry: a tree of small nodes with versions, as ZooKeeper keeps it. What the whole cluster agrees on lies here.

Controller code is written against this interface only. A broker by itself uses `embedded`; a cluster, ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.errors import KafkaError

ANY_VERSION = -1
"""Set or delete whatever the node's version is."""


class RegistryError(KafkaError):
    """The registry refused an operation."""


class NoNodeError(RegistryError):
    """There is no node at this path, or it has no parent."""


class NodeExistsError(RegistryError):
    """There is a node at this path already."""


class BadVersionError(RegistryError):
    """The node was changed by another since it was read."""


class NotEmptyError(RegistryError):
    """The node has children."""


class Node(NamedTuple):
    """A node's value and how often it was set."""

    value: bytes
    version: int


class Create(NamedTuple):
    """Make a node; its parent must be there."""

    path: str
    value: bytes = b""
    ephemeral: bool = False


class Set(NamedTuple):
    """Replace a node's value."""

    path: str
    value: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Remove a node without children."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Go on only if the node has this version."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class Registry(Protocol):
    """A tree of nodes. Every method raises a RegistryError where the tree does not allow the operation."""

    async def get(self, path: str) -> Node | None:
        """The node, or None."""
        ...

    async def children(self, path: str) -> list[str]:
        """Names of the node's children, sorted; none for a node that is not there."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> None:
        """All of the operations or none; durable on return."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral nodes go."""
        ...
