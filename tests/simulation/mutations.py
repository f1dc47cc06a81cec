"""Planted bugs: each takes one promise out of the production code, in the process that simulates."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ottla.simulation import system
from ottla.simulation.command import WARM_UP, in_children
from ottla.simulation.runner import Plan, RunOutcome, run

Mutation = Callable[[], None]
SECONDS: Final = 120.0
"""Virtual time with faults per run."""


def acknowledge_before_replication() -> None:
    """acks=all is answered when the leader has the record."""
    from ottla.replication.partition import Partition

    Partition.when_committed = lambda self, next_offset, acks=-1: None  # type: ignore[method-assign]


def high_watermark_is_the_log_end() -> None:
    """The leader does not wait for its followers."""
    from ottla.replication.partition import Partition

    def advance(self: Any, gained: int) -> None:
        if self.leads:
            self.log.high_watermark = self.log.log_end_offset
            self._replicated.complete_up_to(self.log.log_end_offset)

    Partition.maybe_advance_high_watermark = advance  # type: ignore[method-assign]


def restarted_leaders_lead_on() -> None:
    """A new controller trusts brokers that have restarted."""
    from ottla.cluster.controller import leader_election

    decisions = dict(leader_election.DECISIONS)
    decisions[leader_election.Reason.NEW_TERM] = leader_election.on_broker_change
    leader_election.DECISIONS = decisions  # type: ignore[assignment]


def sequences_are_not_checked() -> None:
    """A batch that a producer repeats is appended again."""
    from ottla.storage.producer_state import ProducerStates

    ProducerStates.check = lambda self, header: None  # type: ignore[method-assign]
    ProducerStates.duplicate_of = lambda self, header: None  # type: ignore[method-assign]


def dead_replicas_stay_in_the_isr() -> None:
    """A broker that has died stays a candidate."""
    from ottla.cluster.controller import leader_election

    decisions = dict(leader_election.DECISIONS)
    decisions[leader_election.Reason.BROKERS] = lambda p, candidates: None
    leader_election.DECISIONS = decisions  # type: ignore[assignment]


def ephemeral_znodes_stay() -> None:
    """ZooKeeper keeps the znodes of a session that has ended."""
    from ottla.simulation.zookeeper import ZooKeeper

    def end_session(self: Any, session: Any) -> None:
        self.sessions.pop(session.id, None)

    ZooKeeper.end_session = end_session  # type: ignore[method-assign]


def followers_never_truncate() -> None:
    """A follower keeps records that its leader does not have."""
    from ottla.storage.log import Log

    Log.truncate_to = lambda self, offset: False  # type: ignore[method-assign]


def aborted_transactions_are_not_listed() -> None:
    """Consumers of committed records do not learn which transactions were aborted."""
    from ottla.storage.log import Log

    Log.aborted_transactions = lambda self, from_offset, until_offset: []  # type: ignore[method-assign]


def open_transactions_are_read() -> None:
    """The last stable offset is the high watermark."""
    from ottla.storage.log import Log

    Log.last_stable_offset = property(lambda self: self.high_watermark)  # type: ignore[assignment, method-assign]


def old_generations_commit() -> None:
    """Members of an earlier generation may heartbeat and commit."""
    from ottla.coordinator.group.classic.classic_group import ClassicGroup
    from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup

    for group in (ClassicGroup, ConsumerGroup):
        for name in ("check_generation", "check_commit", "check_epoch"):
            if hasattr(group, name):
                setattr(group, name, lambda *arguments, **options: None)


MUTATIONS: dict[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        acknowledge_before_replication,
        high_watermark_is_the_log_end,
        restarted_leaders_lead_on,
        sequences_are_not_checked,
        dead_replicas_stay_in_the_isr,
        ephemeral_znodes_stay,
        followers_never_truncate,
        aborted_transactions_are_not_listed,
        open_transactions_are_read,
        old_generations_commit,
    )
}


class Detection(NamedTuple):
    """How a planted bug was detected."""

    mutation: str
    seed: int | None
    """The first seed that has shown it; None if none did."""
    runs: int
    cpu_seconds: float
    violation: str


def detect(name: str, first: int, runs: int, jobs: int) -> Detection:
    """Run seeds until one breaks a promise."""
    done, cpu = 0, 0.0
    plans = (Plan(seed, SECONDS) for seed in range(first, first + runs))
    broken: RunOutcome | None = None
    while broken is None and (batch := list(itertools.islice(plans, jobs))):
        for outcome in in_children(iter(batch), jobs, MUTATIONS[name]):
            done, cpu = done + 1, cpu + outcome.cpu_seconds
            if outcome.violations:
                broken = outcome
    if broken is None:
        return Detection(name, None, done, cpu, "")
    return Detection(name, broken.seed, done, cpu, broken.violations[0])


def main() -> int:
    """Print a row per planted bug; exit with 1 if one was not detected."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations", description=__doc__)
    parser.add_argument("mutation", nargs="*", choices=[[], *MUTATIONS], help="these only")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=100, help="seeds per planted bug at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    system.load_modules()
    run(WARM_UP)
    missed = 0
    for name in options.mutation or MUTATIONS:
        row = detect(name, options.seed, options.runs, options.jobs)
        missed += row.seed is None
        print(f"| {name} | {row.seed} | {row.runs} | {row.cpu_seconds:.1f} | {row.violation} |", flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"}
        )
    sys.exit(main())
