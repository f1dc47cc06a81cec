"""One run: a cluster with its clients, the faults of a plan, the recovery, and the checks of all promises."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla import aio
from ottla.client.admin.topics.topics import NewTopic
from ottla.errors import KafkaError
from ottla.simulation import checkers
from ottla.simulation.checking.remote_segments import segments_in_metadata
from ottla.simulation.checking.resources import leaked
from ottla.simulation.clients import limits
from ottla.simulation.clients.administration import TOPIC_WORKLOADS, CompactedTopic, FlippedLeaders
from ottla.simulation.clients.limits import LIMITED, LimitedClients
from ottla.simulation.clients.probes import PROBES, Prober
from ottla.simulation.clients.scripted_producer import JAVA, LIBRDKAFKA, ScriptedProducer
from ottla.simulation.clients.share_member import ShareMember
from ottla.simulation.clients.single_transactions import SingleTransactions
from ottla.simulation.cluster import TIERED_CONFIGS, TIERED_TOPIC, SimulatedCluster
from ottla.simulation.faults import ALL_KINDS, Fault, busy_spans, inject, plan
from ottla.simulation.history import ORDERED, TRANSFERS, History, StoredRecord
from ottla.simulation.observer import Observer
from ottla.simulation.replicas import read_replicas
from ottla.simulation.reporting.recorder import Recorder
from ottla.simulation.reporting.requests import record_requests
from ottla.simulation.reporting.story import stored_logs
from ottla.simulation.workloads import (
    CLIENT,
    PARTITIONS,
    Member,
    MemberKiller,
    OrderedProducer,
    Transfer,
    Workload,
    in_process,
    read_all,
)
from ottla.simulation.world import ZOOKEEPER, World

BROKERS: Final = 3
RECOVERY_SECONDS: Final = 120.0
"""Time in seconds after the last fault within which all replicas must be in sync, and time in seconds after that within
which every partition of ORDERED must accept writes.
"""
DRAIN_SECONDS: Final = 180.0
"""Time in seconds within which the clients must end: a delivery may take 120 s."""
TIMEOUT_SECONDS: Final = 50.0
"""Time in seconds within which open transactions of stopped producers must be aborted: their timeout is 10 or 20 s. As
in Kafka, it is measured with the wall clock, so the jumps of clocks are added.
"""
READ_SECONDS: Final = 20.0
"""Time in seconds after the end of the last transaction within which the members of the group must read every record.
"""
MAX_AFTER_SECONDS: Final = 3600.0
"""Virtual time in seconds within which a run must end after its load and the last fault, more than the sum of the other
limits.
"""
LEAK_SECONDS: Final = 20
"""Time in seconds within which brokers must release the resources of clients that have stopped."""
CLEANING_SECONDS: Final = 60
"""Time in seconds within which leaders must delete the objects of segments whose copying was not finished."""
SHOWN: Final = 5
"""Maximum number of violations that are reported per promise."""
EXTRAS: Final = 2
"""Number of additional workloads that the seed chooses for a run."""
WORKLOADS: Final = (*(kind.TOPIC for kind in TOPIC_WORKLOADS), FlippedLeaders.TOPIC, LIMITED, "shared")
"""The names of the additional workloads."""
RULES: Final = (JAVA, LIBRDKAFKA)
MEMBERS: Final = "members"
KILLER: Final = "member-killer"
BASE: Final = ("producers", "transfers", "scripted", "single", "prober", MEMBERS, KILLER)
"""The names of the clients that every run has, unless its plan leaves them out."""
MEMORY: Final = Path("/dev/shm")
PREFIX: Final = "ottla-simulation-"
"""Prefix of the names of the directories with the disks of a run."""


class Plan(NamedTuple):
    """The parameters of a run."""

    seed: int
    seconds: float = 120.0
    """Virtual time in seconds, approximately, within which the faults begin."""
    kinds: tuple[str, ...] = ()
    """Kinds of faults; by default all, those of the object store only for tiered topics."""
    faults: tuple[Fault, ...] | None = None
    """Faults to use instead of those that the seed plans."""
    lasts: float = 0.0
    """Minimum virtual time in seconds of the load, even if the last fault ends earlier."""
    without: tuple[str, ...] = ()
    """Names of clients that are left out."""
    variation: int = 0
    """Selects another order of events, with the same plan and clients."""
    workloads: tuple[str, ...] = ()
    """Names of the additional workloads; by default, the seed chooses them."""
    stops_early: bool = False
    """Whether the run ends at the first violation that a checker detects during the run."""
    store: str = ZOOKEEPER
    """The metadata store: "zookeeper" or "sqlite"."""
    is_tiered: bool = False
    """Whether the topics of producers and transfers are tiered, in an object store that sometimes fails."""
    records_requests: bool = False
    """Whether to record requests in the timeline and logs in the outcome, for the story of a violation."""

    @property
    def arguments(self) -> list[str]:
        """The arguments of `python -m ottla.simulation` that run this plan again, without `records_requests`."""
        arguments = ["--seed", str(self.seed), "--seconds", f"{self.seconds:g}", "--store", self.store]
        arguments += [word for kind in self.kinds for word in ("--fault", kind)]
        arguments += [word for name in self.workloads for word in ("--workload", name)]
        if self.faults is not None:
            arguments += [word for fault in self.faults for word in ("--inject", fault.text)] or ["--inject", "none"]
        arguments += [word for name in self.without for word in ("--without", name)]
        arguments += ["--lasts", repr(self.lasts)] if self.lasts else []
        arguments += ["--variation", str(self.variation)] if self.variation else []
        arguments += ["--tiered"] if self.is_tiered else []
        return arguments + (["--stop-early"] if self.stops_early else [])


class RunOutcome(NamedTuple):
    """The result of a run, with the seed of its plan."""

    seed: int
    violations: list[str]
    trace_hash: str
    virtual_seconds: float
    cpu_seconds: float
    messages: int
    acked: int
    faults: list[Fault]
    timeline: list[str]
    began: float = 0.0
    """The virtual time in seconds from which the times of the plan's faults count."""
    clients: tuple[str, ...] = ()
    """The names of the clients that can be left out."""
    logs: tuple[str, ...] = ()
    """Descriptions of the logs of the partitions that violations name; only with `Plan.records_requests`."""

    met: frozenset[str] = frozenset()
    """The coverage items of the run, such as transitions, errors and pairs of faults (`reporting/recorder.py`)."""

    @property
    def promises(self) -> list[str]:
        """The promise that each violation breaks, without the details. A promise may occur more than once."""
        return [violation.partition(": ")[0] for violation in self.violations]


class Simulation:
    """A run. An exception that ends it is reported as a violation, like a broken promise."""

    def __init__(self, run_plan: Plan, directory: Path) -> None:
        self.plan = run_plan
        self.world = World(run_plan.seed, directory, run_plan.variation, run_plan.store)
        self.history = History()
        rng = random.Random(run_plan.seed)
        kinds = run_plan.kinds or (tuple(ALL_KINDS) if run_plan.is_tiered else ())
        planned = plan(rng, run_plan.seconds, BROKERS, kinds)
        self.faults = planned if run_plan.faults is None else list(run_plan.faults)
        self._busy = busy_spans(planned)
        self._protocol = rng.choice(["classic", "consumer"])
        self._extra_names = run_plan.workloads or rng.sample(sorted(WORKLOADS), EXTRAS)
        configs = {
            **(limits.CONFIGS if LIMITED in self._extra_names else {}),
            **(TIERED_CONFIGS if run_plan.is_tiered else {}),
        }
        self.cluster = SimulatedCluster(self.world, BROKERS, configs)
        self.recorder = Recorder()
        self.observer = Observer(self.cluster, self.recorder.observe)
        self.world.partition_states.on_state = self.recorder.on_state
        self.history.on_ack = self.observer.on_ack
        self.clients: list[Workload] = []
        self._began = 0.0
        self.members: list[Member] = []
        self.violations: list[str] = []

    def run(self) -> RunOutcome:
        began = time.process_time()
        self.world.install()
        self.recorder.install()
        if self.plan.records_requests:
            record_requests(self.world.timeline)
        last = max((fault.at + fault.seconds for fault in self.faults), default=0.0)
        max_seconds = max(last, self.plan.lasts) + MAX_AFTER_SECONDS
        try:
            self.world.run(self._until_violation() if self.plan.stops_early else self._main(), max_seconds)
        except BaseException as error:
            self.world.timeline.lines.append(traceback.format_exc())
            self._violate("the run ends", [repr(error)])
        return RunOutcome(
            self.plan.seed,
            self.violations,
            self.world.trace_hash,
            self.world.loop.time(),
            time.process_time() - began,
            self.world.messages,
            len(self.history.acks),
            self.faults,
            self.world.timeline.lines,
            self._began,
            (*BASE, *self._extra_names),
            tuple(stored_logs(self.cluster, self.violations)) if self.plan.records_requests else (),
            self.recorder.result(self.faults),
        )

    def _violate(self, promise: str, what: Sequence[str]) -> None:
        for one in what[:SHOWN]:
            self.world.timeline.note("checker", f"VIOLATION {promise}: {one}", is_violation=True)
            self.violations.append(f"{promise}: {one}")

    async def _until_violation(self) -> None:
        main = asyncio.ensure_future(self._main())
        while not main.done():
            await asyncio.wait([main], timeout=1)
            for promise, broken in self._violations_so_far().items():
                self._violate(promise, broken)
            if self.violations:
                return
        main.result()

    def _violations_so_far(self) -> dict[str, list[str]]:
        """Return the violations of the promises that are checked during the run, by promise."""
        return {
            "no exception is unhandled": self.world.unhandled,
            "leaders and watermarks": self.observer.violations,
            "requests are rejected": self.history.violations,
            "logs are consistent": self.world.logs.violations,
            "partition states": self.world.partition_states.violations,
            "no producer has ended": checkers.no_producer_has_ended(self.history.ended),
        }

    async def _main(self) -> None:
        await self.cluster.start()
        await self._create_topics()
        self._start_clients()
        self.observer.start()
        begins = self._began = self.world.loop.time()
        faults = [fault._replace(at=fault.at + begins) for fault in self.faults]
        pace = asyncio.ensure_future(self._pace(begins))
        await asyncio.gather(*(inject(self.cluster, fault) for fault in faults), asyncio.sleep(self.plan.lasts))
        pace.cancel()
        self.world.busy.set()
        await self._recover()
        await self._drain()
        await self._check()

    async def _pace(self, begins: float) -> None:
        """Let the clients work around the times of the faults that the seed has planned, and rest in between."""
        now = self.world.loop.time
        for span in self._busy:
            await asyncio.sleep(begins + span.begin - now())
            self.world.busy.set()
            await asyncio.sleep(begins + span.end - now())
            self.world.busy.clear()

    async def _create_topics(self) -> None:
        topics = [
            NewTopic(ORDERED, PARTITIONS, 3, topic_configs=dict(TIERED_TOPIC) if self.plan.is_tiered else None),
            NewTopic(TRANSFERS, PARTITIONS, 3, topic_configs=dict(TIERED_TOPIC) if self.plan.is_tiered else None),
            NewTopic(PROBES, 1, 3),
        ]

        async def create() -> None:
            async with aio.KafkaAdminClient(**self._options("admin")) as admin:
                await admin.create_topics(topics, wait_for_metadata=True)

        await in_process(self.world, "admin", create)

    def _options(self, client_id: str) -> dict[str, Any]:
        return {**CLIENT, "bootstrap_servers": self.cluster.bootstrap_servers, "client_id": client_id}

    def _start_clients(self) -> None:
        left_out = set(self.plan.without)
        if MEMBERS in left_out:
            left_out.add(KILLER)
        else:
            self.members = [self._member(number) for number in range(2)]
        kinds = {**self._base(), **self._extras()}
        chosen = [name for name in (*BASE, *self._extra_names) if name not in left_out]
        self.clients = [client for name in chosen for client in kinds[name]]
        for client in (*self.clients, *self.members):
            client.start()

    def _member(self, number: int) -> Member:
        servers = self.cluster.bootstrap_servers
        return Member(self.world, number, servers, self.history, group_protocol=self._protocol)

    def _base(self) -> dict[str, list[Workload]]:
        """Return the workloads that every seed has, without the members of the group, which end later."""
        servers = self.cluster.bootstrap_servers
        return {
            "producers": [OrderedProducer(self.world, f"producer-{n}", servers, self.history) for n in range(2)],
            "transfers": [Transfer(self.world, n, servers, self.history) for n in range(2)],
            "scripted": [
                ScriptedProducer(self.world, rules, n, servers, self.history) for n, rules in enumerate(RULES)
            ],
            "single": [SingleTransactions(self.world, servers, self.history)],
            "prober": [Prober(self.cluster, self.history, self.members)],
            MEMBERS: [],
            KILLER: [MemberKiller(self.world, self.history, self.members)],
        }

    def _extras(self) -> dict[str, list[Workload]]:
        """Return all additional workloads by name. The run starts those that it has chosen."""
        accepted: set[tuple[int, int]] = set()
        extras: dict[str, list[Workload]] = {kind.TOPIC: [kind(self.cluster, self.history)] for kind in TOPIC_WORKLOADS}
        extras[FlippedLeaders.TOPIC] = [FlippedLeaders(self.cluster, self.history)]
        extras["shared"] = [ShareMember(self.cluster, number, self.history, accepted) for number in range(2)]
        extras[LIMITED] = [LimitedClients(self.cluster, self.history)]
        return extras

    async def _recover(self) -> None:
        """Start the brokers that are down, wait until all brokers serve clients and all replicas are in sync, and check
        that every partition of ORDERED accepts writes, unless its producers are left out. The wait and
        the check take RECOVERY_SECONDS at most, each.
        """
        self.history.calm.set()
        for broker in self.cluster.brokers:
            if not broker.is_alive:
                broker.start()
        began = self.world.loop.time()
        while (reasons := self.observer.incomplete()) and self.world.loop.time() - began < RECOVERY_SECONDS:
            await asyncio.sleep(0.5)
        self._violate(f"recovered within {RECOVERY_SECONDS:.0f} s", reasons)
        self.world.note("runner", f"the wait for the recovery took {self.world.loop.time() - began:.1f} s")
        mark = self.world.loop.time()
        await asyncio.sleep(5)
        if {"producers", "scripted"} <= set(self.plan.without):
            return
        while len(self.history.written_since(mark)) < PARTITIONS and self.world.loop.time() - mark < RECOVERY_SECONDS:
            await asyncio.sleep(0.5)
        missing = set(range(PARTITIONS)) - self.history.written_since(mark)
        self._violate("partitions accept writes", [f"{ORDERED}-{partition}" for partition in sorted(missing)])

    async def _drain(self) -> None:
        """Let the clients end, the members last, so that they see every record."""
        self.history.stopping.set()
        await self._end([client.task for client in self.clients if client.task is not None])
        ends = self.world.loop.time() + TIMEOUT_SECONDS + self.world.clock_difference_seconds
        while (still_open := self.observer.open_transactions()) and self.world.loop.time() < ends:
            await asyncio.sleep(0.5)
        self._violate("no transaction stays open", still_open)
        await asyncio.sleep(READ_SECONDS)
        for member in self.members:
            member.done.set()
        await self._end([member.task for member in self.members if member.task is not None])

    async def _leaks(self) -> list[str]:
        """Return descriptions of the resources that brokers still use for stopped clients. Wait up to LEAK_SECONDS
        until there are none.
        """
        for _ in range(LEAK_SECONDS):
            leaks = leaked(self.cluster)
            if not leaks:
                break
            await asyncio.sleep(1)
        return leaks

    async def _unequal_objects(self) -> list[str]:
        """Return the differences between the object store and the metadata. Wait up to CLEANING_SECONDS until there are
        none, because leaders have to delete unfinished copies.
        """
        store = self.world.object_store
        store.is_reliable = True
        for _ in range(CLEANING_SECONDS):
            unequal = checkers.objects_match_metadata(store.objects, segments_in_metadata(self.cluster.nodes))
            if not unequal:
                break
            await asyncio.sleep(1)
        self.world.note("runner", f"the object store has {len(store.objects)} objects after {store.requests} requests")
        return unequal

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=DRAIN_SECONDS)
        names = [client.name for client in (*self.clients, *self.members) if client.task in late]
        self._violate(f"clients end within {DRAIN_SECONDS:.0f} s", names)

    async def _check(self) -> None:
        records: list[StoredRecord] = []
        for topic in (ORDERED, TRANSFERS):
            read = functools.partial(read_all, self._options("reader"), topic)
            try:
                async with asyncio.timeout(60):
                    records += await in_process(self.world, f"reader-{topic}", read)
            except (TimeoutError, KafkaError) as error:
                self._violate("topics can be read", [f"{topic}: {error!r}"])
        self.observer.stop()
        if self.plan.is_tiered:
            self._violate("the object store matches the metadata", await self._unequal_objects())
        leaks = await self._leaks()
        for broker in self.cluster.brokers:
            await broker.stop()
        replicas = read_replicas([path for broker in self.cluster.brokers for path in broker.log_dirs])
        self._violate("resources are released", leaks)
        # replicas are compacted at different times
        replicas = {tp: of for tp, of in replicas.items() if tp.topic != CompactedTopic.TOPIC}
        history = self.history
        results = {
            "no acked record is lost": checkers.no_acked_record_is_lost(history.acks, records),
            "no record is duplicated": checkers.no_record_is_duplicated(records),
            "order is preserved": checkers.order_is_preserved(records),
            "transactions are atomic": checkers.transactions_are_atomic(history.attempts, records),
            "transfers are exactly once": checkers.transfers_are_exactly_once(history.transferred, records),
            "every record is consumed": checkers.every_record_is_consumed(history.group, records)
            if self.members
            else [],
            "partitions have one owner": checkers.partitions_have_one_owner(history.group),
            "only committed records are read": checkers.only_committed_records_are_read(history.group, records),
            "replicas are equal": checkers.replicas_are_equal(replicas),
            "high watermarks cover acked records": checkers.high_watermarks_cover_acked_records(history.acks, replicas),
        }
        for promise, broken in {**results, **self._violations_so_far()}.items():
            self._violate(promise, broken)


def run(run_plan: Plan) -> RunOutcome:
    """Run a plan in this process, and return its outcome. Afterwards, production code in this process can run only in
    simulations.
    """
    with directory_of_run() as directory:
        return Simulation(run_plan, directory).run()


@contextlib.contextmanager
def directory_of_run() -> Iterator[Path]:
    """Context manager: create a directory for the disks of a run, in memory if possible, and remove it at the end.

    Its path has the same length in every process, because the sizes of messages that contain paths depend on it.
    """
    directory = Path(tempfile.mkdtemp(prefix=_prefix(os.getpid()), dir=_parent_directory()))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def remove_directories(pid: int) -> None:
    """Remove the directories of the runs of a process that has ended."""
    for directory in _parent_directory().glob(f"{_prefix(pid)}*"):
        shutil.rmtree(directory, ignore_errors=True)


def _prefix(pid: int) -> str:
    return f"{PREFIX}{pid:010}-"


def _parent_directory() -> Path:
    return MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())
