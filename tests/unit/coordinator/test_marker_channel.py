"""Transaction markers for partitions of this broker and of other brokers: batching, and errors by partition."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any
from uuid import UUID

from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.coordinator.transaction.marker_channel import TransactionMarkerChannel
from ottla.coordinator.transaction.transaction_markers import Results, TransactionEnd
from ottla.errors import (
    LeaderNotAvailableError,
    NetworkError,
    NotLeaderOrFollowerError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from ottla.model import ProducerIdAndEpoch, TopicPartition
from ottla.protocol.message import decode, encode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

LEADERS = [0, 1, 2, 1, -1]
"""The leader of each partition of the topic."""
T = [TopicPartition("t", index) for index in range(len(LEADERS))]
COMMIT = TransactionEnd(ProducerIdAndEpoch(7, 3), True, 5, 0)


def image() -> ClusterImage:
    partitions = tuple(PartitionImage(leader, 1, (0, 1, 2), (0, 1, 2)) for leader in LEADERS)
    return ClusterImage("c", topics={"t": TopicImage("t", UUID(int=1), partitions)})


class LocalMarkers:
    """The markers that this broker, broker 0, writes."""

    def __init__(self) -> None:
        self.written: list[TopicPartition] = []

    async def write(self, ending: TransactionEnd, partitions: Collection[TopicPartition]) -> Results:
        self.written += partitions
        return {tp: None if tp in T else UnknownTopicOrPartitionError() for tp in partitions}


class RemoteBrokers:
    """Brokers that write every marker except those in `errors`; responses lack the partitions in `omitted`."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.errors: dict[TopicPartition, int] = {}
        self.omitted: set[TopicPartition] = set()
        self.unreachable: set[int] = set()

    async def send(self, broker_id: int, request: Any, version: int, *, timeout: float, purpose: str) -> Any:
        if broker_id in self.unreachable:
            raise NetworkError
        request = decode(WriteTxnMarkersRequest, encode(request, version), version)
        self.requests.append((broker_id, request))
        markers = [
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=self.errors.get(TopicPartition(topic.name, index), 0),
                            )
                            for index in topic.partition_indexes
                            if TopicPartition(topic.name, index) not in self.omitted
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in reversed(request.markers)  # the order of responses is not specified
        ]
        return WriteTxnMarkersResponse(markers=markers)


def write(
    local: LocalMarkers, remote: RemoteBrokers, *endings: tuple[TransactionEnd, list[TopicPartition]]
) -> list[Results]:
    async def body() -> list[Results]:
        markers = TransactionMarkerChannel(0, local, remote, image, 5.0)  # type: ignore[arg-type]
        return await asyncio.gather(*[markers.write(*ending) for ending in endings])

    return asyncio.run(body())


def test_write_sends_one_request_per_leader() -> None:
    local, remote = LocalMarkers(), RemoteBrokers()
    (results,) = write(local, remote, (COMMIT, T[:4]))
    assert results == dict.fromkeys(T[:4])
    assert local.written == [T[0]]
    assert sorted(broker for broker, _ in remote.requests) == [1, 2]
    (request,) = [request for broker, request in remote.requests if broker == 1]
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, True)
    assert marker.coordinator_epoch == 5
    assert [(t.name, t.partition_indexes) for t in marker.topics] == [("t", [1, 3])]


def test_write_to_local_partitions_sends_no_request() -> None:
    local, remote = LocalMarkers(), RemoteBrokers()
    assert write(local, remote, (COMMIT, [T[0]])) == [{T[0]: None}]
    assert not remote.requests


def test_markers_queued_during_a_request_are_sent_together() -> None:
    remote = RemoteBrokers()
    endings = [(TransactionEnd(ProducerIdAndEpoch(i, 0), i % 2 == 0, 5, 0), [T[1]]) for i in range(5)]
    remote.errors[T[1]] = 0
    assert write(LocalMarkers(), remote, *endings) == [{T[1]: None}] * 5
    assert sum(len(request.markers) for _, request in remote.requests) == 5
    assert len(remote.requests) < 5


def test_write_returns_errors_by_partition() -> None:
    remote = RemoteBrokers()
    remote.errors[T[1]] = NotLeaderOrFollowerError.code or 0
    remote.omitted.add(T[3])
    remote.unreachable.add(2)
    unknown = TopicPartition("unknown", 0)
    (results,) = write(LocalMarkers(), remote, (COMMIT, [*T, unknown]))
    assert {tp: type(error) for tp, error in results.items() if error is not None} == {
        T[1]: NotLeaderOrFollowerError,
        T[2]: NetworkError,
        T[3]: UnknownServerError,
        T[4]: LeaderNotAvailableError,
        unknown: UnknownTopicOrPartitionError,
    }
