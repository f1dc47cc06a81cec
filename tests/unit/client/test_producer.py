"""The producer with a scripted broker: sending, errors, memory, closing and options."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

import pytest
from tests.unit.client.keyboard import ctrl_c
from tests.unit.client.producing import failure, producer
from tests.unit.client.scripted import DROP, SILENCE, ScriptedBroker

from ottla import Broker, KafkaProducer, ProducerRecord
from ottla.client.producer.partitioner import partition_for_key
from ottla.errors import (
    BufferExhaustedError,
    ClusterAuthorizationFailedError,
    ConfigurationError,
    IllegalStateError,
    InvalidTopicError,
    KafkaTimeoutError,
    MessageTooLargeError,
    OutOfOrderSequenceNumberError,
    SerializationError,
    TopicAuthorizationFailedError,
)
from ottla.net.client.channel import Channel
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from ottla.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
)
from ottla.records.appender import RecordFuture
from ottla.records.batch import read_header
from ottla.records.decoder import records


def values(broker: ScriptedBroker, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    return [r.value for batch in broker.topics[topic][partition] for r in records(batch)]


def test_record_is_sent_and_its_offset_returned(broker: ScriptedBroker) -> None:
    with producer(broker) as p:
        metadata = p.send("t", b"value", key=b"k", headers=[("h", b"1")], timestamp_ms=5).get(10)
        assert (metadata.topic, metadata.partition, metadata.offset, metadata.timestamp) == ("t", 0, 0, 5)
        assert (metadata.serialized_key_size, metadata.serialized_value_size) == (1, 5)
        assert p.send("t", b"next").get(10).offset == 1
    (record, _) = [r for batch in broker.topics["t"][0] for r in records(batch)]
    assert (record.key, record.value, record.headers, record.timestamp) == (b"k", b"value", [("h", b"1")], 5)


@pytest.mark.option("linger.ms")
def test_records_are_batched_during_linger(broker: ScriptedBroker) -> None:
    with producer(broker, linger_ms=60_000) as p:
        futures = [p.send("t", b"%d" % i) for i in range(100)]
        p.flush(10)
        assert [f.get(0).offset for f in futures] == list(range(100))
    assert len(broker.requests_of(ProduceRequest)) <= 2


def test_keyed_records_are_partitioned_by_javas_hash(broker: ScriptedBroker) -> None:
    broker.add_topic("many", 7)
    with producer(broker) as p:
        result = [p.send("many", b"v", key=b"key-%d" % i).get(10).partition for i in range(8)]
    assert result == [partition_for_key(b"key-%d" % i, 7) for i in range(8)]


def test_explicit_partition_is_used_and_times_out_if_it_is_missing(broker: ScriptedBroker) -> None:
    broker.add_topic("many", 3)
    with producer(broker) as p:
        assert p.send("many", b"v", partition=2).get(10).partition == 2
    with producer(broker, max_block_ms=200) as p, pytest.raises(KafkaTimeoutError, match="partition 9"):
        p.send("many", b"v", partition=9)


def test_topic_that_the_broker_does_not_create_is_named_without_a_partition() -> None:
    with (
        Broker({"auto.create.topics.enable": False}) as broker,
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers, max_block_ms=1500) as p,
        pytest.raises(KafkaTimeoutError, match=r"^topic 'absent' does not exist, .*auto\.create\.topics\.enable"),
    ):
        p.send("absent", b"v")


def test_text_is_sent_as_utf8_without_a_serializer(broker: ScriptedBroker) -> None:
    with producer(broker) as p:
        p.send("t", "größer", key="k").get(10)
    assert values(broker) == ["größer".encode()]


@pytest.mark.option("key.serializer", "value.serializer")
def test_serialization_error_names_serializer_type_and_topic(broker: ScriptedBroker) -> None:
    with producer(broker, value_serializer=lambda v: str(v + 1).encode(), key_serializer="long") as p:
        p.send("t", 41, key=1).get(10)
        with pytest.raises(SerializationError, match=r"value_serializer .*str of topic t"):
            p.send("t", "text")
    assert values(broker) == [b"42"]


def test_value_or_header_that_is_not_bytes_raises_serialization_error(broker: ScriptedBroker) -> None:
    with producer(broker) as p:
        with pytest.raises(SerializationError, match="value has the type dict"):
            p.send("t", {})
        with pytest.raises(SerializationError, match="header 'h'"):
            p.send("t", b"v", headers=[("h", "text")])  # type: ignore[list-item]
        with pytest.raises(SerializationError, match="pair"):
            p.send("t", b"v", headers=["h"])  # type: ignore[list-item]
    with producer(broker, value_serializer=lambda _: 5) as p, pytest.raises(SerializationError, match="type int"):
        p.send("t", b"v")
    with producer(broker, value_serializer=lambda v: bytearray(v)) as p:
        p.send("t", b"buffer").get(10)
    assert values(broker) == [b"buffer"]


def test_java_style_send_calls_the_callback_on_the_io_thread(broker: ScriptedBroker) -> None:
    output: list[Any] = []
    done = threading.Event()

    def callback(metadata: Any, error: Any) -> None:
        output.append((metadata, error, threading.current_thread() is threading.main_thread()))
        done.set()

    with producer(broker, linger_ms=100) as p:  # send() returns before the batch is sent
        p.send(ProducerRecord("t", b"v"), callback)
        assert done.wait(10)
    ((metadata, error, on_main_thread),) = output
    assert metadata.offset == 0
    assert error is None
    assert not on_main_thread


def test_failing_callback_has_no_effect(broker: ScriptedBroker, caplog: pytest.LogCaptureFixture) -> None:
    with producer(broker) as p:
        p.send("t", b"1").add_callback(lambda _: 1 / 0)
        p.flush(10)
        assert p.send("t", b"2").get(10).offset == 1
    assert "ZeroDivisionError" in caplog.text


def test_callback_may_send(broker: ScriptedBroker) -> None:
    with producer(broker) as p:
        p.send("t", b"1").add_callback(lambda _: p.send("t", b"2"))
        broker.wait_for(lambda: values(broker) == [b"1", b"2"])


# Errors


@pytest.mark.option("max.request.size")
def test_record_above_max_request_size_fails_in_its_future(broker: ScriptedBroker) -> None:
    with producer(broker, max_request_size=1000) as p:
        future = p.send("t", bytes(2000))
        assert isinstance(future.exception(0), MessageTooLargeError)
        with pytest.raises(MessageTooLargeError, match=r"max\.request\.size"):
            future.get(0)


def test_fatal_produce_error_fails_the_record(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: failure(TopicAuthorizationFailedError.code or 0))
    with producer(broker) as p:
        with pytest.raises(TopicAuthorizationFailedError):
            p.send("t", b"v").get(10)
        assert p.send("t", b"v").get(10).offset == 0


def test_denied_produce_error_has_a_command_with_the_topic(broker: ScriptedBroker) -> None:
    denied = failure(TopicAuthorizationFailedError.code or 0)
    denied.responses[0].partition_responses[0].error_message = "WRITE on TOPIC is required (ottla acls --topic NAME)"
    broker.on(ProduceRequest, lambda _: denied)
    with producer(broker) as p, pytest.raises(TopicAuthorizationFailedError, match=r"acls --topic t\)$"):
        p.send("t", b"v").get(10)


def test_denied_producer_id_error_has_a_command_with_the_topic(broker: ScriptedBroker) -> None:
    denied = InitProducerIdResponse(error_code=ClusterAuthorizationFailedError.code or 0)
    broker.on(InitProducerIdRequest, lambda _: denied)
    with (
        producer(broker) as p,
        pytest.raises(ClusterAuthorizationFailedError, match=r"not write to any topic: .* --producer --topic t \("),
    ):
        p.send("t", b"v").get(10)


def test_retriable_produce_error_is_retried_with_the_same_sequence(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: failure(6), times=2)
    with producer(broker) as p:
        assert p.send("t", b"v").get(10).offset == 0
    sent = [r.topic_data[0].partition_data[0].records for r in broker.requests_of(ProduceRequest)]
    assert len(sent) == 3
    assert len({read_header(data).base_sequence for data in sent}) == 1, "a batch keeps its sequence"


def test_send_is_retried_after_a_lost_connection(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: DROP)
    with producer(broker) as p:
        assert p.send("t", b"v").get(10).offset == 0
    assert values(broker) == [b"v"]


@pytest.mark.option("request.timeout.ms")
def test_send_is_retried_after_request_timeout(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: SILENCE)
    with producer(broker, request_timeout_ms=200) as p:
        assert p.send("t", b"v").get(10).offset == 0


def test_client_waits_longer_than_the_timeout_in_the_produce_request(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = list[tuple[int, float]]()
    send = Channel.send

    def spy(self: Channel, request: Any, version: int, timeout: float) -> Any:
        if isinstance(request, ProduceRequest):
            limits.append((request.timeout_ms, timeout))
        return send(self, request, version, timeout)

    monkeypatch.setattr(Channel, "send", spy)
    for timeout_ms in (30_000, 200):
        with producer(broker, request_timeout_ms=timeout_ms) as p:
            p.send("t", b"v").get(10)
    assert dict(limits) == {30_000: 30.5, 200: pytest.approx(0.3)}  # more than one request, if the machine is slow


@pytest.mark.option("delivery.timeout.ms")
def test_delivery_timeout_ends_retries(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: failure(6), times=1000)
    with producer(broker, request_timeout_ms=100, delivery_timeout_ms=300) as p:
        future = p.send("t", b"v")
        with pytest.raises(KafkaTimeoutError, match=r"not delivered within 0\.3 s.*not the replica"):
            future.get(10)


@pytest.mark.option("retries")
def test_retries_0_fails_at_once(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: failure(6))
    with producer(broker, retries=0) as p:
        assert p.send("t", b"v").exception(10) is not None


def test_batch_rejected_as_too_large_is_split(broker: ScriptedBroker) -> None:
    def reject_large(request: ProduceRequest) -> ProduceResponse | None:
        data = request.topic_data[0].partition_data[0].records
        return failure(10) if data is None or read_header(data).count > 10 else None

    broker.on(ProduceRequest, reject_large, times=1000)
    with producer(broker, linger_ms=60_000) as p:
        futures = [p.send("t", b"%d" % i) for i in range(40)]
        p.flush(10)
        assert [f.get(0).offset for f in futures] == list(range(40))
    assert values(broker) == [b"%d" % i for i in range(40)]


def test_out_of_order_sequence_restarts_sequences_in_the_next_epoch(broker: ScriptedBroker) -> None:
    with producer(broker) as p:
        p.send("t", b"1").get(10)
        broker.on(ProduceRequest, lambda _: failure(OutOfOrderSequenceNumberError.code or 0))
        assert p.send("t", b"2").get(10).offset == 1
    headers = [read_header(batch) for batch in broker.topics["t"][0]]
    assert [(h.producer_epoch, h.base_sequence) for h in headers] == [(0, 0), (1, 0)]


def test_sequences_of_batches_are_consecutive(broker: ScriptedBroker) -> None:
    with producer(broker) as p:
        for i in range(5):
            p.send("t", b"%d" % i).get(10)
    headers = [read_header(batch) for batch in broker.topics["t"][0]]
    assert [(h.producer_id, h.base_sequence) for h in headers] == [(1000, i) for i in range(5)]


@pytest.mark.option("enable.idempotence")
def test_batch_without_idempotence_has_no_producer_id(broker: ScriptedBroker) -> None:
    with producer(broker, enable_idempotence=False, acks=1) as p:
        p.send("t", b"v").get(10)
    assert read_header(broker.topics["t"][0][0]).producer_id == -1


@pytest.mark.option("acks")
def test_send_with_acks_0_completes_without_an_offset(broker: ScriptedBroker) -> None:
    with producer(broker, acks=0) as p:
        assert p.send("t", b"v").get(10).offset == -1
        broker.wait_for(lambda: len(broker.requests_of(ProduceRequest)) == 1)


@pytest.mark.option("max.block.ms")
def test_send_to_a_missing_topic_times_out_with_its_name(broker: ScriptedBroker) -> None:
    with producer(broker, max_block_ms=2000) as p:
        with pytest.raises(KafkaTimeoutError, match="'missing'"):
            p.send("missing", b"v")
        broker.add_topic("missing")
        assert p.send("missing", b"v").get(10).offset == 0


def test_send_to_an_invalid_topic_fails_in_its_future(broker: ScriptedBroker) -> None:
    response = MetadataResponse(topics=[MetadataResponseTopic(error_code=17, name="in/valid")])
    broker.on(MetadataRequest, lambda request: response if "in/valid" in str(request) else None, times=100)
    with producer(broker) as p:
        assert isinstance(p.send("in/valid", b"v").exception(10), InvalidTopicError)


# Memory


@pytest.mark.option("buffer.memory")
def test_send_blocks_until_memory_is_released(broker: ScriptedBroker) -> None:
    gate = threading.Event()
    broker.on(ProduceRequest, lambda _: gate.wait(10) and None)
    with producer(broker, buffer_memory=20_000, batch_size=10_000, max_block_ms=10_000) as p:
        first = [p.send("t", bytes(9_000)) for _ in range(2)]
        threading.Timer(0.1, gate.set).start()
        begin = time.monotonic()
        last = p.send("t", bytes(9_000))
        assert time.monotonic() - begin > 0.05
        assert [f.get(10).offset for f in [*first, last]] == [0, 1, 2]


@pytest.mark.option("buffer.memory", "max.block.ms")
def test_send_without_free_memory_raises_buffer_exhausted(broker: ScriptedBroker) -> None:
    gate = threading.Event()
    broker.on(ProduceRequest, lambda _: gate.wait(10) and None)
    p = producer(broker, buffer_memory=20_000, batch_size=10_000, max_block_ms=1000)
    for _ in range(2):
        p.send("t", bytes(9_000))
    with pytest.raises(BufferExhaustedError, match=r"buffer\.memory is 20000"):
        p.send("t", bytes(9_000))
    gate.set()
    p.close()


# Closing, forks, options


@pytest.mark.usefixtures("no_leaks")
def test_close_leaves_no_thread_and_no_descriptor() -> None:
    with ScriptedBroker() as broker:
        broker.add_topic("t")
        p = producer(broker)
        p.send("t", b"v").get(10)
        p.close()
        p.close()


def test_close_sends_pending_records(broker: ScriptedBroker) -> None:
    p = producer(broker, linger_ms=60_000)
    future = p.send("t", b"v")
    p.close()
    assert future.get(0).offset == 0


def test_close_ends_at_its_timeout_and_fails_pending_records(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: SILENCE, times=10)
    p = producer(broker)
    future = p.send("t", b"v")
    begin = time.monotonic()
    p.close(timeout=0.1)
    assert time.monotonic() - begin < 3
    assert isinstance(future.exception(0), IllegalStateError)


def test_send_of_a_closed_producer_raises_illegal_state(broker: ScriptedBroker) -> None:
    p = producer(broker)
    p.send("t", b"v").get(10)
    p.close()
    with pytest.raises(IllegalStateError, match="closed"):
        p.send("t", b"v")


def test_send_in_a_forked_child_raises_illegal_state(broker: ScriptedBroker) -> None:
    with producer(broker) as p:
        p.send("t", b"v").get(10)
        child = os.fork()
        if child == 0:
            try:
                p.send("t", b"v")
            except IllegalStateError as error:
                p.close(1)
                os._exit(0 if "fork" in str(error) else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert p.send("t", b"v").get(10).offset == 1


def test_ctrl_c_interrupts_a_waiting_send() -> None:
    # A socket that accepts and never responds.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        p = KafkaProducer(bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}", max_block_ms=60_000)
        with ctrl_c(within=5):
            p.send("t", b"v")
        p.close(timeout=0)


@pytest.mark.parametrize("name", ["\ud800", "x" * 32_768])
def test_topic_name_that_cannot_be_encoded_fails_only_its_record(broker: ScriptedBroker, name: str) -> None:
    with producer(broker) as p:
        assert isinstance(p.send(name, b"v").exception(10), InvalidTopicError)
        assert p.send("t", b"v").get(10).offset == 0


def test_invalid_options_are_rejected_with_their_names(broker: ScriptedBroker) -> None:
    with pytest.raises(ConfigurationError, match=r"acks: 'most' is not allowed: expected 0, 1 or all"):
        producer(broker, acks="most")
    with pytest.raises(TypeError, match=r"linger_mss.*linger_ms"):
        producer(broker, linger_mss=1)
    with pytest.raises(ConfigurationError, match=r"enable\.idempotence"):
        producer(broker, acks=1, enable_idempotence=True)


@pytest.mark.option("metadata.fetch.timeout.ms", "timeout.ms", "block.on.buffer.full")
def test_deprecated_options_still_work(broker: ScriptedBroker) -> None:
    with producer(broker, metadata_fetch_timeout_ms=300, timeout_ms=1234) as p:
        with pytest.raises(KafkaTimeoutError, match="missing"):
            p.send("missing", b"v")
        p.send("t", b"v").get(10)
        assert broker.requests_of(ProduceRequest)[0].timeout_ms == 1234
    with producer(broker, block_on_buffer_full=True, metadata_fetch_timeout_ms=50) as p:
        threading.Timer(0.3, broker.add_topic, ("late",)).start()
        assert p.send("late", b"v").get(10).offset == 0


def test_producer_accepts_a_mapping_of_kafka_configs(broker: ScriptedBroker) -> None:
    with KafkaProducer({"bootstrap.servers": broker.address, "acks": "1", "linger.ms": "0"}) as p:
        assert p.config.acks == 1
        assert p.send("t", b"v").get(10).offset == 0


@pytest.mark.option("compression.type")
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed(broker: ScriptedBroker, codec: str) -> None:
    with producer(broker, compression_type=codec, linger_ms=1000) as p:
        for _ in range(50):
            p.send("t", b"the same again " * 20)
        p.flush(10)
    assert len(broker.topics["t"][0][0]) < 3000
    assert values(broker) == [b"the same again " * 20] * 50


def test_records_of_concurrent_threads_arrive_once_and_in_order(broker: ScriptedBroker) -> None:
    futures: list[RecordFuture] = []
    start = threading.Barrier(8)
    with producer(broker, batch_size=1000) as p:

        def send(name: int) -> None:
            start.wait(10)
            futures.extend([p.send("t", b"%d-%d" % (name, i)) for i in range(250)])

        threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        p.flush(20)
    assert sorted(future.get(0).offset for future in futures) == list(range(2000))
    result = values(broker)
    assert len(result) == 2000
    for n in range(8):
        own = [v for v in result if v is not None and v.startswith(b"%d-" % n)]
        assert own == [b"%d-%d" % (n, i) for i in range(250)]
