"""Plugins of the producer: interceptors, serializers and partitioners."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.scripted import SILENCE, ScriptedBroker

from ottla import KafkaProducer, ProducerRecord
from ottla.client.producer.interceptors import ProducerInterceptor
from ottla.clock import ManualClock
from ottla.errors import (
    BufferExhaustedError,
    IllegalStateError,
    KafkaTimeoutError,
    MessageTooLargeError,
    SerializationError,
    TopicAuthorizationFailedError,
)
from ottla.model import RecordMetadata
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.records.decoder import records


class Interceptor(ProducerInterceptor):
    """Appends "!" to values and records its calls."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def configure(self, configs: Any) -> None:
        self.seen.append(("configure", configs["client.id"]))

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        if record.value == b"bad":
            raise ValueError("the interceptor's own")
        return record._replace(value=record.value + b"!") if isinstance(record.value, bytes) else record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.seen.append((metadata.topic, metadata.partition, metadata.offset, type(error)))

    def on_send_error(self, record: ProducerRecord, error: BaseException) -> None:
        self.seen.append((record.topic, type(error)))

    def close(self) -> None:
        self.seen.append("close")


class WithHeaders:
    """Receives the headers of KIP-512."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None, headers: Any) -> None:
        self.seen.append((metadata.offset, type(error), headers))


class Short:
    """Has only the methods from before on_send_error."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.seen.append((metadata.partition, metadata.offset, type(error)))


def producer(broker: ScriptedBroker, *interceptors: Any, **options: Any) -> KafkaProducer:
    settings: dict[str, Any] = {"linger_ms": 0, "client_id": "me", "interceptor_classes": list(interceptors)}
    return KafkaProducer(bootstrap_servers=broker.address, **{**settings, **options})


def failure(code: int) -> ProduceResponse:
    response = PartitionProduceResponse(index=0, error_code=code, base_offset=-1)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[response])])


@pytest.mark.option("interceptor.classes")
def test_interceptors_change_records_and_get_their_results(broker: ScriptedBroker) -> None:
    one, two = Interceptor(), Interceptor()
    with producer(broker, one, two) as p:
        p.send("t", b"v").get(10)
        p.send("t", b"bad").get(10)
    assert [r.value for batch in broker.topics["t"][0] for r in records(batch)] == [b"v!!", b"bad"]
    outcomes = [("t", 0, 0, type(None)), ("t", 0, 1, type(None))]
    assert one.seen == two.seen == [("configure", "me"), *outcomes, "close"]


def test_errors_of_an_interceptor_are_logged_and_ignored(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def _fail(self, *args: Any) -> Any:
            raise RuntimeError("broken")

        on_send = on_acknowledgement = on_send_error = close = _fail

    last = Interceptor()
    with producer(broker, Broken, last) as p:
        assert p.send("t", b"v").get(10).offset == 0
        assert isinstance(p.send("t", bytes(2_000_000)).exception(10), MessageTooLargeError)
    assert last.seen[1:] == [("t", 0, 0, type(None)), ("t", MessageTooLargeError), "close"]
    assert {record.message for record in caplog.records} >= {
        f"Interceptor Broken.{method} raised an exception, which is ignored"
        for method in ("on_send", "on_acknowledgement", "on_send_error", "close")
    }


def test_interceptors_are_called_for_records_that_fail_before_a_batch(broker: ScriptedBroker) -> None:
    one, short = Interceptor(), Short()
    broker.on(ProduceRequest, lambda _: SILENCE, times=100)
    p = producer(broker, one, short, max_block_ms=1000, buffer_memory=1000, batch_size=900, max_request_size=1000)
    with pytest.raises(SerializationError):
        p.send("t", {})
    with pytest.raises(KafkaTimeoutError):
        p.send("missing", b"v")
    p.send("t", bytes(2000))
    p.send("t", bytes(800))
    with pytest.raises(BufferExhaustedError):
        p.send("t", bytes(800))
    p.close(timeout=0)
    with pytest.raises(IllegalStateError):
        p.send("t", b"v", partition=3)
    assert [seen for seen in one.seen[1:] if len(seen) == 2] == [
        ("t", SerializationError),
        ("missing", KafkaTimeoutError),
        ("t", MessageTooLargeError),
        ("t", BufferExhaustedError),
        ("t", IllegalStateError),
    ]
    errors = [SerializationError, KafkaTimeoutError, MessageTooLargeError, BufferExhaustedError]
    assert [seen for seen in short.seen if seen[0] == -1] == [(-1, -1, error) for error in errors]
    assert short.seen[-2:] == [(0, -1, IllegalStateError), (3, -1, IllegalStateError)]


def test_interceptors_are_called_for_records_that_fail_in_a_batch(broker: ScriptedBroker) -> None:
    one = Interceptor()
    clock = ManualClock()
    with producer(broker, one, clock=clock) as p:
        broker.on(ProduceRequest, lambda _: failure(29))
        p.send("t", b"refused").exception(10)
        broker.on(ProduceRequest, lambda _: SILENCE, times=100)
        expired = p.send("t", b"expired")
        broker.wait_for(lambda: len(broker.requests_of(ProduceRequest)) == 2)
        clock.advance(120_000)
        expired.exception(10)
        p.close(timeout=0)
    assert one.seen[1:] == [
        ("t", 0, -1, TopicAuthorizationFailedError),
        ("t", 0, -1, KafkaTimeoutError),
        "close",
    ]


def test_interceptor_class_is_instantiated_once(broker: ScriptedBroker) -> None:
    instances: list[Any] = []

    class Counted:
        def __init__(self) -> None:
            instances.append(self)

    with producer(broker, Counted) as p:
        for _ in range(3):
            p.send("t", b"v").get(10)
    assert len(instances) == 1


def test_serializer_is_configured_and_closed_and_may_add_headers(broker: ScriptedBroker) -> None:
    seen: list[Any] = []

    class Typed:
        def configure(self, configs: Any, is_key: bool) -> None:
            seen.append((configs["client.id"], is_key))

        def serialize(self, topic: str, headers: list[Any], value: Any) -> bytes:
            headers.append((type(value).__name__, b"1"))
            return str(value).encode()

        def close(self) -> None:
            seen.append("closed")

    with producer(broker, key_serializer=Typed, value_serializer=Typed) as p:
        p.send("t", 5, key="k", headers=[("own", b"0")]).get(10)
        p.send("t", 6).get(10)
    first, second = [r for batch in broker.topics["t"][0] for r in records(batch)]
    assert first.headers == [("own", b"0"), ("str", b"1"), ("int", b"1")]
    assert second.headers == [("NoneType", b"1"), ("int", b"1")]
    assert seen == [("me", True), ("me", False), "closed", "closed"]


@pytest.mark.option(
    "serializer.encoding",
    "key.serializer.encoding",
    "value.serializer.encoding",
    "default.list.key.serde.inner",
    "default.list.value.serde.inner",
)
def test_serializers_use_their_own_options(broker: ScriptedBroker) -> None:
    with producer(broker, value_serializer="string", key_serializer="string", serializer_encoding="latin-1") as p:
        p.send("t", "ö", key="ö").get(10)
    both = {"key_serializer_encoding": "utf-16-be", "value_serializer_encoding": "latin-1"}
    with producer(broker, value_serializer="string", key_serializer="string", **both) as p:
        p.send("t", "ö", key="ö").get(10)
    inner = {"default_list_key_serde_inner": "short", "default_list_value_serde_inner": "string"}
    with producer(broker, value_serializer="list", key_serializer="list", **inner) as p:
        p.send("t", ["a"], key=[1]).get(10)
    result = [(r.key, r.value) for batch in broker.topics["t"][0] for r in records(batch)]
    assert result == [
        (b"\xf6", b"\xf6"),
        (b"\0\xf6", b"\xf6"),
        (b"\0\0\0\0\0\0\0\0\1\0\1", b"\1\0\0\0\1\0\0\0\1a"),
    ]


def test_user_partitioner_is_called_for_new_batches(broker: ScriptedBroker) -> None:
    class Sticky:
        turn = 0

        def partition(self, topic: str, key: Any, partitions: list[int]) -> int:
            return partitions[self.turn % len(partitions)]

        def on_new_batch(self, topic: str, cluster: Any, previous: int) -> None:
            assert previous == self.turn % 3
            self.turn += 1

    broker.add_topic("many", 3)
    with producer(broker, partitioner=Sticky, batch_size=1000, linger_ms=60_000) as p:
        futures = [p.send("many", bytes(250)) for _ in range(7)]
        p.flush(10)
        assert [f.get(0).partition for f in futures] == [1, 1, 1, 2, 2, 2, 0]


def test_on_acknowledgement_with_a_third_parameter_receives_the_headers(broker: ScriptedBroker) -> None:
    interceptor = WithHeaders()
    with producer(broker, interceptor) as p:
        p.send("t", b"v", headers=[("a", b"1")]).get(10)
        with pytest.raises(MessageTooLargeError):
            p.send("t", bytes(2_000_000), headers=[("b", b"2")]).get(10)
    assert interceptor.seen == [(0, type(None), [("a", b"1")]), (-1, MessageTooLargeError, [("b", b"2")])]
