"""Where partitions could be: what `ottla reassign-partitions --generate` proposes. Decides only; nothing is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.cli.framework.broker_ids import ids
from ottla.client.core.metadata import TopicInfo
from ottla.cluster.controller.replica_placement import place
from ottla.errors import ConfigurationError, InvalidReplicationFactorError
from ottla.model import Node, TopicPartition


def proposed(topics: Iterable[TopicInfo], racks: Mapping[int, str | None]) -> dict[TopicPartition, tuple[int, ...]]:
    """As many replicas of each partition as it has, on these brokers, where topic creation would put them.

    Leaders go on in turn from topic to topic. InvalidReplicationFactorError where there are too few brokers.
    """
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in sorted(topics, key=lambda topic: topic.name):
        counts = [len(p.replicas) for p in topic.partitions]
        try:
            places = place(len(counts), max(counts), racks, first=len(found))
        except InvalidReplicationFactorError as error:
            raise InvalidReplicationFactorError(f"Topic {topic.name}: {error.message}") from None
        for partition, replicas, count in zip(topic.partitions, places, counts, strict=True):
            found[TopicPartition(topic.name, partition.partition)] = replicas[:count]
    return found


def racks_of(nodes: Iterable[Node], wanted: Sequence[int], *, aware: bool) -> dict[int, str | None]:
    """The racks of brokers, None for all where they do not matter (not `aware`).

    Raises ConfigurationError for a broker that is not there, and where only some of them have a rack.
    """
    known = {node.id: node.rack for node in nodes}
    for broker in wanted:
        if broker not in known:
            raise ConfigurationError(f"--broker-list: Unknown broker id {broker}; {ids(sorted(known))} are there")
    racks = {broker: known[broker] if aware else None for broker in wanted}
    if len({rack is None for rack in racks.values()}) > 1:
        raise ConfigurationError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    return racks
