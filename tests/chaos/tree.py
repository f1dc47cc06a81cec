"""The state of brokers and partitions in the metadata store, which is the cluster's source of truth."""

from __future__ import annotations

import json
import logging
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.chaos.cluster import BROKERS

from ottla.cluster.store.sqlite_store import FILE_NAME

CONNECT_SECONDS = 30.0
QUIET = logging.getLogger("tests.chaos.kazoo")
QUIET.setLevel(logging.CRITICAL)  # ZooKeeper is stopped on purpose
IDS, TOPICS, CONTROLLER = "/brokers/ids", "/brokers/topics", "/controller"


class UnreadableTreeError(Exception):
    """The metadata store does not respond, or has no such znode."""


class Tree(ABC):
    """The znodes of the cluster."""

    @abstractmethod
    def children(self, path: str) -> list[str]:
        """Return the names of a znode's children."""

    @abstractmethod
    def read(self, path: str) -> Any:
        """Return the value of a znode."""

    @abstractmethod
    def close(self) -> None:
        """End the session."""

    def missing(self) -> list[str]:
        """Return unregistered brokers, and partitions without a leader or with a replica that is not in sync."""
        try:
            there = {int(broker) for broker in self.children(IDS)}
            return [f"broker {broker}" for broker in BROKERS if broker not in there] + self._partitions()
        except UnreadableTreeError as error:
            return [str(error)]

    def _partitions(self) -> list[str]:
        result = []
        for topic in self.children(TOPICS):
            for partition, replicas in self.read(f"{TOPICS}/{topic}")["partitions"].items():
                state = self.read(f"{TOPICS}/{topic}/partitions/{partition}/state")
                if state["leader"] < 0 or set(state["isr"]) != set(replicas):
                    result.append(f"{topic}-{partition} (leader {state['leader']}, ISR {state['isr']})")
        return result

    def controller(self) -> int:
        """Return the active controller, or -1."""
        try:
            return int(self.read(CONTROLLER)["brokerid"])
        except UnreadableTreeError:
            return -1

    def leaders(self, topic: str) -> Mapping[int, int]:
        """Return the leader of each partition."""
        partitions = self.children(f"{TOPICS}/{topic}/partitions")
        return {int(p): self.read(f"{TOPICS}/{topic}/partitions/{p}/state")["leader"] for p in partitions}


class ZooKeeperTree(Tree):
    """A session with ZooKeeper, without links."""

    def __init__(self, connect: str) -> None:
        from kazoo.client import KazooClient
        from kazoo.retry import KazooRetry

        for_ever = KazooRetry(max_tries=-1, max_delay=0.5)
        self._retry = KazooRetry(max_tries=-1, max_delay=0.5, deadline=CONNECT_SECONDS)
        self._client = KazooClient(connect, timeout=10.0, connection_retry=for_ever, logger=QUIET)
        self._client.start(CONNECT_SECONDS)

    def children(self, path: str) -> list[str]:
        names: list[str] = self._call(self._client.get_children, path)
        return names

    def read(self, path: str) -> Any:
        return json.loads(self._call(self._client.get, path)[0])

    def _call(self, method: Any, path: str) -> Any:
        from kazoo.exceptions import KazooException

        try:
            return self._retry(method, path)
        except KazooException as error:
            raise UnreadableTreeError(f"ZooKeeper: {error!r}") from error

    def close(self) -> None:
        self._client.stop()
        self._client.close()


class EmbeddedTree(Tree):
    """The SQLite file of the embedded metadata store."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME

    def children(self, path: str) -> list[str]:
        rows = self._query("SELECT path FROM nodes WHERE parent = ? ORDER BY path", path)
        return [str(row[0]).rpartition("/")[2] for row in rows]

    def read(self, path: str) -> Any:
        rows = self._query("SELECT value FROM nodes WHERE path = ?", path)
        if not rows:
            raise UnreadableTreeError(f"no {path}")
        return json.loads(rows[0][0])

    def _query(self, sql: str, path: str) -> list[Any]:
        try:
            db = sqlite3.connect(self._path)
            try:
                return db.execute(sql, (path,)).fetchall()
            finally:
                db.close()
        except sqlite3.Error as error:
            raise UnreadableTreeError(f"{self._path}: {error}") from error

    def close(self) -> None:
        """Do nothing: no connection stays open."""
