"""The 0.8 producer: retries, metadata refreshes, sticky partitions, the queue and closing."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.client.conftest import descriptors
from tests.unit.client.scripted import DROP, SILENCE, ScriptedBroker
from tests.unit.legacy.conftest import led_by, produce_response, sent_messages

from ottla.clock import ManualClock
from ottla.errors import IllegalStateError, RequestTimedOutError, SerializationError
from ottla.legacy import (
    DefaultEventHandler,
    DefaultPartitioner,
    FailedToSendMessageError,
    FailedToSendMessageException,
    KeyedMessage,
    Producer,
    ProducerClosedError,
    ProducerConfig,
    ProducerPool,
    QueueFullError,
    QueueFullException,
    StringEncoder,
    SyncProducer,
)
from ottla.legacy.consumer.consumer_fetcher import ConsumerFetcherThread
from ottla.legacy.producer.producer_send_thread import ProducerSendThread
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest


class LastPartPartitioner:
    """Chooses the partition by the number after the last dot."""

    def partition(self, key: Any, num_partitions: int) -> int:
        return int(str(key).rpartition(".")[2]) % num_partitions


def config(broker: ScriptedBroker, **options: Any) -> ProducerConfig:
    options = {
        "serializer_class": "kafka.serializer.StringEncoder",
        "partitioner_class": LastPartPartitioner,
        "request_required_acks": 1,
        "retry_backoff_ms": 0,
        "request_timeout_ms": 5000,
        **options,
    }
    return ProducerConfig(metadata_broker_list=broker.address, **options)


@pytest.fixture
def no_leaks() -> Iterator[None]:
    threads, files = set(threading.enumerate()), descriptors()
    yield
    assert not [t for t in set(threading.enumerate()) - threads if t.name.startswith("ProducerSend")]
    deadline = time.monotonic() + 2
    while descriptors() > files and time.monotonic() < deadline:
        time.sleep(0.01)  # the scripted broker, in the same process, may close its side later
    assert descriptors() <= files


def test_message_is_sent_with_magic_0_to_the_partition_of_the_partitioner(broker: ScriptedBroker) -> None:
    with Producer[str, str](config(broker)) as producer:
        producer.send(KeyedMessage("t", "a.4", "value"))
    assert sent_messages(broker) == [(1, [(b"a.4", b"value")])]
    assert [h.api_version for h in broker.headers] == [0, 0]
    (request,) = broker.requests_of(ProduceRequest)
    assert request.topic_data[0].partition_data[0].records[16] == 0


def test_part_key_chooses_the_partition_and_the_key_is_stored(broker: ScriptedBroker) -> None:
    with Producer[str, str](config(broker)) as producer:
        producer.send(KeyedMessage("t", "a.4", "b.2", "value"))
    assert sent_messages(broker) == [(2, [(b"a.4", b"value")])]


def test_messages_without_a_key_stick_to_one_partition_until_metadata_is_refreshed(broker: ScriptedBroker) -> None:
    partitions = set()
    for _ in range(40):
        with Producer[str, str](config(broker, topic_metadata_refresh_interval_ms=-1)) as producer:
            for _ in range(3):
                producer.send(KeyedMessage("t", "v"))
        chosen = {partition for partition, _ in sent_messages(broker)[-3:]}
        assert len(chosen) == 1
        partitions |= chosen
        if partitions == {0, 1, 2}:
            return
    raise AssertionError(f"only {partitions} were ever chosen")


def test_sticky_partition_is_reset_with_each_refresh(broker: ScriptedBroker) -> None:
    with Producer[str, str](config(broker, topic_metadata_refresh_interval_ms=0)) as producer:
        for _ in range(60):
            producer.send(KeyedMessage("t", "v"))
            if {partition for partition, _ in sent_messages(broker)} == {0, 1, 2}:
                return
    raise AssertionError("the partition never changed")


def test_only_failed_partitions_are_retried(broker: ScriptedBroker) -> None:
    broker._scripts.clear()
    broker.on(ProduceRequest, lambda request: produce_response(request, {1: 6}))
    broker.on(ProduceRequest, lambda request: produce_response(request, {}), times=10)
    with Producer[str, str](config(broker)) as producer:
        producer.send([KeyedMessage("t", f"k.{i}", f"v{i}") for i in range(3)])
    assert len(broker.requests_of(ProduceRequest)) == 2
    assert sorted(sent_messages(broker)[:3]) == [(i, [(b"k.%d" % i, b"v%d" % i)]) for i in range(3)]
    assert sent_messages(broker)[3:] == [(1, [(b"k.1", b"v1")])]
    assert len(broker.requests_of(MetadataRequest)) == 2


def test_send_fails_after_all_retries(broker: ScriptedBroker, no_leaks: None) -> None:
    broker._scripts.clear()
    broker.on(ProduceRequest, lambda request: produce_response(request, {1: 7}), times=10)
    with Producer[str, str](config(broker, message_send_max_retries=2)) as producer:
        with pytest.raises(FailedToSendMessageError, match="after 2 attempts: 1 of 2"):
            producer.send(KeyedMessage("t", "k.1", "v"), KeyedMessage("t", "k.2", "v"))
    assert len(broker.requests_of(ProduceRequest)) == 3
    assert FailedToSendMessageException is FailedToSendMessageError


def test_send_backs_off_between_retries(broker: ScriptedBroker) -> None:
    broker._scripts.clear()
    broker.on(ProduceRequest, lambda request: produce_response(request, {1: 7}), times=10)
    with Producer[str, str](config(broker, message_send_max_retries=2, retry_backoff_ms=60)) as producer:
        begin = time.monotonic()
        with pytest.raises(FailedToSendMessageError):
            producer.send(KeyedMessage("t", "k.1", "v"))
        assert time.monotonic() - begin >= 0.18


def test_partition_missing_in_the_response_is_retried(broker: ScriptedBroker) -> None:
    broker._scripts.clear()
    broker.on(ProduceRequest, lambda request: type(request).RESPONSE(responses=[]))
    broker.on(ProduceRequest, lambda request: produce_response(request, {}))
    with Producer[str, str](config(broker)) as producer:
        producer.send(KeyedMessage("t", "k.1", "v"))
    assert len(sent_messages(broker)) == 2


def test_lost_connection_is_reopened_and_messages_are_sent_again(broker: ScriptedBroker) -> None:
    broker._scripts.clear()
    broker.on(ProduceRequest, lambda _: DROP)
    broker.on(ProduceRequest, lambda request: produce_response(request, {}))
    with Producer[str, str](config(broker)) as producer:
        producer.send(KeyedMessage("t", "k.1", "v"))
    assert len(sent_messages(broker)) == 2


def test_send_to_a_silent_broker_waits_at_most_request_timeout_ms(broker: ScriptedBroker) -> None:
    broker._scripts.clear()
    broker.on(ProduceRequest, lambda _: SILENCE, times=10)
    with Producer[str, str](config(broker, request_timeout_ms=100, message_send_max_retries=1)) as producer:
        begin = time.monotonic()
        with pytest.raises(FailedToSendMessageError):
            producer.send(KeyedMessage("t", "k.1", "v"))
        assert 0.2 <= time.monotonic() - begin < 2


def test_partition_without_a_leader_is_retried_while_others_are_sent(broker: ScriptedBroker) -> None:
    broker.on(MetadataRequest, led_by(broker, None), times=2)
    broker.on(MetadataRequest, led_by(broker, broker), times=10)
    with Producer[str, str](config(broker)) as producer:
        producer.send(KeyedMessage("t", "k.0", "v"), KeyedMessage("t", "k.1", "v"))
    assert [partition for partition, _ in sent_messages(broker)] == [0, 1]


def test_metadata_refresh_switches_to_the_new_leader_and_reopens_connections(broker: ScriptedBroker) -> None:
    with ScriptedBroker() as other:
        other.on(ProduceRequest, lambda request: produce_response(request, {}), times=10)
        broker.on(MetadataRequest, led_by(broker, broker), times=1)
        broker.on(MetadataRequest, led_by(broker, other), times=10)
        clock = ManualClock()
        producer_config = config(broker, topic_metadata_refresh_interval_ms=1000)
        handler = DefaultEventHandler(
            producer_config,
            LastPartPartitioner(),
            StringEncoder(),
            StringEncoder(),
            ProducerPool(producer_config),
            clock,
        )
        with Producer[str, str](producer_config, handler) as producer:
            producer.send(KeyedMessage("t", "k.1", "before"))
            clock.advance(1000)
            producer.send(KeyedMessage("t", "k.1", "not yet older than the interval"))
            connections = broker.connections
            assert connections == 2  # one for metadata, which is closed, and one to the leader
            clock.advance(1)
            producer.send(KeyedMessage("t", "k.1", "moved"), KeyedMessage("t", "k.0", "stayed"))
            assert broker.connections == connections + 2
        assert [messages for _, messages in sent_messages(other)] == [[(b"k.1", b"moved")]]
        assert len(sent_messages(broker)) == 3


def test_metadata_is_requested_from_the_next_broker_if_one_is_unreachable(broker: ScriptedBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = closed.getsockname()[1]
    addresses = f"127.0.0.1:{dead},{broker.address}"
    for _ in range(5):
        options = ProducerConfig({"metadata.broker.list": addresses, "request.required.acks": "1"})
        with Producer[bytes, bytes](options) as producer:
            producer.send(KeyedMessage("t", b"v"))


def test_send_without_a_reachable_broker_fails(no_leaks: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = closed.getsockname()[1]
    options = ProducerConfig(metadata_broker_list=f"127.0.0.1:{dead}", retry_backoff_ms=0, message_send_max_retries=1)
    with Producer[bytes, bytes](options) as producer, pytest.raises(FailedToSendMessageError):
        producer.send(KeyedMessage("t", b"v"))


def test_send_with_acks_0_waits_for_no_response(broker: ScriptedBroker) -> None:
    broker._scripts.clear()
    broker.on(ProduceRequest, lambda _: SILENCE, times=10)
    with Producer[str, str](config(broker, request_required_acks=0)) as producer:
        for number in range(5):
            producer.send(KeyedMessage("t", f"k.{number}", "v"))
        broker.wait_for(lambda: len(broker.requests_of(ProduceRequest)) == 5)
    assert {request.acks for request in broker.requests_of(ProduceRequest)} == {0}


@pytest.mark.parametrize("acks", [1, -1])
def test_produce_request_has_acks_and_timeout(broker: ScriptedBroker, acks: int) -> None:
    with Producer[str, str](config(broker, request_required_acks=acks, request_timeout_ms=1234)) as producer:
        producer.send(KeyedMessage("t", "k.1", "v"))
    (request,) = broker.requests_of(ProduceRequest)
    assert (request.acks, request.timeout_ms) == (acks, 1234)


@pytest.mark.parametrize(("codec", "number"), [("gzip", 1), ("2", 2), (3, 3)])
def test_only_compressed_topics_are_compressed(broker: ScriptedBroker, codec: Any, number: int) -> None:
    broker.add_topic("plain", 1)
    with Producer[str, str](config(broker, compression_codec=codec, compressed_topics="t,u")) as producer:
        producer.send([KeyedMessage("t", "k.1", "v" * 50), KeyedMessage("plain", "k.0", "w")])
    attributes = {
        topic.name: topic.partition_data[0].records[17]
        for request in broker.requests_of(ProduceRequest)
        for topic in request.topic_data
    }
    assert attributes == {"t": number, "plain": 0}
    assert sorted(sent_messages(broker)) == [(0, [(b"k.0", b"w")]), (1, [(b"k.1", b"v" * 50)])]


def test_value_of_a_wrong_type_fails_before_anything_is_sent(broker: ScriptedBroker) -> None:
    with Producer[str, Any](config(broker)) as producer:
        with pytest.raises(SerializationError, match="StringEncoder cannot encode a int of topic t"):
            producer.send(KeyedMessage("t", "k.1", "v"), KeyedMessage("t", "k.1", 3))
    assert not sent_messages(broker)


def test_invalid_partition_of_the_partitioner_fails_after_the_retries(broker: ScriptedBroker) -> None:
    class Wrong:
        def partition(self, key: Any, num_partitions: int) -> int:
            return num_partitions

    with Producer[str, str](config(broker, partitioner_class=Wrong, message_send_max_retries=1)) as producer:
        with pytest.raises(FailedToSendMessageError):
            producer.send(KeyedMessage("t", "k", "v"))


# The queue


def test_async_batch_is_sent_when_it_is_full(broker: ScriptedBroker) -> None:
    options = config(broker, producer_type="async", batch_num_messages=3, queue_buffering_max_ms=600_000)
    with Producer[str, str](options) as producer:
        for number in range(7):
            producer.send(KeyedMessage("t", "k.1", str(number)))
        broker.wait_for(lambda: len(sent_messages(broker)) == 2)
        assert [len(messages) for _, messages in sent_messages(broker)] == [3, 3]
    assert [len(messages) for _, messages in sent_messages(broker)] == [3, 3, 1]


def test_async_batch_is_sent_after_queue_buffering_max_ms(broker: ScriptedBroker) -> None:
    options = config(broker, producer_type="async", queue_buffering_max_ms=20)
    with Producer[str, str](options) as producer:
        producer.send(KeyedMessage("t", "k.1", "v"))
        broker.wait_for(lambda: len(sent_messages(broker)) == 1)


@pytest.mark.parametrize("limit", [0, 50])
def test_full_queue_raises_queue_full_after_queue_enqueue_timeout_ms(broker: ScriptedBroker, limit: int) -> None:
    gate = threading.Event()
    broker._scripts.clear()
    broker.on(ProduceRequest, lambda request: (gate.wait(10), produce_response(request, {}))[1], times=20)
    options = config(
        broker,
        producer_type="async",
        batch_num_messages=1,
        queue_buffering_max_messages=2,
        queue_enqueue_timeout_ms=limit,
    )
    with Producer[str, str](options) as producer:
        producer.send(KeyedMessage("t", "k.1", "v"))
        broker.wait_for(lambda: bool(broker.requests_of(MetadataRequest)))
        begin = time.monotonic()
        with pytest.raises(QueueFullError):
            for _ in range(5):
                producer.send(KeyedMessage("t", "k.1", "v"))
        assert limit / 1000 <= time.monotonic() - begin < 2
        gate.set()
    assert QueueFullException is QueueFullError


def test_full_queue_without_a_timeout_blocks_the_send(broker: ScriptedBroker) -> None:
    options = config(broker, producer_type="async", batch_num_messages=2, queue_buffering_max_messages=2)
    with Producer[str, str](options) as producer:
        for number in range(50):
            producer.send(KeyedMessage("t", "k.1", str(number)))
    assert [value for _, messages in sent_messages(broker) for _, value in messages] == [b"%d" % n for n in range(50)]


def test_close_sends_queued_messages(broker: ScriptedBroker, no_leaks: None) -> None:
    options = config(broker, producer_type="async", queue_buffering_max_ms=600_000)
    producer = Producer[str, str](options)
    producer.send([KeyedMessage("t", "k.1", str(number)) for number in range(10)])
    producer.close()
    producer.close()
    assert len(sent_messages(broker)[0][1]) == 10
    with pytest.raises(ProducerClosedError):
        producer.send(KeyedMessage("t", "k.1", "v"))


def test_no_retry_is_logged_when_the_producer_is_closed_during_a_send(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    class ClosingPartitioner:
        def partition(self, key: Any, num_partitions: int) -> int:
            handler.close()
            raise AssertionError

    handler = DefaultEventHandler.create(config(broker, partitioner_class=ClosingPartitioner()))
    caplog.set_level("INFO", "ottla.legacy")
    with pytest.raises(FailedToSendMessageError):
        handler.handle([KeyedMessage("t", "a.1", "value")])
    assert [record.getMessage() for record in caplog.records] == [
        "Could not choose the partition of a message to t; retrying if message.send.max.retries allows it: "
        "AssertionError"
    ]


def test_close_ends_at_its_timeout_and_leaves_no_threads_and_descriptors(
    broker: ScriptedBroker, no_leaks: None
) -> None:
    broker._scripts.clear()
    broker.on(ProduceRequest, lambda _: SILENCE, times=1000)
    options = config(broker, producer_type="async", batch_num_messages=1, queue_buffering_max_messages=2)
    producer = Producer[str, str](options)
    blocked = threading.Thread(target=lambda: _send_until_closed(producer))
    blocked.start()
    broker.wait_for(lambda: bool(broker.requests_of(ProduceRequest)))
    begin = time.monotonic()
    producer.close(timeout=0.1)
    blocked.join(5)
    assert not blocked.is_alive()
    assert time.monotonic() - begin < 1


def _send_until_closed(producer: Producer[str, str]) -> None:
    try:
        while True:
            producer.send(KeyedMessage("t", "k.1", "v"))
    except ProducerClosedError:
        pass


def test_failed_async_batch_does_not_stop_the_send_thread(broker: ScriptedBroker) -> None:
    broker._scripts.clear()
    broker.on(ProduceRequest, lambda request: produce_response(request, {1: 7}))
    broker.on(ProduceRequest, lambda request: produce_response(request, {}), times=10)
    options = config(broker, producer_type="async", batch_num_messages=1, message_send_max_retries=0)
    with Producer[Any, Any](options) as producer:
        producer.send(KeyedMessage("t", "k.1", "fails"))
        producer.send(KeyedMessage("t", "k.1", 5))
        producer.send(KeyedMessage("t", "k.1", "arrives"))
    assert [messages[0][1] for _, messages in sent_messages(broker)] == [b"fails", b"arrives"]


@pytest.mark.parametrize("operation", ["sync send", "full queue", "close"])
def test_ctrl_c_interrupts_send_and_close(broker: ScriptedBroker, no_leaks: None, operation: str) -> None:
    broker._scripts.clear()
    broker.on(ProduceRequest, lambda _: SILENCE, times=1000)
    kind = "sync" if operation == "sync send" else "async"
    options = config(
        broker,
        producer_type=kind,
        batch_num_messages=1,
        queue_buffering_max_messages=2,
        request_timeout_ms=60_000,
    )
    producer = Producer[str, str](options)
    main = threading.get_ident()
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        producer.send(KeyedMessage("t", "k.1", "v"))
        if operation == "full queue":
            _send_until_closed(producer)
        producer.close()
    producer.close(timeout=0)
    timer.join()
    assert time.monotonic() - begin < 1.2


def test_send_in_a_forked_child_raises_illegal_state(broker: ScriptedBroker) -> None:
    options = config(broker, producer_type="async", batch_num_messages=1, queue_buffering_max_messages=1)
    with Producer[str, str](options) as producer:
        child = os.fork()
        if child == 0:
            try:
                producer.send(KeyedMessage("t", "k.1", "v"))
            except IllegalStateError:
                producer.close()  # does not wait for the thread, which the child lacks
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        producer.send(KeyedMessage("t", "k.1", "v"))
    assert len(sent_messages(broker)) == 1


def test_request_after_a_timeout_uses_a_new_connection(broker: ScriptedBroker) -> None:
    broker.on(MetadataRequest, lambda _: SILENCE)
    producer = SyncProducer(broker.host, broker.port, config(broker, request_timeout_ms=50))
    request = MetadataRequest(topics=[])
    with pytest.raises(RequestTimedOutError):
        producer.request(request)
    # A late response to the first request would not match.
    assert producer.request(request).topics == producer.request(request).topics
    assert broker.connections == 2
    producer.close()
    with pytest.raises(IllegalStateError):
        producer.request(request)


def test_threads_share_a_producer(broker: ScriptedBroker) -> None:
    with Producer[str, str](config(broker)) as producer:

        def work(name: str) -> None:
            for number in range(20):
                producer.send(KeyedMessage("t", "k.1", f"{name}{number}"))

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    values = [value.decode() for _, messages in sent_messages(broker) for _, value in messages if value]
    assert len(values) == 80
    for name in "abcd":
        assert [v for v in values if v[0] == name] == [f"{name}{number}" for number in range(20)]


def test_default_partitioner_uses_javas_hash() -> None:
    assert DefaultPartitioner().partition("192.168.2.1", 5) == 4


@pytest.mark.parametrize("thread", [ProducerSendThread, ConsumerFetcherThread])
def test_thread_subclass_overrides_no_attribute_of_threading_thread(thread: type[threading.Thread]) -> None:
    """Threads of Python 3.13 need their attribute `_handle` to start."""
    own = {*vars(threading.Thread()), "_handle", "_os_thread_handle", "_context"}
    assert own.isdisjoint(thread.__init__.__code__.co_names)
