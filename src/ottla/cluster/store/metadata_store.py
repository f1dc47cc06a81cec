"""The interface of the metadata store: a tree of znodes with versions, as in ZooKeeper.

`sqlite_store` implements it in a file, for a standalone broker or several brokers on one machine; `zookeeper_store` in
ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from ottla.errors import KafkaError, KafkaStorageError

ANY_VERSION = -1
"""The version in Set or Delete that accepts any version of the znode."""
MAX_NODE_BYTES = 1_000_000
"""Maximum size of a znode's value in bytes.

By default, ZooKeeper closes the connection after a request of 1 MiB or more (`jute.maxbuffer`).
"""


class MetadataStoreError(KafkaError):
    """An operation of the metadata store failed. The base class of its errors."""


class NoNodeError(MetadataStoreError):
    """The znode, or its parent, does not exist."""


class NodeExistsError(MetadataStoreError):
    """The znode already exists."""


class BadVersionError(MetadataStoreError):
    """The znode has another version: it has been changed since it was read."""


class NotEmptyError(MetadataStoreError):
    """The znode has children."""


class UnreadableNodeError(MetadataStoreError):
    """The value of a znode is malformed or has an unsupported version."""


class MetadataStoreTimeoutError(MetadataStoreError):
    """The metadata store did not answer in time. A write may have been executed, or may be executed later."""


class MetadataStoreStorageError(MetadataStoreError, KafkaStorageError):
    """The file of the embedded metadata store cannot be read or written. A write may have been executed."""


Watcher = Callable[[], None]
"""Called once, on the event loop, when the znode or list of children that was read has changed or can no longer be
watched.
"""


class ZNode(NamedTuple):
    """A znode's value and version.

    `created`: a number that is higher for a znode created later: in ZooKeeper the zxid of its creation, in SQLite the
    number of znodes created so far.
    """

    value: bytes
    version: int
    created: int = 0
    modified: int = 0
    """The zxid of the last change of the znode; 0 in SQLite, which stores no such number."""


class Create(NamedTuple):
    """An operation that creates a znode; its parent must exist.

    `ephemeral`: the znode is deleted with the session. `sequence`: the store appends a counter of ten digits to `path`.
    """

    path: str
    value: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


class Set(NamedTuple):
    """An operation that replaces the value of a znode."""

    path: str
    value: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """An operation that deletes a znode without children."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """An operation that fails, with its transaction, unless the znode has this version."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class MetadataStore(Protocol):
    """A tree of znodes. Its methods raise a MetadataStoreError if the operation is not allowed or fails."""

    async def get(self, path: str, watch: Watcher | None = None) -> ZNode | None:
        """Return the znode; None if it does not exist. `watch` is called at its next creation, change or deletion."""
        ...

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Return the sorted names of the znode's children; none if the znode does not exist.

        `watch` is called when a child is created or deleted next, if the znode exists.
        """
        ...

    async def multi(self, operations: Sequence[Operation]) -> None:
        """Execute all operations in one transaction, or none. They are durable on return."""
        ...

    def on_new_session(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Call `listener` when a new session has replaced one that has expired.

        The ephemeral znodes and watches of the old session are lost.
        """
        ...

    async def close(self) -> None:
        """Close the store. This ends the session, which deletes its ephemeral znodes."""
        ...


async def put(store: MetadataStore, path: str, value: bytes) -> Create | Set:
    """Return the operation that sets a znode's value: Create if it does not exist, else Set."""
    return Create(path, value) if await store.get(path) is None else Set(path, value)
