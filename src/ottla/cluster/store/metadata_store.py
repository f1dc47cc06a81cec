"""The interface of the metadata store: a tree of znodes with versions, as in ZooKeeper.

The cluster code uses only this interface. A standalone broker and the brokers of one machine use `sqlite_store`,
other clusters `zookeeper_store`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from ottla.errors import KafkaError

ANY_VERSION = -1
"""Set or delete a znode in any version."""
MAX_NODE_BYTES = 1_000_000
"""The largest value of a znode: ZooKeeper closes the connection of a larger request."""


class MetadataStoreError(KafkaError):
    """The metadata store rejected an operation."""


class NoNodeError(MetadataStoreError):
    """The znode, or its parent, does not exist."""


class NodeExistsError(MetadataStoreError):
    """The znode exists already."""


class BadVersionError(MetadataStoreError):
    """Another client has changed the znode since it was read."""


class NotEmptyError(MetadataStoreError):
    """The znode has children."""


class UnreadableNodeError(MetadataStoreError):
    """The value of a znode is malformed."""


class MetadataStoreTimeoutError(MetadataStoreError):
    """The metadata store did not answer in time; a write may have been executed, or may still be."""


Watcher = Callable[[], None]
"""Called once on the event loop when what was read has changed, or can no longer be watched."""


class ZNode(NamedTuple):
    """A znode's value, version, and the zxids of its creation and its last change: they grow with every change of the
    tree.
    """

    value: bytes
    version: int
    created: int = 0
    modified: int = 0
    """0 if the store does not count changes."""


class Create(NamedTuple):
    """Create a znode whose parent exists. Ephemeral: it is deleted with the session. Sequence: ten digits are
    appended.
    """

    path: str
    value: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


class Set(NamedTuple):
    """Replace the value of a znode."""

    path: str
    value: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a znode without children."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fail the transaction unless the znode has this version."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class MetadataStore(Protocol):
    """A tree of znodes. Every method raises a MetadataStoreError if the tree does not allow the operation."""

    async def get(self, path: str, watch: Watcher | None = None) -> ZNode | None:
        """Return the znode, or None. `watch` fires when it is created, changed or deleted next."""
        ...

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Return the names of the znode's children, sorted; none if the znode does not exist.

        `watch` fires when a child is created or deleted next, if the znode exists.
        """
        ...

    async def multi(self, operations: Sequence[Operation]) -> None:
        """Execute all of the operations or none; durable on return."""
        ...

    def on_new_session(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Call `listener` when a new session has replaced one that has ended: ephemeral znodes and watches are
        lost.
        """
        ...

    async def close(self) -> None:
        """End the session, which deletes its ephemeral znodes."""
        ...


async def put(store: MetadataStore, path: str, value: bytes) -> Create | Set:
    """Return the operation that sets a znode's value, whether it exists or not."""
    return Create(path, value) if await store.get(path) is None else Set(path, value)
