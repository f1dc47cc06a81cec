"""Our 0.8 clients against our broker and Apache Kafka 3.9, the last that serves them; read back by Java's 0.8.2."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from scripts import apache_kafka
from tests.interop.java_clients import run_java
from tests.interop.kafka_jars import kafka
from tests.interop.steady import new_topic

from ottla import KafkaConsumer
from ottla.broker.embedded import Broker
from ottla.legacy import (
    LATEST_TIME,
    ConsumerMetadataRequest,
    FetchRequestBuilder,
    KeyedMessage,
    OffsetAndMetadata,
    OffsetCommitRequest,
    OffsetFetchRequest,
    Producer,
    ProducerConfig,
    SimpleConsumer,
    TopicMetadataRequest,
    TopicPartition,
)
from ottla.net.ports import free_port

pytestmark = pytest.mark.interop

KAFKA = "3.9.2"


@pytest.fixture(scope="module")
def kafka_3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    reason = apache_kafka.missing(KAFKA)
    if reason:
        pytest.skip(reason)
    with kafka(tmp_path_factory.mktemp("kafka"), free_port(in_a_row=2), version=KAFKA, kill=True) as address:
        yield address


@pytest.fixture(params=["ottla", "kafka 3.9"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "ottla":
        with Broker() as broker:
            yield broker.bootstrap_servers
    else:
        yield request.getfixturevalue("kafka_3")


@pytest.fixture
def topic(address: str) -> str:
    return new_topic(address, 3, "t")


def send(address: str, topic: str) -> list[str]:
    """Send messages with every kind of producer, and return them as `key=value`."""
    reported = []
    for kind in ("sync", "async"):
        for codec in ("none", "gzip", "snappy"):
            # acks=0 not first: records sent before each leader knows its partition are lost without an error
            for acks in ("1", "0", "-1"):
                props = {
                    "metadata.broker.list": address,
                    "serializer.class": "kafka.serializer.StringEncoder",
                    "producer.type": kind,
                    "compression.codec": codec,
                    "request.required.acks": acks,
                    "batch.num.messages": "4",
                }
                with Producer[str, str](ProducerConfig(props)) as producer:
                    for number in range(6):
                        value = f"{kind}-{codec}-{acks}-{number}"
                        producer.send(KeyedMessage(topic, f"k{number}", value))
                        reported.append(f"k{number}={value}")
    return reported


def end_of(address: str, topic: str) -> int:
    host, _, port = address.rpartition(":")
    with SimpleConsumer(host, int(port)) as consumer:
        return sum(consumer.earliest_or_latest_offset(TopicPartition(topic, p), LATEST_TIME) for p in range(3))


def test_java_clients_of_0_8_read_messages_of_the_legacy_producer(address: str, topic: str) -> None:
    reported = send(address, topic)
    deadline = time.monotonic() + 20
    while end_of(address, topic) < len(reported) and time.monotonic() < deadline:
        time.sleep(0.05)  # there is no response with acks=0
    run_java("kafka_2.10", "0.8.2.2", "ClassicReader", address, topic, "3", *reported)


def test_simple_consumer_reads_metadata_messages_and_offsets(address: str, topic: str) -> None:
    props = {"metadata.broker.list": address, "request.required.acks": "-1", "compression.codec": "gzip"}
    with Producer[bytes, bytes](ProducerConfig(props)) as producer:
        producer.send([KeyedMessage(topic, b"k", b"%d" % number) for number in range(10)])
    host, _, port = address.rpartition(":")
    with SimpleConsumer(host, int(port), client_id="simple") as consumer:
        (records,) = consumer.send(TopicMetadataRequest([topic])).topics_metadata
        assert [p.partition_id for p in records.partitions_metadata] == [0, 1, 2]
        builder = FetchRequestBuilder()
        for partition in range(3):
            builder.add_fetch(topic, partition, 0, 100_000)
        response = consumer.fetch(builder.build())
        values = [m.message.value for partition in range(3) for m in response.message_set(topic, partition)]
        assert values == [b"%d" % number for number in range(10)]
        group, place = f"g-{topic}", TopicPartition(topic, 1)
        deadline = time.monotonic() + 30
        while consumer.find_coordinator(ConsumerMetadataRequest(group)).coordinator is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        while consumer.commit_offsets(OffsetCommitRequest(group, {place: OffsetAndMetadata(4, "m")})).has_error:
            assert time.monotonic() < deadline  # the coordinator may still be loading
            time.sleep(0.1)
        offset = consumer.fetch_offsets(OffsetFetchRequest(group, [place])).offsets[place]
        assert (offset.offset, offset.metadata, offset.error) == (4, "m", 0)


def test_current_consumer_reads_messages_of_the_legacy_producer(address: str, topic: str) -> None:
    reported = send(address, topic)
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
    result = []
    with KafkaConsumer(topic, bootstrap_servers=address, **options) as consumer:
        for record in consumer:
            result.append(f"{record.key.decode()}={record.value.decode()}")
            if len(result) == len(reported):
                break
    assert sorted(result) == sorted(reported)
