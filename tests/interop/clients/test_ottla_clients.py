"""Our clients against our broker and Apache Kafka, with the same scenarios for both."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import apache_kafka
from tests.interop import kafka_jars
from tests.interop.steady import new_topic

from ottla import (
    ConfigResource,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
)
from ottla.client.consumer.fetch.ranges import Planner, read_range
from ottla.errors import (
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from ottla.net.ports import free_port

pytestmark = pytest.mark.interop


class Node:
    """Apache Kafka on loopback, which can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port(in_a_row=2)
        self.command = kafka_jars.prepare_node(directory, self.port)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}") as admin:
            admin.describe_cluster(timeout_ms=60_000)

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    reason = apache_kafka.missing()
    if reason:
        pytest.skip(reason)
    node = Node(tmp_path_factory.mktemp("kafka"))
    node.start()
    yield node
    assert node.process is not None
    apache_kafka.wait_for_end(node.process)


@pytest.fixture
def topic(address: str) -> str:
    return new_topic(address, 3, "t")


def read_all(address: str, partitions: list[TopicPartition]) -> dict[TopicPartition, list[bytes]]:
    """Return all values of the partitions, from the beginning to the current end."""
    with KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        actual: dict[TopicPartition, list[bytes]] = {tp: [] for tp in partitions}
        deadline = time.monotonic() + 60
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            assert time.monotonic() < deadline
            for tp, rows in consumer.poll(timeout_ms=500).items():
                actual[tp] += [row.value for row in rows]
    return actual


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_sent_records_are_read_at_the_returned_offsets(address: str, topic: str, codec: str) -> None:
    with KafkaProducer(bootstrap_servers=address, compression_type=codec) as producer:
        futures = [
            producer.send(topic, b"value %d " % i * 20, key=b"%d" % i, headers=[("n", b"%d" % i)]) for i in range(1000)
        ]
        producer.flush(30)
        places = [future.get(0) for future in futures]
    partitions = [TopicPartition(topic, i) for i in range(3)]
    records = read_all(address, partitions)
    for number, place in enumerate(places):
        assert records[TopicPartition(topic, place.partition)][place.offset] == b"value %d " % number * 20
    assert sum(map(len, records.values())) == 1000


def test_group_reads_every_record_once_while_members_join_and_leave(address: str, topic: str) -> None:
    seen: list[tuple[int, int]] = []
    stopped = threading.Event()

    def member(strategy: str, stop: threading.Event) -> None:
        with KafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=topic,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[strategy],
            heartbeat_interval_ms=100,
            auto_commit_interval_ms=200,
        ) as consumer:
            while not stop.is_set():
                for tp, rows in consumer.poll(timeout_ms=100).items():
                    seen.extend((tp.partition, row.offset) for row in rows)

    def send() -> None:
        with KafkaProducer(bootstrap_servers=address) as producer:
            while not stopped.is_set():
                producer.send(topic, b"v", partition=len(sent) % 3)
                sent.append(1)
                time.sleep(0.001)

    sent: list[int] = []
    sender = threading.Thread(target=send)
    sender.start()
    stops = [threading.Event() for _ in range(3)]
    members = [threading.Thread(target=member, args=("cooperative-sticky", stop)) for stop in stops]
    for thread in members:
        thread.start()
        time.sleep(1)
    stops[0].set()
    time.sleep(1)
    stopped.set()
    sender.join()
    deadline = time.monotonic() + 20
    while len(seen) < len(sent) and time.monotonic() < deadline:
        time.sleep(0.05)
    for stop in stops:
        stop.set()
    for thread in members:
        thread.join()
    assert len(set(seen)) == len(sent)
    assert len(seen) == len(sent), "a record was read twice"


def test_admin_client_manages_topics_configs_and_groups(address: str, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        assert topic in admin.list_topics()
        with pytest.raises(TopicAlreadyExistsError, match=topic):
            admin.create_topics([NewTopic(topic, 1, 1)])
        admin.create_partitions({topic: 5})
        resource = ConfigResource(2, topic)
        admin.alter_configs([resource._replace(configs={"retention.ms": "12345"})])
        deadline = time.monotonic() + 10
        while admin.describe_configs([resource])[resource]["retention.ms"].value != "12345":
            assert time.monotonic() < deadline
        assert len(admin.describe_topics([topic])[topic].partitions) == 5
        with KafkaConsumer(topic, bootstrap_servers=address, group_id=topic) as consumer:
            while not consumer.assignment():
                consumer.poll(timeout_ms=100)
            (member,) = admin.describe_consumer_groups([topic])[topic].members
            assert set(member.assignment) == consumer.assignment()
            while not admin.list_consumer_group_offsets(topic):
                consumer.poll(timeout_ms=100)
                consumer.commit()
        admin.delete_consumer_groups([topic])
        assert topic not in {group.group_id for group in admin.list_consumer_groups()}
        admin.delete_topics([topic])
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics([topic])


def test_admin_client_alters_and_deletes_offsets_of_an_empty_group(address: str, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.alter_consumer_group_offsets(topic, {first: 5, second: OffsetAndMetadata(7, "note")})
        records = admin.list_consumer_group_offsets(topic)
        assert (records[first].offset, records[second].offset, records[second].metadata) == (5, 7, "note")
        try:
            admin.delete_consumer_group_offsets(topic, [first])
        except UnsupportedVersionError:
            pytest.skip("this broker does not serve OffsetDelete")
        assert set(admin.list_consumer_group_offsets(topic)) == {second}


def test_consumer_looks_up_offsets_by_timestamp(address: str, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with KafkaProducer(bootstrap_servers=address) as producer:
        for number in range(10):
            producer.send(topic, b"v", partition=0, timestamp_ms=1_700_000_000_000 + number).get(10)
    with KafkaConsumer(bootstrap_servers=address) as consumer:
        records = consumer.offsets_for_times({tp: 1_700_000_000_004})[tp]
        assert records is not None
        assert (records.offset, records.timestamp) == (4, 1_700_000_000_004)
        assert consumer.offsets_for_times({tp: 1_800_000_000_000}) == {tp: None}
        assert (consumer.beginning_offsets([tp]), consumer.end_offsets([tp])) == ({tp: 0}, {tp: 10})


@pytest.mark.parametrize("newer", [True, False], ids=["joining", "announced"])
def test_transactional_consume_transform_produce_is_exactly_once(
    address: str, topic: str, newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third transaction is aborted, and its input read again."""
    if not newer:
        monkeypatch.setattr("ottla.client.producer.transactions.NEWER", 99)
    output = f"{topic}-out"
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(output, 2, 1)])
    values = [b"%d" % i for i in range(2000)]
    with KafkaProducer(bootstrap_servers=address) as plain:
        for i, value in enumerate(values):
            plain.send(topic, value, partition=i % 3)
    rounds = 0
    seen: list[bytes] = []
    with KafkaProducer(bootstrap_servers=address, transactional_id=topic) as producer:
        producer.init_transactions()
        while len(seen) < len(values) and rounds < 200:
            with KafkaConsumer(
                topic,
                bootstrap_servers=address,
                group_id=topic,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
                max_poll_records=300,
            ) as consumer:
                deadline = time.monotonic() + 30
                while len(seen) < len(values) and time.monotonic() < deadline:
                    records = [r for batch in consumer.poll(500).values() for r in batch]
                    if not records:
                        continue
                    rounds += 1
                    producer.begin_transaction()
                    for record in records:
                        producer.send(output, b"out-" + record.value)
                    at = {tp: OffsetAndMetadata(consumer.position(tp)) for tp in consumer.assignment()}
                    producer.send_offsets_to_transaction(at, consumer.group_metadata())
                    if rounds % 3 == 1:
                        producer.abort_transaction()
                        break  # the next consumer starts at the committed offset
                    producer.commit_transaction()
                    seen += [r.value for r in records]
    values_read: list[bytes] = []
    with KafkaConsumer(
        output,
        bootstrap_servers=address,
        group_id=None,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as reader:
        deadline = time.monotonic() + 30
        while len(values_read) < len(values) and time.monotonic() < deadline:
            values_read += [r.value for records in reader.poll(500).values() for r in records]
    assert sorted(values_read) == sorted(b"out-" + value for value in values)


def test_offset_range_is_read_as_columns(address: str, topic: str) -> None:
    tp = TopicPartition(topic, 1)
    with KafkaProducer(bootstrap_servers=address) as producer:
        for number in range(500):
            producer.send(topic, b"%d" % number, partition=1)
    with Planner({"bootstrap.servers": address}) as planner:
        assert planner.partitions([topic]) == {TopicPartition(topic, i) for i in range(3)}
        assert planner.end_offsets([tp]) == {tp: 500}
    actual = list(read_range(address, tp, 100, 321, {}))
    assert [offset for columns in actual for offset in columns.offsets] == list(range(100, 321))
    assert actual[0].values.get(0) == b"100"
    with pytest.raises(OffsetOutOfRangeError):
        list(read_range(address, tp, 10_000, 10_001, {}))


@pytest.mark.slow
def test_killed_broker_loses_duplicates_and_reorders_no_record(kafka: Node) -> None:
    address, topic = f"127.0.0.1:{kafka.port}", f"t-{uuid.uuid4().hex[:8]}"
    stop = threading.Event()
    futures: list[Any] = []
    with KafkaProducer(bootstrap_servers=address, linger_ms=1, request_timeout_ms=5000) as producer:

        def send() -> None:
            while not stop.is_set():
                futures.append(producer.send(topic, b"%d" % len(futures), partition=0))
                if len(futures) % 50 == 0:
                    time.sleep(0.005)

        sender = threading.Thread(target=send)
        sender.start()
        time.sleep(2)
        kafka.kill()
        kafka.start()
        time.sleep(1)
        stop.set()
        sender.join()
        producer.flush(60)
        assert all(future.succeeded() for future in futures)
    tp = TopicPartition(topic, 0)
    assert read_all(address, [tp])[tp] == [b"%d" % number for number in range(len(futures))]
