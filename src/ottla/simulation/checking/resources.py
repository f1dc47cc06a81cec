"""The resources that brokers still use after their clients have stopped: tasks, connections, open files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ottla.simulation.cluster import SimulatedBroker, SimulatedCluster
from ottla.storage.log import WARM_SEGMENTS

MAX_TASKS: Final = 60
"""Maximum number of tasks of a broker without clients: its periodic tasks, those for the other brokers, and one per
request of another broker.
"""
FILES_PER_LOG: Final = WARM_SEGMENTS + 2
"""Maximum number of open files of a log: segments that were read, the active one, and the one that is being rolled."""
OTHER_FILES: Final = 16
SHOWN: Final = 3


def leaked(cluster: SimulatedCluster) -> list[str]:
    """Return the resources that brokers have not released."""
    return [f"{broker.name} {text}" for broker in cluster.brokers for text in _leaks(cluster, broker)]


def _leaks(cluster: SimulatedCluster, broker: SimulatedBroker) -> Iterator[str]:
    process, context = broker.process, broker.context
    if process is None or context is None:
        return
    tasks = process.open_tasks
    if len(tasks) > MAX_TASKS:
        names = Counter(task.get_coro().__qualname__ for task in tasks)  # type: ignore[union-attr]
        yield f"has {len(tasks)} tasks, most of them {names.most_common(SHOWN)}"
    ended = cluster.world.network.ended_connections(process)
    if ended:
        yield f"has connections open that have ended: {ended[:SHOWN]}"
    files = [fd for fd, owner in cluster.world.disks.opened_by.items() if owner is process]
    logs = sum(1 for _ in context.partitions)
    if len(files) > FILES_PER_LOG * logs + OTHER_FILES:
        yield f"has {len(files)} files open, with {logs} logs"
