"""The requests of a member of a share group as tests send them."""

from __future__ import annotations

from typing import Any

from tests.unit.broker.asking import Asker, batch

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


async def prepare(client: Asker, values: int = 5) -> None:
    request = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await client.ask(CreateTopicsRequest(topics=[request], timeout_ms=1000), 7)
    await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    option = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[option])
    await client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    await produce(client, values)


async def produce(client: Asker, values: int) -> None:
    data = [PartitionProduceData(index=0, records=batch(*(b"%d" % i for i in range(values))))]
    await client.ask(
        ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)]), 9
    )


def said(acks: Acks) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=[kind]) for a, b, kind in acks]


async def fetch(client: Asker, epoch: int, member: str = "m", acks: Acks = [], **more: Any) -> ShareFetchResponse:  # noqa: B006
    topic_id = client.context.image.topics["t"].id
    partition = FetchPartition(partition_index=0, acknowledgement_batches=said(acks))
    request = ShareFetchRequest(
        group_id="g",
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=more.pop("max_wait_ms", 0),
        max_records=more.pop("max_records", 100),
        topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
        **more,
    )
    return await client.ask(request, 2)


def only(answer: ShareFetchResponse) -> PartitionData | None:
    assert answer.error_code == 0, for_code(answer.error_code).name
    return answer.responses[0].partitions[0] if answer.responses else None


def got(answer: ShareFetchResponse) -> list[tuple[int, int, int]]:
    data = only(answer)
    return [(a.first_offset, a.last_offset, a.delivery_count) for a in data.acquired_records] if data else []
