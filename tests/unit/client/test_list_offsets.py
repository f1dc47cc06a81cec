"""The lookup of offsets at several leaders."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client.consumer.offsets.list_offsets import OffsetLookup
from ottla.client.core.metadata import Cluster, Metadata, PartitionInfo, TopicInfo
from ottla.errors import BrokerConnectionError, KafkaError, NotLeaderOrFollowerError, TopicAuthorizationFailedError
from ottla.model import Node, TopicPartition
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.list_offsets import ListOffsetsRequest

PARTITIONS = {TopicPartition("t", number): -1 for number in range(2)}


class FailingLeaders:
    """The connections to leaders that raise these errors, by node id."""

    request_timeout = 5.0

    def __init__(self, failures: dict[int, KafkaError]) -> None:
        self.failures = failures
        self.requested: list[int] = []

    async def send(self, node: int, request: ListOffsetsRequest, **options: Any) -> Any:
        self.requested.append(node)
        raise self.failures[node]

    async def send_any(self, request: Any) -> Any:
        raise BrokerConnectionError


@pytest.mark.parametrize("fatal_node", [1, 2])
def test_fatal_error_of_one_leader_is_raised_despite_a_retriable_one_of_another(fatal_node: int) -> None:
    async def test() -> None:
        failures: dict[int, KafkaError] = {1: NotLeaderOrFollowerError(), 2: NotLeaderOrFollowerError()}
        failures[fatal_node] = TopicAuthorizationFailedError()
        leaders: Any = FailingLeaders(failures)
        metadata = Metadata(
            leaders, max_age_ms=60_000, retry_backoff_ms=5, retry_backoff_max_ms=5, allow_auto_create=False
        )
        partitions = tuple(PartitionInfo("t", number, number + 1, 0, (), (), ()) for number in range(2))
        metadata.cluster = Cluster(
            {node: Node(node, "h", 9092) for node in (1, 2)}, {"t": TopicInfo("t", ZERO_UUID, False, partitions)}
        )
        lookup = OffsetLookup(leaders, metadata, isolation_level=0, retry_backoff=0.001)
        with pytest.raises(TopicAuthorizationFailedError):
            await lookup.lookup(PARTITIONS, 5)
        assert leaders.requested == [1, 2]

    asyncio.run(test())
