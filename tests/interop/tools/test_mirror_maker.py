"""`ottla mirror-maker` with Apache Kafka's brokers, MirrorMaker 2 and connect-mirror-client."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scripts import apache_kafka
from tests.interop import kafka_jars
from tests.interop.eventually import eventually
from tests.interop.java_clients import java_libs, run_java
from tests.mirroring import mirroring, mm2_properties
from tests.whole_topic import whole_topic

from ottla import (
    Broker,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
)
from ottla.errors import KafkaError
from ottla.net.ports import free_port

pytestmark = pytest.mark.interop

SECONDS = 120.0
SYNC_DISTANCE = 25
"""How much too low the translated offset of a group at 100 of 300 may be: 1/8 of its lag (docs/mirroring.md)."""


def create(address: str, topic: str, partitions: int = 2, **configs: str) -> None:
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        new = NewTopic(topic, partitions, 1, topic_configs={k.replace("_", "."): v for k, v in configs.items()})
        admin.create_topics([new], wait_for_metadata=True)


def send(address: str, topic: str, first: int, count: int) -> None:
    with KafkaProducer(bootstrap_servers=address) as producer:
        for number in range(first, first + count):
            headers = [("n", b"%d" % number)] if number % 2 else None
            key = b"k" if number % 3 else None
            producer.send(topic, b"%d" % number, key, headers, partition=number // 2 % 2, timestamp_ms=10**12 + number)


def rows(address: str, topic: str) -> list[tuple[object, ...]]:
    """Return partition, timestamp, key, value and headers of all records."""
    try:
        records = whole_topic(address, topic, 2, isolation_level="read_committed")
    except KafkaError:  # the topic does not exist yet
        return []
    return [(r.partition, r.timestamp, *r[6:]) for r in records]


def wait_for_copy(source: str, topic: str, target: str, remote: str) -> None:
    expected = rows(source, topic)
    eventually(lambda: len(rows(target, remote)) >= len(expected), SECONDS)
    assert rows(target, remote) == expected


def test_connect_mirror_client_reads_checkpoints_heartbeats_and_offset_syncs() -> None:
    with Broker() as a, Broker() as b:
        source, target = a.bootstrap_servers, b.bootstrap_servers
        create(source, "visits", 1)
        with KafkaProducer(bootstrap_servers=source) as producer:
            for number in range(50):
                producer.send("visits", b"%d" % number)
        with KafkaConsumer(bootstrap_servers=source, group_id="readers") as consumer:
            consumer.commit({TopicPartition("visits", 0): OffsetAndMetadata(42, "note")})
        properties = {**mm2_properties(source, target), "offset.lag.max": "0", "sync.group.offsets.enabled": "true"}
        with mirroring(properties), KafkaAdminClient(bootstrap_servers=target) as admin:
            eventually(lambda: admin.list_consumer_group_offsets("readers"), SECONDS)
            eventually(lambda: "A.heartbeats" in admin.list_topics(), SECONDS)
        checked = run_java(
            "connect-mirror", apache_kafka.VERSION, "Mirrored", source, target, "visits", "readers", "42"
        )
    assert len(checked) == 8


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    reason = apache_kafka.missing()
    if reason:
        pytest.skip(f"Apache Kafka: {reason}")
    with kafka_jars.kafka(tmp_path_factory.mktemp("kafka"), free_port(in_a_row=2)) as address:
        yield address


@pytest.mark.parametrize("direction", ["from Apache Kafka", "to Apache Kafka"])
def test_topic_is_mirrored_between_kafka_and_ottla_exactly_once(kafka: str, direction: str) -> None:
    topic = direction.replace(" ", "-")
    with Broker() as broker:
        address = broker.bootstrap_servers
        source, target = (kafka, address) if direction.startswith("from") else (address, kafka)
        create(source, topic, retention_ms="7654321", max_message_bytes="2000000")
        send(source, topic, 0, 200)
        with KafkaConsumer(bootstrap_servers=source, group_id=f"g-{topic}") as consumer:
            consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(100)})
        properties = mm2_properties(source, target, topics=topic, exactly_once_source_support="enabled")
        properties |= {"sync.group.offsets.enabled": "true", "offset.lag.max": "0"}
        with KafkaAdminClient(bootstrap_servers=target) as admin:
            with mirroring(properties):
                wait_for_copy(source, topic, target, f"A.{topic}")
                send(source, topic, 200, 100)
                wait_for_copy(source, topic, target, f"A.{topic}")
                eventually(lambda: admin.list_consumer_group_offsets(f"g-{topic}"), SECONDS)
            send(source, topic, 300, 100)
            with mirroring(properties):
                wait_for_copy(source, topic, target, f"A.{topic}")
            ((remote, committed),) = admin.list_consumer_group_offsets(f"g-{topic}").items()
            exact = translated_offset(target, topic)
            assert remote == TopicPartition(f"A.{topic}", 0)
            # Which offset syncs exist depends on the sizes of the batches. Only lower offsets are allowed.
            assert exact - SYNC_DISTANCE <= committed.offset <= exact
            resource = ConfigResource(ConfigResourceType.TOPIC, f"A.{topic}")
            entries = admin.describe_configs([resource])[resource]
        assert (entries["retention.ms"].value, entries["max.message.bytes"].value) == ("7654321", "2000000")


def translated_offset(target: str, topic: str) -> int:
    """Return the offset of the 101st record of partition 0 at the target, or one less if it follows a marker."""
    records = [r for r in whole_topic(target, f"A.{topic}", 2) if r.partition == 0]
    return records[99].offset + 1 if records[100].offset != records[99].offset + 1 else records[100].offset


@contextmanager
def mirror_maker_2(properties: dict[str, str], directory: Path) -> Iterator[None]:
    """Run Kafka's MirrorMaker 2 in dedicated mode."""
    libs = java_libs("connect-mirror", apache_kafka.VERSION)
    file = directory / "mm2.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = ["java", "-Xmx512M", *apache_kafka.SHORT_LIVED, "-cp", f"{libs}/*"]
    with (directory / "out.txt").open("ab") as out:
        process = subprocess.Popen(
            [*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(file)], stdout=out, stderr=out
        )
    try:
        yield
        assert process.poll() is None, (directory / "out.txt").read_text()[-3000:]
    finally:
        apache_kafka.wait_for_end(process)


def test_mirror_maker_2_and_ottla_continue_each_others_mirroring(tmp_path: Path) -> None:
    with Broker() as a, Broker() as b:
        source, target = a.bootstrap_servers, b.bootstrap_servers
        create(source, "visits")
        properties = mm2_properties(source, target, topics="visits", emit_heartbeats_enabled="false")
        properties |= {"config.storage.replication.factor": "1", "status.storage.replication.factor": "1"}
        properties |= {"offset.flush.interval.ms": "500", "B.offset.flush.interval.ms": "500"}
        send(source, "visits", 0, 100)
        with mirror_maker_2(properties, tmp_path):
            wait_for_copy(source, "visits", target, "A.visits")
        send(source, "visits", 100, 100)
        with mirroring(properties):
            wait_for_copy(source, "visits", target, "A.visits")
        send(source, "visits", 200, 100)
        with mirror_maker_2(properties, tmp_path):
            wait_for_copy(source, "visits", target, "A.visits")
        assert len(rows(target, "A.visits")) == 300
