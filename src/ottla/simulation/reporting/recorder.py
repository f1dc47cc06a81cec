"""Records the coverage items of a run: transitions of groups, transactions and replicas, changes of partitions, error
codes, and pairs of faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, combinations_with_replacement, permutations
from typing import Any, Final

from ottla import errors
from ottla.broker.broker_context import BrokerContext
from ottla.broker.monitoring.request_stats import ApiStats
from ottla.coordinator.group.classic import classic_group
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from ottla.coordinator.group.share.share_group import ShareGroup, ShareGroupState
from ottla.coordinator.transaction import transaction
from ottla.replication.partition import Partition
from ottla.simulation.checking.partition_states import WrittenState
from ottla.simulation.cluster import SimulatedBroker
from ottla.simulation.faults import KINDS, Fault

ROLES: Final = ("leader", "in-sync follower", "follower behind")
CHANGES: Final = (
    "isr shrinks to 2", "isr shrinks to 1", "isr grows to 2", "isr grows to 3",
    "leader moves", "leader is lost", "leader is elected after none", "leader stays in a new epoch",
)  # fmt: skip

TRANSITIONS: Final = (classic_group.ClassicGroup.transition_to, transaction.Transaction.transition_to)
STATS_INIT: Final = ApiStats.__init__
"""The original `__init__` of ApiStats, which each recorder wraps."""


def _step(kind: str, before: object, after: object) -> str:
    return f"{kind}: {before} → {after}"


def _steps(kind: str, table: dict[Any, frozenset[Any]]) -> Iterator[str]:
    return (_step(kind, before, after) for before, next_states in table.items() for after in next_states)


def possible() -> set[str]:
    """Return the coverage items that are known before any run: state transitions, changes of partitions, pairs of
    faults, and errors.

    Which errors an API may return is not declared, so each error counts once for all APIs.
    """
    items = {*_steps("classic group", classic_group.VALID_TRANSITIONS)}
    items |= {*_steps("transaction", transaction.VALID_TRANSITIONS)}
    items |= {_step("consumer group", *pair) for pair in permutations(ConsumerGroupState, 2)}
    items |= {_step("share group", *pair) for pair in permutations(ShareGroupState, 2)}
    items |= {_step("replica", *pair) for pair in permutations(ROLES, 2)}
    items |= {f"partition: {change}" for change in CHANGES}
    items |= {f"faults: {one} + {other}" for one, other in combinations_with_replacement(sorted(KINDS), 2)}
    return items | {f"error: {error.__name__}" for error in errors.BY_CODE.values()}


class Recorder:
    """Records the items that one run covers. To do so, it wraps production code for the rest of this process."""

    def __init__(self) -> None:
        self.items: set[str] = set()
        self._stats: list[ApiStats] = []
        self._last: dict[tuple[object, ...], object] = {}

    def install(self) -> None:
        """Start recording: wrap the methods that change the states of classic groups and transactions, and the one that
        creates ApiStats.
        """
        items, stats = self.items, self._stats
        change_group, change_transaction = TRANSITIONS
        init = STATS_INIT

        def changed_group(group: Any, state: Any) -> None:
            items.add(_step("classic group", group.state, state))
            change_group(group, state)

        def changed_transaction(before: Any, state: Any, **changes: Any) -> Any:
            items.add(_step("transaction", before.state, state))
            return change_transaction(before, state, **changes)

        def made(own: ApiStats, *arguments: Any) -> None:
            init(own, *arguments)
            stats.append(own)

        setattr(classic_group.ClassicGroup, "transition_to", changed_group)  # noqa: B010
        setattr(transaction.Transaction, "transition_to", changed_transaction)  # noqa: B010
        setattr(ApiStats, "__init__", made)  # noqa: B010

    def observe(self, broker: SimulatedBroker, context: BrokerContext, partitions: Iterable[Partition]) -> None:
        """Compare the consumer and share groups of a broker, and its replicas of `partitions`, with their states at the
        previous call, and record the changes.
        """
        for group in context.groups.groups.by_id.values():
            kind = {ConsumerGroup: "consumer group", ShareGroup: "share group"}.get(type(group))
            if kind is not None:
                self._see(kind, group.state_name, group.id)
        for partition in partitions:
            in_sync = ROLES[1] if broker.id in partition.image.isr else ROLES[2]
            self._see("replica", ROLES[0] if partition.leads else in_sync, broker.id, partition.topic_partition)

    def _see(self, kind: str, state: object, *key: object) -> None:
        before = self._last.get((kind, *key), state)
        self._last[kind, *key] = state
        if before != state:
            self.items.add(_step(kind, before, state))

    def on_state(self, before: WrittenState | None, after: WrittenState) -> None:
        """Record the changes from one written state of a partition to the next. `before` is None for the first one."""
        if before is not None:
            self.items.update(f"partition: {change}" for change in _changes(before, after))

    def result(self, faults: Iterable[Fault]) -> frozenset[str]:
        """Return the items that the run has covered, with its errors, in total and by API, and overlapping faults."""
        answered = {(stats.name, code) for stats in self._stats for code in stats.errors if code}
        names = {(api, errors.for_code(code).__name__) for api, code in answered}
        self.items |= {f"error: {name}" for _, name in names} | {f"answer: {api} {name}" for api, name in names}
        for one, other in combinations(sorted(faults), 2):
            if other.at < one.at + one.seconds:
                self.items.add("faults: {} + {}".format(*sorted((one.kind, other.kind))))
        return frozenset(self.items)


def _changes(before: WrittenState, after: WrittenState) -> Iterator[str]:
    if len(after.isr) != len(before.isr):
        yield f"isr {'grows' if len(after.isr) > len(before.isr) else 'shrinks'} to {len(after.isr)}"
    if after.leader != before.leader:
        yield (
            "leader is lost"
            if after.leader < 0
            else ("leader moves" if before.leader >= 0 else "leader is elected after none")
        )
    elif after.leader_epoch != before.leader_epoch:
        yield "leader stays in a new epoch"
