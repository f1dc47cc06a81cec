from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.client.scripted import ScriptedBroker

from ottla.broker.embedded import Broker
from ottla.protocol.messages import metadata, produce
from ottla.records.legacy_message_set import records


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.add_topic("t", 3)
        broker.on(produce.ProduceRequest, accept, times=1_000_000)
        yield broker


@pytest.fixture(scope="session")
def node() -> Iterator[Broker]:
    with Broker() as node:
        yield node


def accept(request: produce.ProduceRequest) -> produce.ProduceResponse:
    return produce_response(request, {})


def produce_response(request: produce.ProduceRequest, codes: dict[int, int]) -> produce.ProduceResponse:
    """Return a response with these error codes by partition."""
    responses = [
        produce.TopicProduceResponse(
            name=topic.name,
            partition_responses=[
                produce.PartitionProduceResponse(index=p.index, error_code=codes.get(p.index, 0))
                for p in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return produce.ProduceResponse(responses=responses)


def led_by(*leaders: ScriptedBroker | None, topic: str = "t") -> Any:
    """Return a handler of metadata requests with the leader of each partition in order, or None."""
    ids = {id(leader): number for number, leader in enumerate(dict.fromkeys(leaders)) if leader is not None}

    def respond(request: metadata.MetadataRequest) -> metadata.MetadataResponse:
        return metadata.MetadataResponse(
            brokers=[
                metadata.MetadataResponseBroker(node_id=ids[id(b)], host=b.host, port=b.port)
                for b in dict.fromkeys(leaders)
                if b is not None
            ],
            topics=[
                metadata.MetadataResponseTopic(
                    name=topic,
                    partitions=[
                        metadata.MetadataResponsePartition(
                            partition_index=i,
                            leader_id=-1 if b is None else ids[id(b)],
                            replica_nodes=list(ids.values()),
                            isr_nodes=[],
                        )
                        for i, b in enumerate(leaders)
                    ],
                )
            ],
        )

    return respond


def sent_messages(broker: ScriptedBroker) -> list[tuple[int, list[tuple[bytes | None, bytes | None]]]]:
    """Return (partition, keys and values) of all produce requests to the broker."""
    return [
        (p.index, [(r.key, r.value) for r in records(p.records)])
        for request in broker.requests_of(produce.ProduceRequest)
        for topic in request.topic_data
        for p in topic.partition_data
    ]
