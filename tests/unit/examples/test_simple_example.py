"""The SimpleConsumer example of Kafka 0.8: reading, and a change of the leader."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.client.scripted import ScriptedBroker
from tests.unit.examples.running import load_example
from tests.unit.legacy.conftest import led_by

from ottla import Broker
from ottla.legacy import KeyedMessage, Producer, ProducerConfig
from ottla.protocol.messages import fetch, list_offsets
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.records.legacy_message_set import encode


def test_simple_example_reads_the_produced_records(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        options = ProducerConfig(
            {
                "metadata.broker.list": broker.bootstrap_servers,
                "request.required.acks": "1",
                "compression.codec": "gzip",
                "serializer.class": "kafka.serializer.StringEncoder",
            }
        )
        with Producer[str, str](options) as producer:
            producer.send([KeyedMessage("t", f"message {number}") for number in range(10)])
        host, _, port = broker.bootstrap_servers.rpartition(":")
        load_example("legacy/simple_example.py").SimpleExample("t", 0, [("127.0.0.1", 1), (host, int(port))]).run(7)
    assert capsys.readouterr().out.splitlines() == [f"{number}: message {number}" for number in range(7)]


@pytest.fixture
def two_brokers() -> Iterator[tuple[ScriptedBroker, ScriptedBroker]]:
    with ScriptedBroker() as first, ScriptedBroker() as second:
        yield first, second


def fetch_response(code: int, records: bytes = b"") -> fetch.FetchResponse:
    data = fetch.PartitionData(partition_index=0, error_code=code, high_watermark=1, records=records)
    return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic="t", partitions=[data])])


def list_offsets_response(request: object) -> list_offsets.ListOffsetsResponse:
    actual = list_offsets.ListOffsetsPartitionResponse(partition_index=0, old_style_offsets=[0])
    return list_offsets.ListOffsetsResponse(
        topics=[list_offsets.ListOffsetsTopicResponse(name="t", partitions=[actual])]
    )


def test_simple_example_finds_the_new_leader(
    two_brokers: tuple[ScriptedBroker, ScriptedBroker], capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = two_brokers
    old.on(MetadataRequest, led_by(old))
    old.on(MetadataRequest, led_by(new), times=9)
    old.on(list_offsets.ListOffsetsRequest, list_offsets_response, times=9)
    old.on(fetch.FetchRequest, lambda _: fetch_response(6), times=9)
    new.on(fetch.FetchRequest, lambda _: fetch_response(0, encode(0, -1, b"k", b"moved", 0)), times=9)
    load_example("legacy/simple_example.py").SimpleExample("t", 0, [(old.host, old.port)]).run(1)
    assert capsys.readouterr().out == "0: moved\n"
