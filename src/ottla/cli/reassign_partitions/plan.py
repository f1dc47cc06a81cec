"""The assignment that `ottla reassign-partitions --generate` proposes, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.cli.framework.output import ids
from ottla.client.core.metadata import TopicInfo
from ottla.cluster.controller.replica_placement import assign_replicas
from ottla.errors import ConfigurationError, InvalidReplicationFactorError
from ottla.model import Node, TopicPartition


def proposed(topics: Iterable[TopicInfo], racks: Mapping[int, str | None]) -> dict[TopicPartition, tuple[int, ...]]:
    """Assign the partitions of topics to the brokers in `racks` in the same way as for new topics.

    Leaders continue round-robin from one topic to the next. Raises InvalidReplicationFactorError if there are too few
    brokers.
    """
    assignment: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in sorted(topics, key=lambda topic: topic.name):
        counts = [len(p.replicas) for p in topic.partitions]
        try:
            placements = assign_replicas(len(counts), max(counts), racks, first=len(assignment))
        except InvalidReplicationFactorError as error:
            raise InvalidReplicationFactorError(f"Topic {topic.name}: {error.message}") from None
        for partition, replicas, count in zip(topic.partitions, placements, counts, strict=True):
            assignment[TopicPartition(topic.name, partition.partition)] = replicas[:count]
    return assignment


def racks_of(nodes: Iterable[Node], brokers: Sequence[int], *, aware: bool) -> dict[int, str | None]:
    """Return the racks of brokers by broker id. Without `aware`, all racks are None.

    Raises ConfigurationError if a broker is unknown, or if only some of the brokers have a rack and `aware` is set.
    """
    all_racks = {node.id: node.rack for node in nodes}
    for broker in brokers:
        if broker not in all_racks:
            raise ConfigurationError(f"--broker-list: Unknown broker id {broker}; brokers are {ids(sorted(all_racks))}")
    racks = {broker: all_racks[broker] if aware else None for broker in brokers}
    if len({rack is None for rack in racks.values()}) > 1:
        raise ConfigurationError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    return racks
