"""One run: bring the cluster up, load it, break it for some time, let it heal, and check what was promised."""

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
from tests.chaos.faults import BY_NAME, deck, inflict
from tests.chaos.health import Health
from tests.chaos.members import Member
from tests.chaos.peers import PEERS, Peer
from tests.chaos.reading import Contents, read_all
from tests.chaos.sending import CLIENTS, available_clients
from tests.chaos.sending import PARTITIONS as ORDERED_PARTITIONS
from tests.chaos.transfers import PARTITIONS as TRANSFERS_PARTITIONS
from tests.chaos.transfers import Transfer
from tests.chaos.unavailability import Felt, gaps, save, table

from ottla.simulation import checkers
from ottla.simulation.history import ORDERED, TRANSFERS, Ack, Attempt, Consumed, History
from ottla.simulation.replicas import read_replicas

WORKERS = 2
MEMBERS = 2
CALM_SECONDS = 1.5
"""Between a cluster that is whole and the next fault."""
FIRST_SECONDS = 60.0
END_SECONDS = 180.0
GO_ON_SECONDS = 45.0
"""How long clients may take to go on once all replicas are in sync: longer than a session of the group."""
DRAIN_SECONDS = 60.0
QUIET_SECONDS = 2.0
"""Until followers know the last high watermark."""
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
    """Something that was promised does not hold; the text names the checker."""


class Load:
    """All clients."""

    def __init__(self, bootstrap: str, history: History, seed: int) -> None:
        self.history = history
        names = ["librdkafka", *available_clients()]
        self.producers = [CLIENTS[name](f"{name}-{n}", bootstrap, history) for n, name in enumerate(names)]
        self.transfers = [Transfer(n, bootstrap, history, seed + n) for n in range(WORKERS)]
        self.members = [Member(n, bootstrap, history) for n in range(MEMBERS)]

    def start(self) -> None:
        """Start, and wait until each part does its work."""
        for thread in (*self.producers, *self.transfers, *self.members):
            thread.start()
        deadline = time.monotonic() + FIRST_SECONDS
        while not self._all_work():
            assert time.monotonic() < deadline, f"the load does not begin: {self._counts()}"
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
        """Let producers and transactions come to their end."""
        self.history.stopping.set()
        for thread in (*self.producers, *self.transfers):
            thread.join(END_SECONDS)
            if thread.is_alive():
                faulthandler.dump_traceback()
                raise AssertionError(f"{thread.name} does not end")

    def drain(self, contents: Contents) -> None:
        """Let the group take what is left, then leave."""
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


def run(plan: Plan, directory: Path) -> list[Felt]:
    """One run in `directory`. BrokenPromiseError, or NotWholeError of a cluster that does not heal."""
    history = History()
    say(f"seed {plan.seed}: {plan.peer.name}, {plan.seconds:.0f} s, in {directory}")
    try:
        return _run(plan, directory, history)
    except BaseException:
        history.write(directory / HISTORY)
        raise


def _run(plan: Plan, directory: Path, history: History) -> list[Felt]:
    with Cluster(directory, plan.peer) as cluster:
        health = Health(cluster)
        health.wait_for_brokers()
        health.make_topics()
        load = Load(cluster.bootstrap, history, plan.seed)
        load.start()
        health.wait_until_whole()
        say("the load is on")
        felt = break_it(plan, cluster, health, history)
        health.close()
        load.stop_writing()
        contents = read_all(cluster.bootstrap, TOPICS)
        load.drain(contents)
        time.sleep(QUIET_SECONDS)
        cluster.stop_brokers()
        broken = check(history, contents, [cluster.brokers[broker].data for broker in BROKERS])
        broken += [f"every record is answered: {p.name} waits for {p.left}" for p in load.producers if p.left]
        unasked = sum(broker.restarts for broker in cluster.brokers.values())
    report(plan, history, felt, unasked)
    if plan.keep:
        history.write(directory / HISTORY)
    if broken:
        raise BrokenPromiseError(f"seed {plan.seed}, {directory}:\n" + "\n".join(broken))
    return felt


def break_it(plan: Plan, cluster: Cluster, health: Health, history: History) -> list[Felt]:
    """Fault after fault for the time that is given, each after the cluster is whole again."""
    zero = time.monotonic()
    felt: list[Felt] = []
    for fault in deck(plan.seed, plan.kinds, has_zookeeper=not plan.peer.embedded):
        if time.monotonic() - zero > plan.seconds:
            break
        health.elect_preferred()
        time.sleep(CALM_SECONDS)
        one = Felt(*fault, health.controller(), dict(health.leaders()), 0, 0, 0, {})
        one.began = time.monotonic() - zero
        inflict(cluster, fault)
        one.repaired = time.monotonic() - zero
        health.wait_until_whole()
        one.whole = time.monotonic() - zero
        time.sleep(CALM_SECONDS)
        wait_until_all_go_on(history, zero + one.whole)
        one.gaps = gaps(list(history.acks), zero + one.began, zero + one.whole, ORDERED_PARTITIONS)
        say(f"{one.began:6.1f} s  {fault}, controller {one.controller}: longest gap {one.longest:.2f} s, "
            f"in sync {one.whole - one.repaired:.1f} s after its end")  # fmt: skip
        felt.append(one)
    return felt


def wait_until_all_go_on(history: History, since: float) -> None:
    """Until each partition was written and read since all was whole. BrokenPromiseError if one is not."""
    deadline = since + GO_ON_SECONDS
    partitions = set(range(ORDERED_PARTITIONS))
    while True:
        unwritten = partitions - history.written_since(since)
        unread = partitions - {tp.partition for tp in history.consumed_since(since) if tp.topic == ORDERED}
        if not unwritten and not unread:
            return
        if time.monotonic() > deadline:
            raise BrokenPromiseError(
                f"{GO_ON_SECONDS:.0f} s after all replicas are in sync there are no writes to {unwritten or 'none'}, "
                f"the group reads nothing of {unread or 'none'}"
            )
        time.sleep(0.1)


def check(history: History, contents: Contents, data: Sequence[Path]) -> list[str]:
    """All promises; lines that name the checker."""
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


def report(plan: Plan, history: History, felt: Sequence[Felt], unasked: int) -> None:
    """Say what was done, and keep it."""
    acks: list[Ack] = history.acks
    attempts: list[Attempt] = history.attempts
    say(f"{len(acks)} acked, {len(history.failed_deliveries)} failed, {_ended(attempts)}; {unasked} ends unasked")
    for line in table(felt):
        say(line)
    if plan.results is not None:
        reported = {"peer": plan.peer.name, "seed": plan.seed, "seconds": plan.seconds, "acked": len(acks)}
        reported |= {"failed": len(history.failed_deliveries), "transactions": len(attempts), "ends unasked": unasked}
        save(plan.results / f"{plan.peer.name}-{plan.seed}.json", reported, felt)


def _ended(attempts: Iterable[Attempt]) -> str:
    counts: dict[str, int] = {}
    for attempt in attempts:
        counts[attempt.outcome.value] = counts.get(attempt.outcome.value, 0) + 1
    return ", ".join(f"{count} transactions {outcome}" for outcome, count in sorted(counts.items()))


def say(line: str) -> None:
    """Print at once: a run takes long."""
    print(line, flush=True)


def in_own_directory(plan: Plan) -> list[Felt]:
    """A run in a new directory, which stays only if the run fails or the plan says so."""
    directory = Path(tempfile.mkdtemp(prefix=f"ottla-chaos-{plan.peer.name}-{plan.seed}-"))
    felt = run(plan, directory)
    if not plan.keep:
        shutil.rmtree(directory)
    return felt


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=PEERS, default="ottla")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kinds", default="", help=f"with commas, of {', '.join(BY_NAME)}")
    parser.add_argument("--results", type=Path, help="where to keep the result as JSON")
    parser.add_argument("--keep", action="store_true", help="keep the directory of a good run, too")
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
