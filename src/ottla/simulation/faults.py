"""The faults of a run, which are planned from the seed in advance, so that a failure can be reproduced with fewer of
them.
"""

from __future__ import annotations

import asyncio
import errno
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ottla.simulation.cluster import SimulatedBroker, SimulatedCluster
from ottla.simulation.process import ProcessState
from ottla.simulation.stores.zookeeper import HOST
from ottla.simulation.workers import SimulatedExecutor

CONTROLLER: Final = -1
REJOIN_SECONDS: Final = 6.0
"""Time in seconds after its reconnection within which an isolated broker begins to follow the leaders that have
replaced it.
"""


class Fault(NamedTuple):
    """One fault. Times are in seconds of virtual time. In a plan, `at` counts from the start of the load; `inject`
    expects it to count from the start of the run.
    """

    at: float
    seconds: float
    kind: str
    broker: int
    """The id of the broker. CONTROLLER stands for the broker that is the controller when the fault begins, or for
    broker 0 if there is none.
    """
    other: int = 0
    """The id of a second broker, for faults of a link between two."""

    def __str__(self) -> str:
        target = ("the controller" if self.broker == CONTROLLER else f"broker {self.broker}") + (
            f" and {self.other}" if self.kind.startswith("cut-link") else ""
        )
        return f"{self.at:6.2f} s  {self.kind} of {target} for {self.seconds:.2f} s"

    @property
    def text(self) -> str:
        """The fault as an argument of `--inject`, which `parse` reads."""
        return f"{self.kind}@{self.at!r}+{self.seconds!r}:{self.broker},{self.other}"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Parse a fault in the form of `text`. Raises ValueError for another form or an unknown kind."""
        match = re.fullmatch(r"([a-z-]+)@([\d.e-]+)\+([\d.e-]+):(-?\d+),(\d+)", text)
        if match is None or match[1] not in ALL_KINDS:
            raise ValueError(f"{text!r} is not a fault: KIND@AT+SECONDS:BROKER,OTHER")
        return cls(float(match[2]), float(match[3]), match[1], int(match[4]), int(match[5]))


class Kind(NamedTuple):
    """A kind of fault: how it begins and ends, its maximum length, and how often it occurs compared with other
    kinds.
    """

    begin: Callable[[SimulatedCluster, Fault], Any]
    end: Callable[[SimulatedCluster, Fault], Any]
    max_seconds: float
    weight: int = 1


def _broker(cluster: SimulatedCluster, fault: Fault) -> SimulatedBroker:
    """Return the broker of a fault. For CONTROLLER, it is the controller (or broker 0 if there is none) at the first
    call, and stays the same.
    """
    if fault.broker != CONTROLLER:
        return cluster.brokers[fault.broker]
    if fault not in cluster.chosen:
        active = [broker for broker in cluster.brokers if broker.is_controller]
        cluster.chosen[fault] = active[0] if active else cluster.brokers[0]
    return cluster.chosen[fault]


def _kill(cluster: SimulatedCluster, fault: Fault) -> None:
    _broker(cluster, fault).kill()


def _start(cluster: SimulatedCluster, fault: Fault) -> None:
    broker = _broker(cluster, fault)
    broker.power_on()
    if not broker.is_alive:
        broker.start()


def _lose_power(cluster: SimulatedCluster, fault: Fault) -> None:
    _broker(cluster, fault).lose_power()


async def _stop(cluster: SimulatedCluster, fault: Fault) -> None:
    await _broker(cluster, fault).stop()


def _pause(cluster: SimulatedCluster, fault: Fault) -> None:
    process = _broker(cluster, fault).process
    if process is not None:
        process.pause()


def _resume(cluster: SimulatedCluster, fault: Fault) -> None:
    process = _broker(cluster, fault).process
    if process is not None and process.state is ProcessState.PAUSED:
        cluster.world.loop.resume(process)


def _links(cluster: SimulatedCluster, fault: Fault) -> list[tuple[str, str]]:
    """Return the links that a fault cuts. A link is a pair of hosts, the source and the target: it has one
    direction.
    """
    own = _broker(cluster, fault).host
    other = cluster.brokers[fault.other].host
    if other == own:
        other = cluster.brokers[fault.other - 1].host
    brokers = [broker.host for broker in cluster.brokers if broker.host != own]
    match fault.kind:
        case "cut-link":
            return [(own, other), (other, own)]
        case "cut-link-one-way":
            return [(own, other)]
        case "cut-from-brokers":
            return [link for host in brokers for link in ((own, host), (host, own))]
        case "cut-from-zookeeper":
            return [(own, HOST), (HOST, own)]
        case "cut-from-cluster" | "cut-then-power-loss":
            return [link for host in (*brokers, HOST) for link in ((own, host), (host, own))]
    everyone = [host for host in cluster.world.hosts.values() if host != own]
    return [link for host in everyone for link in ((own, host), (host, own))]


def _cut(cluster: SimulatedCluster, fault: Fault) -> None:
    for link in _links(cluster, fault):
        cluster.world.network.cut(*link)


def _heal(cluster: SimulatedCluster, fault: Fault) -> None:
    for link in _links(cluster, fault):
        cluster.world.network.heal(*link)


async def _heal_and_lose_power(cluster: SimulatedCluster, fault: Fault) -> None:
    """Reconnect the broker, cut its power within REJOIN_SECONDS, when it may be truncating records that only it has,
    and start it again.
    """
    _heal(cluster, fault)
    await asyncio.sleep(random.Random(str(fault)).uniform(0.2, REJOIN_SECONDS))
    _lose_power(cluster, fault)
    await asyncio.sleep(1)
    _start(cluster, fault)


def _reset(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.world.network.reset_connections(_broker(cluster, fault).host, 0.6)


def _slow_network(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.world.network.delays[_broker(cluster, fault).host] = 0.2


def _fast_network(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.world.network.delays.pop(_broker(cluster, fault).host, None)


def _slow_disk(cluster: SimulatedCluster, fault: Fault) -> None:
    SimulatedExecutor.slow[_broker(cluster, fault).host] = 0.5


def _fast_disk(cluster: SimulatedCluster, fault: Fault) -> None:
    SimulatedExecutor.slow.pop(_broker(cluster, fault).host, None)


def _fail_disk(code: int, share: float, *operations: str) -> Callable[[SimulatedCluster, Fault], None]:
    def begin(cluster: SimulatedCluster, fault: Fault) -> None:
        rng = random.Random(f"{cluster.world.seed} {fault}")

        def fail(operation: str, path: str) -> None:
            if operation in operations and "/data/" in path and rng.random() < share:
                raise OSError(code, "simulated", path)

        cluster.world.disk_of[_broker(cluster, fault).name].fault = fail

    return begin


def _repair_disk(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.world.disk_of[_broker(cluster, fault).name].fault = None


async def _repair_and_restart(cluster: SimulatedCluster, fault: Fault) -> None:
    """Repair the disk, kill the broker and start it again: only after a restart does it use an offline log directory
    again.
    """
    _repair_disk(cluster, fault)
    _broker(cluster, fault).kill()
    await asyncio.sleep(1)
    _start(cluster, fault)


async def _lose_power_and_restart(cluster: SimulatedCluster, fault: Fault) -> None:
    """Repair the disk, cut the power and restart the broker. Writes whose fsync failed may be lost."""
    _repair_disk(cluster, fault)
    _lose_power(cluster, fault)
    await asyncio.sleep(1)
    _start(cluster, fault)


def _expire_session(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.world.metadata.expire_sessions_of(_broker(cluster, fault).host)


def _lose_responses(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.world.metadata.lost_responses = 0.1


def _keep_responses(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.world.metadata.lost_responses = 0.0


def _move_clock(cluster: SimulatedCluster, fault: Fault) -> None:
    process = _broker(cluster, fault).process
    if process is not None:
        process.clock_offset_ms += random.Random(str(fault)).choice([-60_000, -5_000, 5_000, 60_000])
        cluster.world.clock_offsets_ms.add(process.clock_offset_ms)


def _stop_store(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.world.object_store.is_down = True


def _start_store(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.world.object_store.is_down = False


def _nothing(cluster: SimulatedCluster, fault: Fault) -> None:
    pass


KINDS: Final[dict[str, Kind]] = {
    "kill": Kind(_kill, _start, 15, 3),
    "power-loss": Kind(_lose_power, _start, 15, 2),
    "restart": Kind(_stop, _start, 3, 2),
    "pause": Kind(_pause, _resume, 12, 2),
    "cut-link": Kind(_cut, _heal, 15, 2),
    "cut-link-one-way": Kind(_cut, _heal, 15, 2),
    "cut-from-brokers": Kind(_cut, _heal, 15, 1),
    "cut-from-zookeeper": Kind(_cut, _heal, 15, 2),
    "cut-from-cluster": Kind(_cut, _heal, 20, 2),
    "cut-then-power-loss": Kind(_cut, _heal_and_lose_power, 20, 1),
    "isolation": Kind(_cut, _heal, 15, 1),
    "resets": Kind(_reset, _nothing, 0.1, 2),
    "slow-network": Kind(_slow_network, _fast_network, 15, 1),
    "slow-disk": Kind(_slow_disk, _fast_disk, 15, 1),
    "disk-full": Kind(_fail_disk(errno.ENOSPC, 0.5, "write"), _repair_and_restart, 10, 1),
    "disk-failure": Kind(_fail_disk(errno.EIO, 0.3, "write", "truncate", "fsync"), _repair_and_restart, 10, 1),
    "fsync-failure": Kind(_fail_disk(errno.EIO, 1.0, "fsync"), _lose_power_and_restart, 15, 1),
    "session-expiry": Kind(_expire_session, _nothing, 0.1, 2),
    "lost-responses": Kind(_lose_responses, _keep_responses, 8, 1),
    "clock": Kind(_move_clock, _nothing, 0.1, 1),
}
"""The kinds of faults that every run may have, with begin, end, maximum seconds and weight."""
STORE_OUTAGE: Final = "store-outage"
TIERED_KINDS: Final[dict[str, Kind]] = {STORE_OUTAGE: Kind(_stop_store, _start_store, 30, 3)}
"""The additional kinds of faults of runs with tiered storage."""
ALL_KINDS: Final = {**KINDS, **TIERED_KINDS}

LOSING: Final = ("power-loss", "disk-failure", "fsync-failure", "cut-then-power-loss")
"""Faults that may lose records that a replica has acknowledged. While one lasts, no other broker may fail, because
acknowledged records would then be on fewer replicas than acks=all guarantees.
"""
CONTROLLER_SHARE: Final = 0.25
"""The share of faults that target the controller, in addition to those that hit it by chance."""
CALM_SECONDS: Final = 20.0
"""Time in seconds before and after the faults in LOSING in which no other fault begins."""
REST_SHARE: Final = 0.2
"""The share of faults after which the clients rest before the next fault."""
MIN_REST_SECONDS: Final = 60.0
MAX_REST_SECONDS: Final = 180.0
BEFORE_SECONDS: Final = 3.0
AFTER_SECONDS: Final = 8.0
"""Times in seconds before and after a fault during which clients work."""


class Span(NamedTuple):
    """A period, from `begin` to `end`, in seconds of virtual time."""

    begin: float
    end: float


def busy_spans(faults: Sequence[Fault]) -> list[Span]:
    """Return the periods in which clients work: around the faults, from BEFORE_SECONDS before to AFTER_SECONDS
    after.
    """
    spans: list[Span] = []
    for begin, end in sorted((f.at - BEFORE_SECONDS, f.at + f.seconds + AFTER_SECONDS) for f in faults):
        if spans and begin <= spans[-1].end:
            spans[-1] = Span(spans[-1].begin, max(end, spans[-1].end))
        else:
            spans.append(Span(begin, end))
    return spans


def plan(rng: random.Random, seconds: float, brokers: int, kinds: Sequence[str] = ()) -> list[Fault]:
    """Plan the faults of a run at random: they begin within about `seconds`, and are of the kinds in `kinds` (empty:
    KINDS). About CONTROLLER_SHARE of them target CONTROLLER.
    """
    names = list(kinds) or list(KINDS)
    weights = [ALL_KINDS[name].weight for name in names]
    faults: list[Fault] = []
    at = rng.uniform(1, 5)
    while at < seconds:
        (kind,) = rng.choices(names, weights)
        broker = rng.randrange(brokers)
        other = rng.choice([number for number in range(brokers) if number != broker])
        lasts = rng.choice(
            [rng.uniform(0.05, ALL_KINDS[kind].max_seconds), rng.uniform(0.05, ALL_KINDS[kind].max_seconds / 4)]
        )
        broker = CONTROLLER if rng.random() < CONTROLLER_SHARE else broker
        if kind in LOSING:
            at += CALM_SECONDS
        faults.append(Fault(at, lasts, kind, broker, other))
        at += rng.choice([rng.uniform(0, 1), rng.uniform(0, 10), lasts + rng.uniform(0, 5)])
        if kind in LOSING:
            at = faults[-1].at + lasts + CALM_SECONDS
        if rng.random() < REST_SHARE:
            at = max(fault.at + fault.seconds for fault in faults) + AFTER_SECONDS
            at += rng.uniform(MIN_REST_SECONDS, MAX_REST_SECONDS)
    return faults


async def inject(cluster: SimulatedCluster, fault: Fault) -> None:
    """Begin a fault at its time, which is on the loop's clock, and end it after its length."""
    kind = ALL_KINDS[fault.kind]
    loop = cluster.world.loop
    await asyncio.sleep(fault.at - loop.time())
    cluster.world.note("fault", f"begins: {fault}")
    begun = kind.begin(cluster, fault)
    if begun is not None:
        await begun
    await asyncio.sleep(fault.at + fault.seconds - loop.time())
    cluster.world.note("fault", f"ends: {fault}")
    ended = kind.end(cluster, fault)
    if ended is not None:
        await ended
