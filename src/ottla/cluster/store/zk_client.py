"""`ZkClient`: the registry of a cluster for blocking callers, as the 0.8 clients are.

A loop on a thread of its own runs the registry; any thread may call. Watches are told on that loop's thread: what they
call must not block.
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
    Watcher,
)
from ottla.cluster.store.zookeeper_store import ZooKeeperMetadataStore

T = TypeVar("T")


class ZkClient:
    """A session with ZooKeeper. Every call ends within the session timeout, with a MetadataStoreError if need be."""

    def __init__(self, connect: str, session_timeout_ms: int = 30_000, connection_timeout_ms: int = 30_000) -> None:
        self.registry = ZooKeeperMetadataStore(
            connect,
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=connection_timeout_ms,
            makes_chroot=False,
        )
        self._loop = asyncio.new_event_loop()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="ZkClient", daemon=True)

    def start(self) -> None:
        """Connect. StartupError where ZooKeeper does not answer in time, or has no cluster below the chroot."""
        self._thread.start()
        try:
            self.run(self.registry.open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the session, and with it its ephemeral nodes. Twice does no harm."""
        if self._closed:
            return
        try:
            self.run(self.registry.close())
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
        """The result of work on the loop. Not from the loop's own thread."""
        if self._closed:
            work.close()
            raise MetadataStoreError("the session with ZooKeeper has ended")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def on_new_session(self, listener: Callable[[], None]) -> None:
        """Call `listener` when another session has taken the place of one that expired."""

        async def on_session() -> None:
            listener()

        self.registry.on_new_session(on_session)

    def get(self, path: str, watch: Watcher | None = None) -> bytes | None:
        """A node's value; None where there is no node."""
        node = self.run(self.registry.get(path, watch))
        return None if node is None else node.value

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Names of a node's children, sorted."""
        return self.run(self.registry.children(path, watch))

    def multi(self, *operations: Operation) -> None:
        """All of the operations or none."""
        self.run(self.registry.multi(operations))

    def make_path(self, path: str) -> None:
        """Make a persistent node and its parents, where they are missing."""
        parts = path.split("/")[1:]
        for count in range(1, len(parts) + 1):
            parent = "/" + "/".join(parts[:count])
            if self.get(parent) is None:
                try:
                    self.multi(Create(parent))
                except NodeExistsError:
                    pass  # another was quicker

    def update_persistent(self, path: str, value: bytes) -> None:
        """Set a persistent node, and make it and its parents where they are missing."""
        try:
            self.multi(Set(path, value))
        except NoNodeError:
            self.make_path(path)
            self.multi(Set(path, value))

    def delete_if(self, path: str, value: bytes) -> None:
        """Delete a node that has this value: not what another has put there meanwhile."""
        node = self.run(self.registry.get(path))
        if node is not None and node.value == value:
            try:
                self.multi(Delete(path, node.version))
            except NoNodeError:
                pass  # gone with its session

    def delete_tree(self, path: str) -> None:
        """Delete a node and all below it; nothing where it is not there."""
        for name in self.children(path):
            self.delete_tree(f"{path}/{name}")
        try:
            self.multi(Delete(path))
        except NoNodeError:
            pass

    def brokers(self, watch: Watcher | None = None) -> dict[int, tuple[str, int]]:
        """Host and port of the live brokers."""
        found = {}
        for name in self.children(znodes.BROKER_IDS, watch):
            raw = self.get(znodes.broker(int(name)))
            if raw is not None:
                found[int(name)] = broker_address(raw)
        return {number: address for number, address in found.items() if address is not None}


def broker_address(raw: bytes) -> tuple[str, int] | None:
    """Where a broker of any version is reached without TLS and SASL; None where it is not.

    Brokers since 0.9 with no PLAINTEXT listener have no host (null) and port -1.
    """
    value = znodes.load(raw)
    host, port = value.get("host"), int(value.get("port", -1))
    return (str(host), port) if host and port > 0 else None
