"""The 0.8 SimpleConsumer with an Ottla broker, and messages of the 0.8 producer."""

from __future__ import annotations

import signal
import threading
import time
import uuid

import pytest
from tests.unit.client.scripted import DROP, SILENCE, ScriptedBroker

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.broker.embedded import Broker
from ottla.errors import IllegalStateError, OffsetOutOfRangeError, RequestTimedOutError, UnknownTopicOrPartitionError
from ottla.legacy import (
    EARLIEST_TIME,
    LATEST_TIME,
    ConsumerMetadataRequest,
    ErrorMapping,
    FetchRequestBuilder,
    KeyedMessage,
    Message,
    MessageAndOffset,
    OffsetAndMetadata,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetMetadataAndError,
    OffsetRequest,
    PartitionOffsetRequestInfo,
    Producer,
    ProducerConfig,
    SimpleConsumer,
    TopicMetadataRequest,
    TopicPartition,
)
from ottla.protocol.messages.metadata import MetadataRequest


@pytest.fixture
def topic(node: Broker) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=node.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    return name


def reader(node: Broker, **options: int) -> SimpleConsumer:
    host, _, port = node.bootstrap_servers.rpartition(":")
    return SimpleConsumer(host, int(port), client_id="reader", **options)


def write(node: Broker, topic: str, count: int, codec: str = "none") -> None:
    options = ProducerConfig(
        {"metadata.broker.list": node.bootstrap_servers, "request.required.acks": "1", "compression.codec": codec}
    )
    with Producer[bytes, bytes](options) as producer:
        producer.send([KeyedMessage(topic, b"k", b"%d" % number) for number in range(count)])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_messages_of_the_0_8_producer_are_read(node: Broker, topic: str, codec: str) -> None:
    write(node, topic, 20, codec)
    with reader(node) as consumer:
        actual = [
            message
            for partition in (0, 1)
            for message in consumer.fetch(
                FetchRequestBuilder().client_id("c").add_fetch(topic, partition, 0, 100_000).build()
            ).message_set(topic, partition)
        ]
    assert actual == [MessageAndOffset(Message(b"k", b"%d" % number), number) for number in range(20)]
    assert actual[3].next_offset == 4


def test_0_8_clients_and_current_clients_read_each_others_messages(node: Broker, topic: str) -> None:
    write(node, topic, 3)
    with KafkaProducer(bootstrap_servers=node.bootstrap_servers, compression_type="gzip") as producer:
        producer.send(topic, b"new", key=b"k").get(10)
    with KafkaConsumer(
        topic, bootstrap_servers=node.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=2000
    ) as consumer:
        values: list[bytes] = []
        for record in consumer:
            values.append(record.value)
            if len(values) == 4:
                break
    assert sorted(values) == [b"0", b"1", b"2", b"new"]
    with reader(node) as simple:
        request = FetchRequestBuilder().add_fetch(topic, 0, 0, 10**6).add_fetch(topic, 1, 0, 10**6).build()
        response = simple.fetch(request)
        assert not response.has_error
        assert sum(response.high_watermark(topic, p) for p in (0, 1)) == 4
        assert sum(len(response.message_set(topic, p)) for p in (0, 1)) == 4


def test_fetch_waits_for_min_bytes_at_most_max_wait(node: Broker, topic: str) -> None:
    with reader(node) as consumer:
        begin = time.monotonic()
        request = FetchRequestBuilder().add_fetch(topic, 0, 0, 1000).max_wait(150).min_bytes(1).build()
        assert consumer.fetch(request).message_set(topic, 0) == ()
        assert time.monotonic() - begin >= 0.15


def test_fetch_response_has_error_codes(node: Broker, topic: str) -> None:
    with reader(node) as consumer:
        response = consumer.fetch(FetchRequestBuilder().add_fetch(topic, 0, 99, 1000).build())
        assert response.has_error
        assert response.error_code(topic, 0) == ErrorMapping.OFFSET_OUT_OF_RANGE
        assert isinstance(ErrorMapping.exception_for(response.error_code(topic, 0)), OffsetOutOfRangeError)
        with pytest.raises(UnknownTopicOrPartitionError):
            consumer.earliest_or_latest_offset(TopicPartition(topic, 9), LATEST_TIME)


def test_offsets_are_looked_up_by_time(node: Broker, topic: str) -> None:
    write(node, topic, 5)
    with reader(node) as consumer:
        both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        assert sum(consumer.earliest_or_latest_offset(tp, LATEST_TIME) for tp in both) == 5
        assert [consumer.earliest_or_latest_offset(tp, EARLIEST_TIME) for tp in both] == [0, 0]
        info = PartitionOffsetRequestInfo(LATEST_TIME, 10)
        response = consumer.get_offsets_before(OffsetRequest(dict.fromkeys(both, info)))
        assert not response.has_error
        assert sorted([response.offsets(topic, 0), response.offsets(topic, 1)]) == [(0,), (5, 0)]


def test_topic_metadata_has_leaders_and_isr(node: Broker, topic: str) -> None:
    with reader(node) as consumer:
        (metadata,) = consumer.send(TopicMetadataRequest([topic])).topics_metadata
        assert (metadata.topic, metadata.error_code) == (topic, 0)
        assert [p.partition_id for p in metadata.partitions_metadata] == [0, 1]
        leader = metadata.partitions_metadata[0].leader
        assert leader is not None
        assert f"{leader.host}:{leader.port}" == node.bootstrap_servers
        assert metadata.partitions_metadata[0].isr == (leader,)


@pytest.mark.parametrize("version", [0, 1])
def test_group_offsets_are_committed_and_fetched(node: Broker, topic: str, version: int) -> None:
    group, partition = f"g-{topic}-{version}", TopicPartition(topic, 1)
    with reader(node) as consumer:
        while consumer.find_coordinator(ConsumerMetadataRequest(group)).coordinator is None:
            time.sleep(0.01)
        before = consumer.fetch_offsets(OffsetFetchRequest(group, [partition], version)).offsets[partition]
        assert before.offset == -1
        request = OffsetCommitRequest(group, {partition: OffsetAndMetadata(7, "note")}, version)
        response = consumer.commit_offsets(request)
        assert not response.has_error
        assert response.error_code(partition) == 0
        after = consumer.fetch_offsets(OffsetFetchRequest(group, [partition], version)).offsets[partition]
        assert after == OffsetMetadataAndError(7, "note" if version else "", 0)


def test_lost_connection_is_reopened_once(broker: ScriptedBroker) -> None:
    with SimpleConsumer(broker.host, broker.port) as consumer:
        consumer.send(TopicMetadataRequest(["t"]))
        broker.on(MetadataRequest, lambda _: DROP)
        assert len(consumer.send(TopicMetadataRequest(["t"])).topics_metadata) == 1
        assert broker.connections == 2


def test_request_to_a_silent_broker_times_out_after_so_timeout(broker: ScriptedBroker) -> None:
    broker.on(MetadataRequest, lambda _: SILENCE, times=10)
    with SimpleConsumer(broker.host, broker.port, so_timeout=50) as consumer, pytest.raises(RequestTimedOutError):
        consumer.send(TopicMetadataRequest(["t"]))


def test_closed_consumer_raises_illegal_state(broker: ScriptedBroker) -> None:
    consumer = SimpleConsumer(broker.host, broker.port)
    consumer.close()
    consumer.close()
    with pytest.raises(IllegalStateError):
        consumer.send(TopicMetadataRequest(["t"]))


def test_close_fails_a_pending_call_of_another_thread(broker: ScriptedBroker) -> None:
    broker.on(MetadataRequest, lambda _: SILENCE, times=10)
    consumer = SimpleConsumer(broker.host, broker.port)
    failed: list[BaseException] = []

    def send_request() -> None:
        try:
            consumer.send(TopicMetadataRequest(["t"]))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=send_request)
    thread.start()
    broker.wait_for(lambda: bool(broker.requests_of(MetadataRequest)))
    consumer.close()
    thread.join(5)
    assert len(failed) == 1


def test_ctrl_c_interrupts_a_request(broker: ScriptedBroker) -> None:
    broker.on(MetadataRequest, lambda _: SILENCE, times=10)
    main = threading.get_ident()
    timer = threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT))
    with SimpleConsumer(broker.host, broker.port) as consumer:
        timer.start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            consumer.send(TopicMetadataRequest(["t"]))
        assert time.monotonic() - begin < 1
