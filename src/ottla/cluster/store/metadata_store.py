"""The store: a tree of small nodes with versions, as ZooKeeper keeps it. What the whole cluster agrees on lies here.

Controller code is written against this interface only. A broker by itself uses `embedded`; a cluster, ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ottla.errors import KafkaError

ANY_VERSION = -1
"""Set or delete whatever the node's version is."""


class MetadataStoreError(KafkaError):
    """The store refused an operation."""


class NoNodeError(MetadataStoreError):
    """There is no node at this path, or it has no parent."""


class NodeExistsError(MetadataStoreError):
    """There is a node at this path already."""


class BadVersionError(MetadataStoreError):
    """The node was changed by another since it was read."""


class NotEmptyError(MetadataStoreError):
    """The node has children."""


class UnreadableNodeError(MetadataStoreError):
    """What a node holds is not what belongs there."""


class MetadataStoreTimeoutError(MetadataStoreError):
    """The store did not answer in time; a write may have been done, or be done yet."""


Watcher = Callable[[], None]
"""Told once, on the loop, when what was read has changed or can no longer be watched; who goes on reads again."""


class Node(NamedTuple):
    """A node's value, how often it was set, and when it was made: a number that grows with every change of the tree."""

    value: bytes
    version: int
    created: int = 0


class Create(NamedTuple):
    """Make a node; its parent must be there. Ephemeral: it goes with the session. Sequence: ten digits are appended."""

    path: str
    value: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


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


class MetadataStore(Protocol):
    """A tree of nodes. Every method raises a MetadataStoreError where the tree does not allow the operation."""

    async def get(self, path: str, watch: Watcher | None = None) -> Node | None:
        """The node, or None. `watch` hears of the next time that it is made, set or deleted."""
        ...

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Names of the node's children, sorted; none for a node that is not there.

        `watch` hears of the next child that comes or goes, where the node is there.
        """
        ...

    async def multi(self, operations: Sequence[Operation]) -> None:
        """All of the operations or none; durable on return."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral nodes go."""
        ...


async def put(store: MetadataStore, path: str, value: bytes) -> Create | Set:
    """The operation that gives a node this value, whether it is there or not."""
    return Create(path, value) if await store.get(path) is None else Set(path, value)
