"""Values of the metrics of groups and transactions that this broker coordinates."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.monitoring.metric import Samples, Source
from ottla.broker.monitoring.scrape import Scrape

if TYPE_CHECKING:  # not imported by a broker that coordinates nothing
    from ottla.coordinator.runtime.coordinator_runtime import CoordinatorRuntime

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
CONSUMER_STATES = ("empty", "assigning", "reconciling", "stable", "dead")
SHARE_STATES = ("empty", "stable", "dead")
STREAMS_STATES = ("empty", "not_ready", "assigning", "reconciling", "stable", "dead")


def groups(scrape: Scrape) -> int:
    return scrape.groups.by_type.total()


def offsets(scrape: Scrape) -> int:
    return scrape.groups.offsets


def classic_in(state: str) -> Source:
    """Return a function that returns the number of classic groups in a state."""
    return lambda scrape: scrape.groups.by_state[CLASSIC, state]


def group_count(scrape: Scrape) -> Samples:
    for group_type in (CLASSIC, CONSUMER, SHARE, STREAMS):
        yield (group_type,), scrape.groups.by_type[group_type]


def states_of(group_type: str, states: tuple[str, ...]) -> Source:
    """Return a function that yields the number of groups of a type, by state."""

    def source(scrape: Scrape) -> Samples:
        for state in states:
            name = "".join(word.capitalize() for word in state.split("_"))
            yield (state,), scrape.groups.by_state[group_type, name]

    return source


def commits(scrape: Scrape) -> int:
    runtime = scrape.context.coordinators.existing_groups
    return 0 if runtime is None else runtime.stats.offset_commits


def expirations(scrape: Scrape) -> int:
    runtime = scrape.context.coordinators.existing_groups
    return 0 if runtime is None else runtime.stats.offset_expirations


def deletions(scrape: Scrape) -> int:
    runtime = scrape.context.coordinators.existing_groups
    return 0 if runtime is None else runtime.stats.offset_tombstones - runtime.stats.offset_expirations


def rebalances_of(group_type: str) -> Source:
    """Return a function that returns the number of rebalances of groups of a type."""

    def source(scrape: Scrape) -> int:
        runtime = scrape.context.coordinators.existing_groups
        return 0 if runtime is None else runtime.stats.rebalances[group_type].count

    return source


def rebalance_rate_of(group_type: str) -> Source:
    """Return a function that returns the rebalances per second of groups of a type."""

    def source(scrape: Scrape) -> float:
        runtime = scrape.context.coordinators.existing_groups
        return 0.0 if runtime is None else runtime.stats.rebalances_per_second(group_type)

    return source


def group_rebalances(scrape: Scrape) -> Samples:
    for group_id, number in scrape.rebalances.items():
        yield (group_id,), number


def rebalance_seconds(scrape: Scrape) -> Samples:
    for group_id, seconds in scrape.rebalance_seconds.items():
        yield (group_id,), seconds


def lag(scrape: Scrape) -> Samples:
    for (group_id, (topic, partition), _), behind in scrape.lags.lags:
        yield (group_id, topic, str(partition)), behind


def lag_sum(scrape: Scrape) -> Samples:
    yield from scrape.lags.sums.items()


def committed(scrape: Scrape) -> Samples:
    for group_id, (topic, partition), offset in scrape.lags.committed:
        yield (group_id, topic, str(partition)), offset


def members(scrape: Scrape) -> Samples:
    for group_id, number in scrape.members.items():
        yield (group_id,), number


def omitted_offsets(scrape: Scrape) -> int:
    return scrape.lags.omitted


def _partitions(runtime: CoordinatorRuntime | None) -> Samples:
    loaded, loading, failed = (0, 0, 0) if runtime is None else runtime.shards.counts()
    yield ("active",), loaded
    yield ("loading",), loading
    yield ("failed",), failed


def _load_times(runtime: CoordinatorRuntime | None, scrape: Scrape) -> Samples:
    if runtime is not None:
        yield (), runtime.shards.load_times.snapshot(scrape.now)


def group_partitions(scrape: Scrape) -> Samples:
    return _partitions(scrape.context.coordinators.existing_groups)


def group_load_times(scrape: Scrape) -> Samples:
    return _load_times(scrape.context.coordinators.existing_groups, scrape)


def transaction_partitions(scrape: Scrape) -> Samples:
    return _partitions(scrape.context.coordinators.existing_transactions)


def transaction_load_times(scrape: Scrape) -> Samples:
    return _load_times(scrape.context.coordinators.existing_transactions, scrape)


def transactional_ids(scrape: Scrape) -> Samples:
    runtime = scrape.context.coordinators.existing_transactions
    states = Counter(str(one.state) for one in (() if runtime is None else runtime.by_id.values()))
    for state, number in sorted(states.items()):
        yield (state,), number
