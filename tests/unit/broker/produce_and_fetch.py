"""CreateTopics, Produce and Fetch requests for tests."""

from __future__ import annotations

from typing import Any

from tests.unit.broker.broker_client import BrokerClient

from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.decoder import records


async def create(client: BrokerClient, name: str = "t", partitions: int = 1, **configs: str) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()],
    )
    response = await client.request(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
    assert response.topics[0].error_code == 0, response


def produce_request(data: bytearray, topic: str = "t", partition: int = 0, acks: int = -1) -> ProduceRequest:
    partitions = [PartitionProduceData(index=partition, records=data)]
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=partitions)]
    )


async def produce(client: BrokerClient, data: bytearray, topic: str = "t", partition: int = 0, version: int = 9) -> Any:
    response = await client.request(produce_request(data, topic, partition), version)
    return response.responses[0].partition_responses[0]


def fetch_request(offset: int = 0, topic: str = "t", partition: int = 0, **more: Any) -> FetchRequest:
    fetch_partition = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=more.pop("partition_max", 1 << 20)
    )
    return FetchRequest(
        max_wait_ms=more.pop("wait", 0),
        min_bytes=more.pop("min_bytes", 1),
        topics=[FetchTopic(topic=topic, partitions=[fetch_partition])],
        **more,
    )


def values(response: FetchResponse) -> list[bytes | None]:
    return [r.value for t in response.responses for p in t.partitions for r in records(p.records or b"")]
