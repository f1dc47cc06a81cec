"""Leaks resources of a simulated broker, one kind after the other, and prints what the check of resources reports.

It is a separate program, since the simulation replaces the operating system in its process.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ottla.broker.sessions.share_sessions import SessionKey
from ottla.cluster.store.sqlite_store import FILE_NAME
from ottla.cluster.store.sqlite_tree import SqliteTree
from ottla.coordinator.group.pending_offsets import OffsetKey, OpenTransaction
from ottla.model import TopicPartition
from ottla.simulation import system
from ottla.simulation.checking.resources import MAX_TASKS, MAX_TIMERS, leaked
from ottla.simulation.cluster import SimulatedBroker, SimulatedCluster
from ottla.simulation.disk import SYSTEM
from ottla.simulation.world import SQLITE, World

FILES = 100


class Heart:
    """An object with two timers instead of one."""

    def beat(self) -> None:
        pass


Heart.__module__ = "ottla.simulation.heart"


def leaks(cluster: SimulatedCluster, broker: SimulatedBroker) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield, for each kind of resource, a function that leaks some."""
    context, node, process, loop = broker.context, broker.node, broker.process, cluster.world.loop
    assert context is not None
    assert node is not None
    assert process is not None
    tree = SqliteTree(cluster.world.metadata_directory / FILE_NAME, shared=True)
    tree.open()
    groups, heart = context.coordinators.groups, Heart()
    key = OffsetKey("g", TopicPartition("t", 0))
    path = broker.log_dirs[0] / "file"
    yield "tasks", lambda: [process.start(asyncio.sleep(3600)) for _ in range(MAX_TASKS)]
    yield "timers", lambda: [process.run(loop.call_later, 3600, print) for _ in range(MAX_TIMERS)]
    yield "timers of one object", lambda: [process.run(loop.call_later, 3600, heart.beat) for _ in range(2)]
    yield "files", lambda: [process.run(SYSTEM[0].open, path, os.O_CREAT | os.O_RDWR) for _ in range(FILES)]
    yield "memory", lambda: setattr(node.request_memory, "used", 1 << 20)
    yield "waiting requests", lambda: setattr(context.request_stats.add("Produce"), "waiting", 1)
    yield "members", lambda: setattr(groups.groups, "by_id", {"g": SimpleNamespace(member_count=1)})
    yield "pending offsets", lambda: groups.offsets.pending.add(OpenTransaction(0, 7), key, None)
    yield "share sessions", lambda: [context.share_sessions.open(SessionKey("g", str(n))) for n in range(3)]
    yield "sessions", lambda: tree.begin_session(lambda number: None)


async def main(world: World) -> None:
    cluster = SimulatedCluster(world, 1, {"default.replication.factor": 1, "min.insync.replicas": 1})
    await cluster.start()
    print("none:", leaked(cluster))
    before: set[str] = set()
    for kind, leak in leaks(cluster, cluster.brokers[0]):
        leak()
        now = set(leaked(cluster))
        print(f"{kind}:", *(now - before))
        before = now


if __name__ == "__main__":
    system.load_modules()
    with tempfile.TemporaryDirectory() as directory:
        simulated = World(1, Path(directory), store=SQLITE)
        simulated.install()
        simulated.run(main(simulated))
