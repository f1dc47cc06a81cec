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
        broker.on(produce.ProduceRequest, accepted, times=1_000_000)
        yield broker


@pytest.fixture(scope="session")
def node() -> Iterator[Broker]:
    with Broker() as node:
        yield node


def accepted(request: produce.ProduceRequest) -> produce.ProduceResponse:
    return refused(request, {})


def refused(request: produce.ProduceRequest, codes: dict[int, int]) -> produce.ProduceResponse:
    """An answer with these errors by partition."""
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
    """A handler of metadata requests: the leader of each partition, in order; None for none."""
    ids = {id(leader): number for number, leader in enumerate(dict.fromkeys(leaders)) if leader is not None}

    def answer(request: metadata.MetadataRequest) -> metadata.MetadataResponse:
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

    return answer


def sent(broker: ScriptedBroker) -> list[tuple[int, list[tuple[bytes | None, bytes | None]]]]:
    """(partition, keys and values) of everything that the broker was sent."""
    return [
        (p.index, [(r.key, r.value) for r in records(p.records)])
        for request in broker.asked(produce.ProduceRequest)
        for topic in request.topic_data
        for p in topic.partition_data
    ]
