"""ZooKeeper in memory: one tree of znodes and the sessions of several brokers, for clusters in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ottla.cluster.store.metadata_store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    MetadataStoreError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Set,
    Watcher,
    ZNode,
)


@dataclass
class _Entry:
    value: bytes
    version: int
    created: int
    owner: Session | None
    next_number: int = 0


class SharedTree:
    """The tree that all sessions share."""

    def __init__(self) -> None:
        self.nodes: dict[str, _Entry] = {"": _Entry(b"", 0, 0, None)}
        self._watchers: dict[str, list[Watcher]] = {}
        self._zxid = 0

    def session(self) -> Session:
        return Session(self)

    def get(self, path: str) -> ZNode | None:
        entry = self.nodes.get(path)
        return None if entry is None else ZNode(entry.value, entry.version, entry.created)

    def children(self, path: str) -> list[str]:
        return sorted(p[len(path) + 1 :] for p in self.nodes if p.rpartition("/")[0] == path and p)

    def watch(self, path: str, watcher: Watcher | None) -> None:
        if watcher is not None and watcher not in self._watchers.get(path, ()):
            self._watchers.setdefault(path, []).append(watcher)

    def multi(self, operations: Sequence[Operation], owner: Session) -> None:
        before = {path: _Entry(**vars(entry)) for path, entry in self.nodes.items()}
        changed: list[str] = []
        try:
            for operation in operations:
                changed += self._apply(operation, owner)
        except MetadataStoreError:
            self.nodes = before
            raise
        self._fire_watches(changed)

    def expire(self, owner: Session) -> None:
        """Delete the ephemeral znodes of a session."""
        changed: list[str] = []
        for path in [path for path, entry in self.nodes.items() if entry.owner is owner]:
            changed += self._apply(Delete(path), owner)
        self._fire_watches(changed)

    def _fire_watches(self, paths: list[str]) -> None:
        for path in paths:
            for watcher in self._watchers.pop(path, ()):
                asyncio.get_running_loop().call_soon(watcher)

    def _apply(self, operation: Operation, owner: Session) -> list[str]:
        self._zxid += 1
        match operation:
            case Create(path, value, ephemeral, sequence):
                parent = path.rpartition("/")[0]
                if parent not in self.nodes:
                    raise NoNodeError(parent)
                if sequence:
                    path += f"{self.nodes[parent].next_number:010d}"
                    self.nodes[parent].next_number += 1
                if path in self.nodes:
                    raise NodeExistsError(path)
                self.nodes[path] = _Entry(value, 0, self._zxid, owner if ephemeral else None)
                return [path, parent + "/"]
            case Set(path, value, version):
                entry = self._check(path, version)
                entry.value, entry.version = value, entry.version + 1
                return [path]
            case Delete(path, version):
                self._check(path, version)
                if self.children(path):
                    raise NotEmptyError(path)
                del self.nodes[path]
                return [path, path.rpartition("/")[0] + "/"]
            case Check(path, version):
                self._check(path, version)
        return []

    def _check(self, path: str, version: int) -> _Entry:
        entry = self.nodes.get(path)
        if entry is None:
            raise NoNodeError(path)
        if version not in (ANY_VERSION, entry.version):
            raise BadVersionError(path)
        return entry


class Session:
    """A `MetadataStore` over the shared tree. `expire` does what ZooKeeper does after the session timeout."""

    def __init__(self, tree: SharedTree) -> None:
        self._tree = tree
        self._listeners: list[Callable[[], Awaitable[None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._resumed = asyncio.Event()
        self._resumed.set()

    def on_new_session(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Like `ZooKeeperMetadataStore.on_new_session`."""
        self._listeners.append(listener)

    def pause(self) -> None:
        """Let every call wait, as with a lost connection."""
        self._resumed.clear()

    def expire(self) -> None:
        """Expire the session; the broker continues with a new one after `resume`."""
        self._tree.expire(self)

    def resume(self) -> None:
        """Let calls through again, in a new session."""
        self._resumed.set()
        for listener in self._listeners:
            task = asyncio.ensure_future(listener())
            assert isinstance(task, asyncio.Task)
            self._tasks.add(task)

    async def get(self, path: str, watch: Watcher | None = None) -> ZNode | None:
        await self._step()
        self._tree.watch(path, watch)
        return self._tree.get(path)

    async def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        await self._step()
        if path in self._tree.nodes:
            self._tree.watch(path + "/", watch)
        return self._tree.children(path)

    async def multi(self, operations: Sequence[Operation]) -> None:
        await self._step()
        self._tree.multi(operations, self)

    async def close(self) -> None:
        self._tree.expire(self)

    async def _step(self) -> None:
        """Let other tasks run in between, as with ZooKeeper."""
        await asyncio.sleep(0)
        await self._resumed.wait()
