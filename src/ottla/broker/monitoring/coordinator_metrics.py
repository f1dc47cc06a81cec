"""The metrics of the groups and transactions that a broker coordinates, one row each, as in `metric_table`."""

from __future__ import annotations

from typing import Final

from ottla.broker.monitoring.metric import BrokerMetric, Kind
from ottla.broker.monitoring.sources import coordinators

COUNTER, GAUGE, SUMMARY, COUNT = Kind.COUNTER, Kind.GAUGE, Kind.SUMMARY, Kind.COUNT

TOPIC: Final = ("topic",)
PARTITION: Final = ("topic", "partition")
STATE: Final = ("state",)
PROTOCOL: Final = ("protocol",)
GROUP: Final = ("consumergroup",)
NONE: Final[tuple[str, ...]] = ()

_OLD_GROUPS: Final = "kafka.coordinator.group:type=GroupMetadataManager,name="
_GROUPS: Final = "kafka.server:type=group-coordinator-metrics#"
_TRANSACTIONS: Final = "kafka.server:type=transaction-coordinator-metrics#"
_LAGS: Final = "kafka:type=consumergroup#"


def _rate(name: str, text: str, group_type: str) -> BrokerMetric:
    source = coordinators.rebalance_rate_of(group_type)
    return BrokerMetric(f"{_GROUPS}{name}-rate", GAUGE, NONE, f"{text} per second, in the last minute.", source)


COORDINATOR_METRICS: Final[tuple[BrokerMetric, ...]] = (
    BrokerMetric(
        f"{_OLD_GROUPS}NumGroups", GAUGE, NONE, "Groups of all types that this broker coordinates.", coordinators.groups
    ),
    BrokerMetric(
        f"{_OLD_GROUPS}NumOffsets",
        GAUGE,
        NONE,
        "Committed offsets of the groups that this broker coordinates.",
        coordinators.offsets,
    ),
    BrokerMetric(
        f"{_OLD_GROUPS}NumGroupsEmpty",
        GAUGE,
        NONE,
        "Classic groups in the state Empty.",
        coordinators.classic_in("Empty"),
    ),
    BrokerMetric(
        f"{_OLD_GROUPS}NumGroupsPreparingRebalance",
        GAUGE,
        NONE,
        "Classic groups in the state PreparingRebalance.",
        coordinators.classic_in("PreparingRebalance"),
    ),
    BrokerMetric(
        f"{_OLD_GROUPS}NumGroupsCompletingRebalance",
        GAUGE,
        NONE,
        "Classic groups in the state CompletingRebalance.",
        coordinators.classic_in("CompletingRebalance"),
    ),
    BrokerMetric(
        f"{_OLD_GROUPS}NumGroupsStable",
        GAUGE,
        NONE,
        "Classic groups in the state Stable.",
        coordinators.classic_in("Stable"),
    ),
    BrokerMetric(
        f"{_OLD_GROUPS}NumGroupsDead", GAUGE, NONE, "Classic groups in the state Dead.", coordinators.classic_in("Dead")
    ),
    BrokerMetric(
        f"{_GROUPS}group-count",
        GAUGE,
        PROTOCOL,
        "Groups by protocol: classic, consumer (KIP-848), share (KIP-932), streams (KIP-1071).",
        coordinators.group_count,
    ),
    BrokerMetric(
        f"{_GROUPS}consumer-group-count",
        GAUGE,
        STATE,
        "Consumer groups (KIP-848) by state.",
        coordinators.states_of(coordinators.CONSUMER, coordinators.CONSUMER_STATES),
    ),
    BrokerMetric(
        f"{_GROUPS}share-group-count",
        GAUGE,
        STATE,
        "Share groups by state.",
        coordinators.states_of(coordinators.SHARE, coordinators.SHARE_STATES),
    ),
    BrokerMetric(
        f"{_GROUPS}streams-group-count",
        GAUGE,
        STATE,
        "Streams groups (KIP-1071) by state.",
        coordinators.states_of(coordinators.STREAMS, coordinators.STREAMS_STATES),
    ),
    BrokerMetric(
        f"{_GROUPS}offset-commit-count",
        COUNT,
        NONE,
        "Offsets that were committed, including those of unfinished and aborted transactions.",
        coordinators.commits,
    ),
    BrokerMetric(
        f"{_GROUPS}offset-expiration-count", COUNT, NONE, "Offsets that have expired.", coordinators.expirations
    ),
    BrokerMetric(
        f"{_GROUPS}offset-deletion-count",
        COUNT,
        NONE,
        "Offsets that were deleted, without expired ones.",
        coordinators.deletions,
    ),
    BrokerMetric(
        f"{_GROUPS}group-completed-rebalance-count",
        COUNT,
        NONE,
        "Completed rebalances of classic groups.",
        coordinators.rebalances_of("classic"),
    ),
    _rate("group-completed-rebalance", "Completed rebalances of classic groups", "classic"),
    BrokerMetric(
        f"{_GROUPS}consumer-group-rebalance-count",
        COUNT,
        NONE,
        "Rebalances of consumer groups (KIP-848): new group epochs.",
        coordinators.rebalances_of("consumer"),
    ),
    _rate("consumer-group-rebalance", "Rebalances of consumer groups (KIP-848)", "consumer"),
    BrokerMetric(
        f"{_GROUPS}share-group-rebalance-count",
        COUNT,
        NONE,
        "Rebalances of share groups.",
        coordinators.rebalances_of("share"),
    ),
    _rate("share-group-rebalance", "Rebalances of share groups", "share"),
    BrokerMetric(
        f"{_GROUPS}streams-group-rebalance-count",
        COUNT,
        NONE,
        "Rebalances of streams groups (KIP-1071): new group epochs.",
        coordinators.rebalances_of("streams"),
    ),
    _rate("streams-group-rebalance", "Rebalances of streams groups (KIP-1071)", "streams"),
    BrokerMetric(
        f"{_GROUPS}num-partitions",
        GAUGE,
        STATE,
        "Partitions of __consumer_offsets that this broker coordinates, by state.",
        coordinators.group_partitions,
    ),
    BrokerMetric(
        f"{_GROUPS}partition-load-time-ms",
        SUMMARY,
        NONE,
        "Time to load a partition of __consumer_offsets in milliseconds.",
        coordinators.group_load_times,
    ),
    BrokerMetric(
        f"{_LAGS}lag",
        GAUGE,
        (*GROUP, *PARTITION),
        "Lag: records of a partition after the offset that a group has committed.",
        coordinators.lag,
    ),
    BrokerMetric(
        f"{_LAGS}lag-sum",
        GAUGE,
        (*GROUP, *TOPIC),
        "Sum of a group's lags on the partitions of a topic.",
        coordinators.lag_sum,
    ),
    BrokerMetric(
        f"{_LAGS}current-offset",
        GAUGE,
        (*GROUP, *PARTITION),
        "The offset that a group has committed.",
        coordinators.committed,
    ),
    BrokerMetric(f"{_LAGS}members", GAUGE, GROUP, "Members of a group.", coordinators.members),
    BrokerMetric(
        f"{_LAGS}rebalances-total",
        COUNTER,
        GROUP,
        "Rebalances of a group since this broker became its coordinator; only of the 10,000 groups with the most.",
        coordinators.group_rebalances,
    ),
    BrokerMetric(
        f"{_LAGS}rebalance-seconds",
        GAUGE,
        GROUP,
        "Seconds since the start of the rebalance of a classic group; only of groups that are rebalancing.",
        coordinators.rebalance_seconds,
    ),
    BrokerMetric(
        "ottla:type=consumer-groups#omitted-offsets",
        GAUGE,
        NONE,
        "Committed offsets of groups that were left out, because the lags of at most 20,000 offsets are read.",
        coordinators.omitted_offsets,
    ),
    BrokerMetric(
        f"{_TRANSACTIONS}num-partitions",
        GAUGE,
        STATE,
        "Partitions of __transaction_state that this broker coordinates, by state.",
        coordinators.transaction_partitions,
    ),
    BrokerMetric(
        f"{_TRANSACTIONS}partition-load-time-ms",
        SUMMARY,
        NONE,
        "Time to load a partition of __transaction_state in milliseconds.",
        coordinators.transaction_load_times,
    ),
    BrokerMetric(
        "ottla:type=transactional-ids#count",
        GAUGE,
        STATE,
        "Transactional ids by the state of their transaction.",
        coordinators.transactional_ids,
    ),
)
