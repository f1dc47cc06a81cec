"""Requests of a member of a share group for tests."""

from __future__ import annotations

from typing import Any

from tests.unit.broker.broker_client import BrokerClient, batch

from ottla.errors import for_code
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
)
from ottla.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)

Acks = list[tuple[int, int, int]]


async def prepare(client: BrokerClient, values: int = 5) -> None:
    request = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await client.request(CreateTopicsRequest(topics=[request], timeout_ms=1000), 7)
    await client.request(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[config])
    await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    if values:
        await produce(client, values)


async def produce(client: BrokerClient, values: int, timestamp: int | None = None) -> None:
    records = batch(*(b"%d" % i for i in range(values)), timestamp=timestamp)
    data = [PartitionProduceData(index=0, records=records)]
    await client.request(
        ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)]), 9
    )


def acknowledgements(acks: Acks) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=[kind]) for a, b, kind in acks]


async def fetch(
    client: BrokerClient,
    epoch: int,
    member: str = "m",
    acks: Acks = [],  # noqa: B006
    **more: Any,
) -> ShareFetchResponse:
    topic_id = client.context.image.topics["t"].id
    partition = FetchPartition(partition_index=0, acknowledgement_batches=acknowledgements(acks))
    request = ShareFetchRequest(
        group_id="g",
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=more.pop("max_wait_ms", 0),
        max_records=more.pop("max_records", 100),
        topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
        **more,
    )
    return await client.request(request, 2)


def partition_data(response: ShareFetchResponse) -> PartitionData | None:
    assert response.error_code == 0, for_code(response.error_code).name
    return response.responses[0].partitions[0] if response.responses else None


def acquired(response: ShareFetchResponse) -> list[tuple[int, int, int]]:
    data = partition_data(response)
    return [(a.first_offset, a.last_offset, a.delivery_count) for a in data.acquired_records] if data else []
