"""One run: start the cluster and the load, inject faults, let the cluster recover, and check the promises."""

from __future__ import annotations

import argparse
import faulthandler
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.chaos.cluster import BROKERS, Cluster
from tests.chaos.faults import BY_NAME, fault_sequence, run_fault
from tests.chaos.health import Health
from tests.chaos.members import Member
from tests.chaos.peers import PEERS, Peer
from tests.chaos.reading import Contents, read_all
from tests.chaos.sending import CLIENTS, available_clients
from tests.chaos.sending import PARTITIONS as ORDERED_PARTITIONS
from tests.chaos.transfers import PARTITIONS as TRANSFERS_PARTITIONS
from tests.chaos.transfers import Transfer
from tests.chaos.unavailability import FaultImpact, gaps, save, table

from ottla.simulation import checkers
from ottla.simulation.history import ORDERED, TRANSFERS, Ack, Attempt, Consumed, History
from ottla.simulation.replicas import read_replicas

WORKERS = 2
MEMBERS = 2
PAUSE_SECONDS = 1.5
"""Pause between a healthy cluster and the next fault."""
FIRST_SECONDS = 60.0
END_SECONDS = 180.0
RECOVERY_SECONDS = 45.0
"""Time limit for clients to continue when all replicas are in sync: longer than a session of the group."""
DRAIN_SECONDS = 60.0
QUIET_SECONDS = 2.0
"""Time in which followers get the last high watermark."""
HISTORY = "history.txt"
SHOWN = 5
"""How many violations of each promise are printed."""
TOPICS = {ORDERED: ORDERED_PARTITIONS, TRANSFERS: TRANSFERS_PARTITIONS}


class Plan(NamedTuple):
    """The parameters of a run."""

    peer: Peer
    seed: int
    seconds: float
    kinds: Sequence[str] = ()
    results: Path | None = None
    keep: bool = False


class BrokenPromiseError(AssertionError):
    """A promise is violated; the message names the checker."""


class Load:
    """All clients of the load."""

    def __init__(self, bootstrap: str, history: History, seed: int) -> None:
        self.history = history
        names = ["librdkafka", *available_clients()]
        self.producers = [CLIENTS[name](f"{name}-{n}", bootstrap, history) for n, name in enumerate(names)]
        self.transfers = [Transfer(n, bootstrap, history, seed + n) for n in range(WORKERS)]
        self.members = [Member(n, bootstrap, history) for n in range(MEMBERS)]

    def start(self) -> None:
        """Start all clients, and wait until each of them makes progress."""
        for thread in (*self.producers, *self.transfers, *self.members):
            thread.start()
        deadline = time.monotonic() + FIRST_SECONDS
        while not self._all_work():
            assert time.monotonic() < deadline, f"the load does not start: {self._counts()}"
            time.sleep(0.1)

    def _all_work(self) -> bool:
        return (
            len({ack.sent[:2] for ack in list(self.history.acks)}) == ORDERED_PARTITIONS * len(self.producers)
            and len({a.worker for a in list(self.history.attempts) if a.at}) == WORKERS
            and len({e.tp for e in list(self.history.group) if isinstance(e, Consumed)}) == sum(TOPICS.values())
        )

    def _counts(self) -> str:
        history = self.history
        return f"{len(history.acks)} acks, {len(history.attempts)} transactions, {len(history.group)} group events"

    def stop_writing(self) -> None:
        """Stop producers and transactions, and wait until they end."""
        self.history.stopping.set()
        for thread in (*self.producers, *self.transfers):
            thread.join(END_SECONDS)
            if thread.is_alive():
                faulthandler.dump_traceback()
                raise AssertionError(f"{thread.name} does not end")

    def drain(self, contents: Contents) -> None:
        """Wait until the group has consumed all records, and stop its members."""
        expected = {(record.tp, record.offset) for record in contents.records}
        deadline = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < deadline:
            taken = {(e.tp, e.offset) for e in list(self.history.group) if isinstance(e, Consumed)}
            if expected <= taken:
                break
            time.sleep(0.2)
        for member in self.members:
            member.done.set()
        for member in self.members:
            member.join(60)


def run(plan: Plan, directory: Path) -> list[FaultImpact]:
    """Run in `directory`. Raise BrokenPromiseError, or UnhealthyError if the cluster does not recover."""
    history = History()
    say(f"seed {plan.seed}: {plan.peer.name}, {plan.seconds:.0f} s, in {directory}")
    try:
        return _run(plan, directory, history)
    except BaseException:
        history.write(directory / HISTORY)
        raise


def _run(plan: Plan, directory: Path, history: History) -> list[FaultImpact]:
    with Cluster(directory, plan.peer) as cluster:
        health = Health(cluster)
        health.wait_for_brokers()
        health.create_topics()
        load = Load(cluster.bootstrap, history, plan.seed)
        load.start()
        health.wait_until_healthy()
        say("the load is running")
        impacts = inject_faults(plan, cluster, health, history)
        health.close()
        load.stop_writing()
        contents = read_all(cluster.bootstrap, TOPICS)
        load.drain(contents)
        time.sleep(QUIET_SECONDS)
        cluster.stop_brokers()
        broken = check(history, contents, [cluster.brokers[broker].data for broker in BROKERS])
        broken += [f"every record gets a response: {p.name} waits for {p.left}" for p in load.producers if p.left]
        unexpected_exits = sum(broker.restarts for broker in cluster.brokers.values())
    report(plan, history, impacts, unexpected_exits)
    if plan.keep:
        history.write(directory / HISTORY)
    if broken:
        raise BrokenPromiseError(f"seed {plan.seed}, {directory}:\n" + "\n".join(broken))
    return impacts


def inject_faults(plan: Plan, cluster: Cluster, health: Health, history: History) -> list[FaultImpact]:
    """Inject faults for the planned time, each when the cluster is healthy again."""
    zero = time.monotonic()
    impacts: list[FaultImpact] = []
    for fault in fault_sequence(plan.seed, plan.kinds, has_zookeeper=not plan.peer.embedded):
        if time.monotonic() - zero > plan.seconds:
            break
        health.elect_preferred()
        time.sleep(PAUSE_SECONDS)
        one = FaultImpact(*fault, health.controller(), dict(health.leaders()), 0, 0, 0, {})
        one.began = time.monotonic() - zero
        run_fault(cluster, fault)
        one.repaired = time.monotonic() - zero
        health.wait_until_healthy()
        one.healthy = time.monotonic() - zero
        time.sleep(PAUSE_SECONDS)
        wait_for_progress(history, zero + one.healthy)
        one.gaps = gaps(list(history.acks), zero + one.began, zero + one.healthy, ORDERED_PARTITIONS)
        say(f"{one.began:6.1f} s  {fault}, controller {one.controller}: longest gap {one.longest:.2f} s, "
            f"in sync {one.healthy - one.repaired:.1f} s after its end")  # fmt: skip
        impacts.append(one)
    return impacts


def wait_for_progress(history: History, since: float) -> None:
    """Wait until each partition was written and read since that time, or raise BrokenPromiseError."""
    deadline = since + RECOVERY_SECONDS
    partitions = set(range(ORDERED_PARTITIONS))
    while True:
        unwritten = partitions - history.written_since(since)
        unread = partitions - {tp.partition for tp in history.consumed_since(since) if tp.topic == ORDERED}
        if not unwritten and not unread:
            return
        if time.monotonic() > deadline:
            raise BrokenPromiseError(
                f"{RECOVERY_SECONDS:.0f} s after recovery nothing is written to {unwritten or 'none'}"
                f", and the group reads nothing of {unread or 'none'}"
            )
        time.sleep(0.1)


def check(history: History, contents: Contents, data: Sequence[Path]) -> list[str]:
    """Check all promises, and return violations with the names of the checkers."""
    records, replicas = contents.records, read_replicas(data)
    actual = {
        "no acked record is lost": checkers.no_acked_record_is_lost(history.acks, records),
        "every delivery succeeds": checkers.every_delivery_succeeds(history.failed_deliveries),
        "no producer has ended": checkers.no_producer_has_ended(history.ended),
        "no record is duplicated": checkers.no_record_is_duplicated(records),
        "order is preserved": checkers.order_is_preserved(records),
        "transactions are atomic": checkers.transactions_are_atomic(history.attempts, records),
        "transfers are exactly once": checkers.transfers_are_exactly_once(history.transferred, records),
        "no transaction stays open": checkers.no_transaction_stays_open(contents.held_back),
        "every record is consumed": checkers.every_record_is_consumed(history.group, records),
        "replicas are equal": checkers.replicas_are_equal(replicas),
        "high watermarks cover acked records": checkers.high_watermarks_cover_acked_records(history.acks, replicas),
    }
    lines = []
    for promise, wrong in actual.items():
        lines += [f"{promise}: {line}" for line in wrong[:SHOWN]]
        if len(wrong) > SHOWN:
            lines.append(f"{promise}: {len(wrong) - SHOWN} more")
    return lines


def report(plan: Plan, history: History, impacts: Sequence[FaultImpact], unexpected_exits: int) -> None:
    """Print and save the result."""
    acks: list[Ack] = history.acks
    attempts: list[Attempt] = history.attempts
    say(
        f"{len(acks)} acked, {len(history.failed_deliveries)} failed, {_ended(attempts)}, "
        f"{unexpected_exits} unexpected exits"
    )
    for line in table(impacts):
        say(line)
    if plan.results is not None:
        reported = {"peer": plan.peer.name, "seed": plan.seed, "seconds": plan.seconds, "acked": len(acks)}
        reported |= {
            "failed": len(history.failed_deliveries),
            "transactions": len(attempts),
            "unexpected exits": unexpected_exits,
        }
        save(plan.results / f"{plan.peer.name}-{plan.seed}.json", reported, impacts)


def _ended(attempts: Iterable[Attempt]) -> str:
    counts: dict[str, int] = {}
    for attempt in attempts:
        counts[attempt.outcome.value] = counts.get(attempt.outcome.value, 0) + 1
    return ", ".join(f"{count} transactions {outcome}" for outcome, count in sorted(counts.items()))


def say(line: str) -> None:
    """Print and flush, since a run takes long."""
    print(line, flush=True)


def in_own_directory(plan: Plan) -> list[FaultImpact]:
    """Run in a new directory, which is deleted unless the run fails or the plan keeps it."""
    directory = Path(tempfile.mkdtemp(prefix=f"ottla-chaos-{plan.peer.name}-{plan.seed}-"))
    impacts = run(plan, directory)
    if not plan.keep:
        shutil.rmtree(directory)
    return impacts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=PEERS, default="ottla")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kinds", default="", help=f"comma-separated list of {', '.join(BY_NAME)}")
    parser.add_argument("--results", type=Path, help="directory for the result as JSON")
    parser.add_argument("--keep", action="store_true", help="keep the directory of a successful run, too")
    args = parser.parse_args()
    kinds = [kind for kind in args.kinds.split(",") if kind]
    try:
        in_own_directory(Plan(PEERS[args.peer], args.seed, args.seconds, kinds, args.results, args.keep))
    except AssertionError as error:
        say(f"FAILED {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
