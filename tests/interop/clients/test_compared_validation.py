"""Malformed batches get the error codes of Apache Kafka, and every client reads what is stored to its end."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from scripts import apache_kafka
from tests.interop import kafka_jars, malformed_batches
from tests.interop.java_clients import java_command
from tests.interop.malformed_batches import V2, Case

from ottla import KafkaAdminClient, KafkaConsumer, NewTopic, TopicPartition
from ottla.broker.embedded import Broker
from ottla.net.client.blocking_channel import BlockingChannel
from ottla.net.ports import free_port
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

pytestmark = pytest.mark.interop

NONE, UNKNOWN_SERVER_ERROR, CORRUPT, TOO_LARGE, BAD_TIME, BAD_CODEC, INVALID = 0, -1, 2, 10, 32, 76, 87
BEING_MADE = (3, 5, 6)

STRICTER: dict[str, tuple[int, str]] = {
    "offset delta": (INVALID, "offsets would repeat or be missing: compaction and consumers depend on them"),
    "offset deltas": (INVALID, "as above"),
    "repeated offset deltas": (INVALID, "as above"),
    "record length": (INVALID, "Kafka skips over it in compressed batches, and no consumer can read the batch"),
    "key length -2": (INVALID, "only Java reads it as null"),
    "key length -2^31": (INVALID, "as above"),
    "value length -2": (INVALID, "as above"),
    "header value length -2": (INVALID, "as above"),
    "snappy: compressed byte in the middle flipped": (INVALID, "it makes a length of less than -1"),
    "gzip in two members": (INVALID, "librdkafka reads the first one only"),
    "gzip in a hundred members": (INVALID, "as above"),
    "gzip member empty": (INVALID, "librdkafka's consumers abort: their process ends"),
    "gzip: garbage behind compressed data": (INVALID, "as above, for what only Java ignores"),
    "lz4: garbage behind compressed data": (INVALID, "only Java ignores what follows the first frame"),
    "lz4: compressed data twice": (INVALID, "as above"),
    "header: LogAppendTime from a client": (BAD_TIME, "all its records would have the time that the header claims"),
    "header: producer without an epoch": (INVALID, "an unknown producer looks like a fenced one"),
    "size one too long": (INVALID, "Kafka acknowledges it, and stores nothing"),
    "partial message only": (INVALID, "as above"),
    "nothing": (INVALID, "as above"),
    "key size -2": (INVALID, "only Java reads it as null"),
    "value size too small": (INVALID, "Kafka leaves out what it does not understand"),
}
"""Cases in which Kafka stores or drops unreadable records: part of the case's name → (our error code, reason)."""


def expected(case: Case, kafkas: int) -> int:
    """Return the error code that Ottla should return if Kafka returns `kafkas`."""
    if kafkas == UNKNOWN_SERVER_ERROR:
        if "promises 4 GiB" in case.name:
            return TOO_LARGE
        return BAD_CODEC if case.name.endswith(("codec 5", "codec 6", "codec 7")) else INVALID
    if kafkas != NONE:
        return kafkas
    what = case.name.partition(": ")[2] or case.name
    for key in (case.name, what, what.partition(" in a ")[0], " ".join(what.split()[:2])):
        if key in STRICTER:
            # the uncompressed form of "record length of five bytes" is valid for Kafka only
            return STRICTER[key][0]
    return kafkas


class Node:
    """A broker that receives the cases, each in a partition of its own, between two valid batches."""

    def __init__(self, address: str, cases: Sequence[Case], prefix: str) -> None:
        self.address = address
        self.prefix = prefix
        self.case_partitions = [
            (case, i)
            for topic in malformed_batches.TOPICS
            for i, case in enumerate(case for case in cases if case.topic == topic)
        ]
        counts = {topic: sum(case.topic == topic for case in cases) for topic in malformed_batches.TOPICS}
        self.topics = [prefix + topic for topic, count in counts.items() if count]
        with KafkaAdminClient(bootstrap_servers=address) as admin:
            admin.create_topics(
                [
                    NewTopic(prefix + topic, count, 1, topic_configs=malformed_batches.TOPICS[topic])
                    for topic, count in counts.items()
                    if count
                ]
            )
        host, _, port = address.partition(":")
        self.channel = BlockingChannel(host, int(port))
        self.now = int(time.time() * 1000)
        self.producer_id = self._allocated()

    def _allocated(self) -> int:
        """Return a producer id of this broker."""
        for _ in range(300):
            self.channel.connect()
            self.channel.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 1, 1, "corpus")
            response = self.channel.receive()
            assert isinstance(response, InitProducerIdResponse)
            if not response.error_code:
                return response.producer_id
            time.sleep(0.1)
        raise AssertionError("the broker allocates no producer id")

    def send_cases(self) -> dict[str, tuple[int, bool]]:
        """Send all cases. Return their error codes, and whether the valid batches have the expected offsets."""
        result = {}
        for case, partition in self.case_partitions:
            self._send_valid(case, partition)
            error = self._send(case, partition, case.data(self.now, self.producer_id), case.version)[0]
            end = self._send_valid(case, partition)
            result[case.name] = (error, end == 3 if error else end > 3)
        self.channel.disconnect()
        return result

    def _send_valid(self, case: Case, partition: int) -> int:
        for _ in range(300):
            error, offset = self._send(case, partition, V2().encode(self.now), malformed_batches.V2_VERSION)
            if error not in BEING_MADE:
                assert error == NONE, f"{case.name}: a valid batch got {error}"
                return offset
            time.sleep(0.1)
        raise AssertionError(f"{case.name}: partition {partition} has no leader")

    def _send(self, case: Case, partition: int, data: bytes, version: int) -> tuple[int, int]:
        records = PartitionProduceData(index=partition, records=memoryview(bytearray(data)))
        topic = TopicProduceData(name=self.prefix + case.topic, partition_data=[records])
        self.channel.connect()
        request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=10_000, topic_data=[topic])
        self.channel.send(request, version, 1, "corpus")
        response = self.channel.receive()
        assert isinstance(response, ProduceResponse)
        partition_response = response.responses[0].partition_responses[0]
        return partition_response.error_code, partition_response.base_offset


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize(
    ("version", "cases"),
    [
        pytest.param("4.3.1", malformed_batches.cases(), id="4.3.1"),
        # Versions 0 to 2 of Produce are those of clients before 0.11, which Apache Kafka 4 no longer serves.
        pytest.param("3.9.2", malformed_batches.old_format_cases(), id="3.9.2"),
    ],
)
def test_malformed_batches_get_kafkas_error_and_all_clients_read_to_the_end(
    version: str, cases: list[Case], ours: str, tmp_path: Path
) -> None:
    assert len(cases) >= 140
    reason = apache_kafka.missing(version)
    if reason:
        pytest.skip(reason)
    with kafka_jars.kafka(tmp_path, free_port(in_a_row=2), version=version) as address:
        kafkas = Node(address, cases, f"corpus-{version}-").send_cases()
    node = Node(ours, cases, f"corpus-{version}-")
    results = node.send_cases()
    required = {case.name: (expected(case, kafkas[case.name][0]), True) for case in cases}
    # A batch that is valid if it is not compressed may be stored: it then lacks what STRICTER is about.
    wrong = {name: (results[name], kafkas[name], want) for name, want in required.items() if results[name] != want}
    assert not wrong, wrong
    ends = read_with_ours(ours, node.topics)
    assert read_with_librdkafka(ours, node.topics) == ends
    assert read_with_java(ours, node.topics) == ends


Ends = dict[tuple[str, int], tuple[int, int]]
"""(topic, partition) → (records, end offset)."""


def read_with_ours(address: str, topics: list[str]) -> Ends:
    with KafkaConsumer(bootstrap_servers=address, enable_auto_commit=False) as consumer:
        partitions = [TopicPartition(t, p) for t in topics for p in sorted(consumer.partitions_for_topic(t) or ())]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        read = dict.fromkeys(partitions, 0)
        deadline = time.monotonic() + 60
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            assert time.monotonic() < deadline, "the end is not reached"
            for tp, records in consumer.poll(timeout_ms=200).items():
                read[tp] += len(records)
        return {(tp.topic, tp.partition): (read[tp], ends[tp]) for tp in partitions}


def read_with_librdkafka(address: str, topics: list[str]) -> Ends:
    confluent = pytest.importorskip("confluent_kafka")
    consumer = confluent.Consumer(
        {"bootstrap.servers": address, "group.id": "corpus", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    metadata = consumer.list_topics()
    partitions = [(t, p) for t in topics for p in metadata.topics[t].partitions]
    consumer.assign([confluent.TopicPartition(t, p, 0) for t, p in partitions])
    read = dict.fromkeys(partitions, 0)
    ends: dict[tuple[str, int], int] = {}
    deadline = time.monotonic() + 60
    while len(ends) < len(partitions):
        assert time.monotonic() < deadline, "the end is not reached"
        message = consumer.poll(1)
        if message is None:
            continue
        place = (message.topic(), message.partition())
        if message.error() is None:
            read[place] += 1
        else:
            assert message.error().code() == confluent.KafkaError._PARTITION_EOF, message.error()
            ends[place] = message.offset()
    consumer.close()
    return {place: (read[place], ends[place]) for place in partitions}


def read_with_java(address: str, topics: list[str]) -> Ends:
    command = java_command("kafka-clients", "4.3.1", "ReadToEnd", address, *topics)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    rows = (line.split() for line in done.stdout.splitlines())
    return {(topic, int(p)): (int(records), int(end)) for topic, p, records, end in rows}
