"""Lookup of the end offsets of leader epochs (KIP-320). Kafka's `OffsetsForLeaderEpochUtils`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla import errors
from ottla.client.core.connections import Connections
from ottla.client.core.metadata import Metadata
from ottla.errors import KafkaError, UnsupportedVersionError
from ottla.logs import listed
from ottla.model import TopicPartition
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = logging.getLogger("ottla.client")

FOR_CONSUMERS: Final = 3
"""The first version of OffsetForLeaderEpoch that consumers may use: it needs only DESCRIBE on the topic."""
CONSUMER: Final = -1


class EpochEnd(NamedTuple):
    """The epoch and its end offset in an OffsetForLeaderEpoch response. Both are -1 if the leader
    cannot determine them.
    """

    epoch: int
    offset: int


Ends = dict[TopicPartition, tuple[int, EpochEnd | None]]
"""For each partition, its current leader epoch and the end of the requested epoch. The latter is None if the broker
does not support the request in a version that consumers may use.
"""


class LeaderEpochs:
    """Looks up the end offsets of leader epochs at the leaders of partitions."""

    def __init__(self, connections: Connections, metadata: Metadata) -> None:
        self.connections = connections
        self.metadata = metadata

    async def end_offsets(self, epochs_by_partition: Mapping[TopicPartition, int]) -> Ends:
        """Return the result for each partition and leader epoch. Partitions whose leader is unknown, does not respond,
        or responds with a retriable error, are left out.

        Raises errors that are not retriable, except UnsupportedVersionError (see `Ends`).
        """
        by_node: dict[int, list[TopicPartition]] = {}
        for tp in epochs_by_partition:
            leader = self.metadata.cluster.leader(tp)
            if leader >= 0:
                by_node.setdefault(leader, []).append(tp)
        ends: Ends = {}
        requests = [
            self._fetch(node, {tp: epochs_by_partition[tp] for tp in tps}, ends) for node, tps in by_node.items()
        ]
        await asyncio.gather(*requests)
        return ends

    async def _fetch(self, node: int, requested: Mapping[TopicPartition, int], ends: Ends) -> None:
        epochs = {
            tp: info.leader_epoch for tp in requested if (info := self.metadata.cluster.partition(tp)) is not None
        }
        try:
            response = await self.connections.send(
                node, lambda version: _request(version, requested, epochs), of=OffsetForLeaderEpochRequest
            )
        except UnsupportedVersionError:
            ends.update({tp: (epoch, None) for tp, epoch in epochs.items()})
            return
        except KafkaError as error:
            if not error.retriable:
                raise
            log.debug(
                "Cannot look up the end offsets of leader epochs at node %d; a later poll() retries this, before it "
                "fetches %s: %s",
                node,
                listed(sorted(requested)),
                error,
            )
            return
        for topic in response.topics:
            for p in topic.partitions:
                tp = TopicPartition(topic.topic, p.partition)
                if p.error_code:
                    error_class = errors.for_code(p.error_code)
                    if not error_class.retriable:
                        raise error_class(f"{tp}: {error_class.__doc__}")
                elif tp in epochs:
                    ends[tp] = (epochs[tp], EpochEnd(p.leader_epoch, p.end_offset))


def _request(
    version: int, requested: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int]
) -> OffsetForLeaderEpochRequest:
    if version < FOR_CONSUMERS:
        raise UnsupportedVersionError(f"OffsetForLeaderEpoch is available to consumers since version {FOR_CONSUMERS}")
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for tp, epoch in epochs.items():
        one = OffsetForLeaderPartition(partition=tp.partition, current_leader_epoch=epoch, leader_epoch=requested[tp])
        topics.setdefault(tp.topic, []).append(one)
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER,
        topics=[OffsetForLeaderTopic(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )
