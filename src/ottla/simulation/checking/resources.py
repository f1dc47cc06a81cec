"""Reports resources that brokers still use after their clients have stopped: memory, tasks, timers, connections, files,
waiting requests, members, offsets of open transactions, and sessions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from ottla.broker.broker_context import BrokerContext
from ottla.simulation.cluster import SimulatedBroker, SimulatedCluster
from ottla.simulation.process import PROCESS, Process
from ottla.storage.log import WARM_SEGMENTS

MAX_TASKS: Final = 60
"""Maximum number of tasks of a broker without clients: its periodic tasks, those for the other brokers, and one per
request of another broker.
"""
MAX_TIMERS: Final = 40
"""Maximum number of timers of a broker without clients; it usually has about 20."""
MAX_FETCH_SESSIONS: Final = 200
"""Maximum number of fetch sessions. Those of killed clients stay until others need their place, as in Kafka."""
MAX_SHARE_SESSIONS: Final = 2
"""Maximum number of share sessions, one per member: those of lost connections stay until they are idle for too long."""
FILES_PER_LOG: Final = WARM_SEGMENTS + 2
"""Maximum number of open files of a log: segments that were read, the active one, and the one that is being rolled."""
OTHER_FILES: Final = 16
SHOWN: Final = 3
OF_BROKERS: Final = ("FetchFollower",)
"""The requests of other brokers that wait even without clients, by their names in the statistics."""


def leaked(cluster: SimulatedCluster) -> list[str]:
    """Return descriptions of the resources that brokers have not released. Brokers that do not serve clients are not
    checked.
    """
    leaks = [f"{broker.name} {text}" for broker in cluster.brokers for text in _leaks(cluster, broker)]
    sessions, alive = cluster.world.metadata.session_count, sum(broker.is_alive for broker in cluster.brokers)
    if sessions > alive:
        leaks.append(f"the metadata store has {sessions} sessions of {alive} brokers")
    return leaks


def _leaks(cluster: SimulatedCluster, broker: SimulatedBroker) -> Iterator[str]:
    process, context = broker.process, broker.context
    if process is None or context is None:
        return
    yield from _leaks_of_process(cluster, process, sum(1 for _ in context.partitions))
    yield from _leaks_of_clients(context)
    used = 0 if broker.node is None else broker.node.request_memory.used
    if used:
        yield f"holds {used} bytes of requests"


def _leaks_of_process(cluster: SimulatedCluster, process: Process, logs: int) -> Iterator[str]:
    tasks = process.open_tasks
    if len(tasks) > MAX_TASKS:
        names = Counter(task.get_coro().__qualname__ for task in tasks)  # type: ignore[union-attr]
        yield f"has {len(tasks)} tasks, most of them {names.most_common(SHOWN)}"
    timers = [timer for timer in cluster.world.loop.timers if timer._context.get(PROCESS) is process]
    if len(timers) > MAX_TIMERS:
        yield f"has {len(timers)} timers, most of them {Counter(map(_callback, timers)).most_common(SHOWN)}"
    methods = Counter(
        (timer._callback.__self__, _callback(timer)) for timer in timers if _is_own(timer) and not timer._args
    )
    for (_, name), count in methods.items():
        if count > 1:
            yield f"has {count} timers for one {name}"
    ended = cluster.world.network.ended_connections(process)
    if ended:
        yield f"has connections open that have ended: {ended[:SHOWN]}"
    files = [fd for fd, owner in cluster.world.disks.opened_by.items() if owner is process]
    if len(files) > FILES_PER_LOG * logs + OTHER_FILES:
        yield f"has {len(files)} files open, with {logs} logs"


def _leaks_of_clients(context: BrokerContext) -> Iterator[str]:
    for name, stats in context.request_stats.apis.items():
        if stats.waiting and name not in OF_BROKERS:
            yield f"has {stats.waiting} {name} requests that wait"
    groups = context.coordinators.existing_groups
    if groups is not None:
        for group_id, group in groups.groups.by_id.items():
            if group.member_count:
                yield f"has {group.member_count} members of group {group_id}"
        pending = len(groups.offsets.pending)
        if pending:
            yield f"has pending offsets of {pending} transactions"
    if len(context.fetch_sessions) > MAX_FETCH_SESSIONS:
        yield f"has {len(context.fetch_sessions)} fetch sessions"
    if len(context.share_sessions) > MAX_SHARE_SESSIONS:
        yield f"has {len(context.share_sessions)} share sessions"


def _callback(timer: Any) -> str:
    return str(getattr(timer._callback, "__qualname__", timer._callback))


def _is_own(timer: Any) -> bool:
    """Return whether the callback is a method of Ottla's code. asyncio's callbacks are methods of its many futures."""
    owner = getattr(timer._callback, "__self__", None)
    return owner is not None and type(owner).__module__.startswith("ottla.")
