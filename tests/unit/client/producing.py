"""Producers of a scripted broker."""

from __future__ import annotations

from typing import Any

from tests.unit.client.scripted import ScriptedBroker

from ottla import KafkaProducer
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)


def producer(broker: ScriptedBroker, **options: Any) -> KafkaProducer:
    options = {"linger_ms": 0, "retry_backoff_ms": 10, "reconnect_backoff_ms": 10, **options}
    return KafkaProducer(bootstrap_servers=broker.address, **options)


def failure(code: int, topic: str = "t", index: int = 0) -> ProduceResponse:
    response = PartitionProduceResponse(index=index, error_code=code, base_offset=-1)
    return ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[response])])
