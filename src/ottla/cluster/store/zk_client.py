"""`ZkClient`: a blocking API of the metadata store in ZooKeeper, for callers such as the 0.8 clients.

The store runs on an event loop in a separate thread. Any other thread may call the methods. Watchers and listeners are
called in the event loop's thread, and must not block.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import (
    Create,
    Delete,
    MetadataStoreError,
    NodeExistsError,
    NoNodeError,
    Operation,
    Set,
    UnreadableNodeError,
    Watcher,
)
from ottla.cluster.store.zookeeper_store import ZooKeeperMetadataStore

T = TypeVar("T")


class ZkClient:
    """A session with ZooKeeper.

    The methods raise MetadataStoreError, such as MetadataStoreTimeoutError if ZooKeeper does not answer within the
    session timeout.
    """

    def __init__(self, connect: str, session_timeout_ms: int = 30_000, connection_timeout_ms: int = 30_000) -> None:
        self.store: ZooKeeperMetadataStore = ZooKeeperMetadataStore(
            connect,
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=connection_timeout_ms,
            makes_chroot=False,
        )
        self._loop = asyncio.new_event_loop()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="ZkClient", daemon=True)

    def start(self) -> None:
        """Connect. Raises StartupError if kazoo is not installed, ZooKeeper does not answer in time, or the chroot does
        not exist.
        """
        self._thread.start()
        try:
            self.run(self.store.open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the session, which deletes its ephemeral znodes. May be called twice, and without `start`."""
        if self._closed:
            return
        if self._thread.ident is None:
            self._closed = True
            self._loop.close()
            return
        try:
            self.run(self.store.close())
        finally:
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, and return its result. Must not be called in the event loop's thread."""
        if self._closed or self._thread.ident is None:
            work.close()
            has = "has ended" if self._closed else "has not been started"
            raise MetadataStoreError(f"the session with ZooKeeper {has}")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def on_new_session(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a new session has replaced an expired one."""

        async def on_session() -> None:
            listener()

        self.store.on_new_session(on_session)

    def get(self, path: str, watch: Watcher | None = None) -> bytes | None:
        """Return a znode's value; None if it does not exist."""
        node = self.run(self.store.get(path, watch))
        return None if node is None else node.value

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Return the sorted names of a znode's children; none if it does not exist."""
        return self.run(self.store.children(path, watch))

    def multi(self, *operations: Operation) -> None:
        self.run(self.store.multi(operations))

    def make_path(self, path: str) -> None:
        """Create a persistent znode and its parents if they are missing."""
        parts = path.split("/")[1:]
        for count in range(1, len(parts) + 1):
            parent = "/" + "/".join(parts[:count])
            if self.get(parent) is None:
                try:
                    self.multi(Create(parent))
                except NodeExistsError:
                    pass  # another client has created it

    def update_persistent(self, path: str, value: bytes) -> None:
        """Set the value of a persistent znode. Create it and its parents if they are missing."""
        try:
            self.multi(Set(path, value))
        except NoNodeError:
            self.make_path(path)
            self.multi(Set(path, value))

    def delete_if(self, path: str, value: bytes) -> None:
        """Delete a znode if it has this value. Do nothing if it has another value or does not exist.

        Raises BadVersionError if another client changes it meanwhile.
        """
        node = self.run(self.store.get(path))
        if node is not None and node.value == value:
            try:
                self.multi(Delete(path, node.version))
            except NoNodeError:
                pass  # the znode was deleted with its session

    def delete_tree(self, path: str) -> None:
        """Delete a znode and all its descendants. Do nothing if it does not exist."""
        for name in self.children(path):
            self.delete_tree(f"{path}/{name}")
        try:
            self.multi(Delete(path))
        except NoNodeError:
            pass

    def brokers(self, watch: Watcher | None = None) -> dict[int, tuple[str, int]]:
        """Return host and port of the registered brokers by id, except those without a plaintext listener."""
        addresses = {}
        for name in self.children(znodes.BROKER_IDS, watch):
            path = f"{znodes.BROKER_IDS}/{name}"
            raw = self.get(path)
            if raw is not None:
                try:
                    addresses[int(name)] = broker_address(raw)
                except (ValueError, TypeError, AttributeError) as error:
                    raise UnreadableNodeError(f"{path} is not a registration: {raw[:200]!r}: {error!r}") from None
        return {number: address for number, address in addresses.items() if address is not None}


def broker_address(raw: bytes) -> tuple[str, int] | None:
    """Return host and port of a broker's plaintext listener from its registration, in any version; None if it has no
    such listener.

    Brokers since 0.9 without a PLAINTEXT listener have no host (null) and port -1.
    """
    value = znodes.load(raw)
    host, port = value.get("host"), int(value.get("port", -1))
    return (str(host), port) if host and port > 0 else None
