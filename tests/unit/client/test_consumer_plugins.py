"""Plugins of the consumer: interceptors and deserializers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.client.consuming import TP, batch, consumer, fill, poll_until, read
from tests.unit.client.scripted import ScriptedBroker

from ottla import ConsumerInterceptor, OffsetAndMetadata, TopicPartition
from ottla.errors import RecordDeserializationError, SerializationError


class RecordingInterceptor(ConsumerInterceptor):
    """Records its calls in a list shared by all instances."""

    calls: list[Any] = []

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.calls.append(("configure", configs["group.id"], configs["client.id"]))

    def on_consume(self, records: Any) -> Any:
        self.calls.append(("on_consume", sum(map(len, records.values()))))
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.calls.append(("on_commit", {tp: at.offset for tp, at in offsets.items()}))

    def close(self) -> None:
        self.calls.append(("close",))


class Failing(ConsumerInterceptor):
    def on_consume(self, records: Any) -> Any:
        raise RuntimeError("on_consume")

    def on_commit(self, offsets: Any) -> None:
        raise RuntimeError("on_commit")

    def close(self) -> None:
        raise RuntimeError("close")


class OddOnly(ConsumerInterceptor):
    """Changes what poll() returns."""

    def on_consume(self, records: Any) -> Any:
        return {tp: [r._replace(value=r.value + b"!") for r in rows if r.offset % 2] for tp, rows in records.items()}


@pytest.fixture(autouse=True)
def clear_calls() -> None:
    RecordingInterceptor.calls = []


@pytest.mark.option("interceptor.classes")
def test_interceptors_are_called_in_order_and_their_errors_are_ignored(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker, 10)
    with consumer(
        broker,
        "t",
        group_id="g",
        client_id="me",
        enable_auto_commit=False,
        interceptor_classes=[Failing, RecordingInterceptor],
    ) as c:
        assert len(read(c, 10)) == 10
        c.commit()
        c.commit_async()
        poll_until(c, lambda: len([t for t in RecordingInterceptor.calls if t[0] == "on_commit"]) == 2)
    assert RecordingInterceptor.calls[0] == ("configure", "g", "me")
    assert RecordingInterceptor.calls[1:] == [
        ("on_consume", 10),
        ("on_commit", {TP: 10}),
        ("on_commit", {TP: 10}),
        ("close",),
    ]
    assert "Failing.on_consume" in caplog.text


def test_interceptors_may_change_and_drop_records(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(broker, interceptor_classes=[OddOnly()]) as c:
        c.assign([TP])
        assert [r.value for r in read(c, 5)] == [b"1!", b"3!", b"5!", b"7!", b"9!"]
        assert c.position(TP) == 10
        c.seek(TP, 0)
        assert [next(c).offset for _ in range(5)] == [1, 3, 5, 7, 9]


def test_interceptors_are_called_for_auto_commits(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    with consumer(
        broker, "t", group_id="g", auto_commit_interval_ms=10**6, interceptor_classes=f"{__name__}.RecordingInterceptor"
    ) as c:
        read(c, 10)
    assert ("on_commit", {TP: 10}) in RecordingInterceptor.calls
    assert RecordingInterceptor.calls[-1] == ("close",)


class HeaderDeserializer:
    """A deserializer that receives headers."""

    calls: list[Any] = []

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        self.calls.append(("configure", is_key))

    def deserialize(self, topic: str, headers: list[tuple[str, bytes | None]], data: bytes | None) -> Any:
        return (topic, dict(headers), data)

    def close(self) -> None:
        self.calls.append("close")


@pytest.mark.option("value.deserializer", "key.deserializer")
def test_deserializer_is_configured_and_closed_and_may_receive_headers(broker: ScriptedBroker) -> None:
    HeaderDeserializer.calls = []
    broker.put("t", 0, batch([b"1"]))
    with consumer(broker, value_deserializer=HeaderDeserializer, key_deserializer="string") as c:
        c.assign([TP])
        (record,) = read(c, 1)
    assert record.value == ("t", {"h": b"x"}, b"1")
    assert record.key == "k"
    assert HeaderDeserializer.calls == [("configure", False), "close"]


def test_record_deserialization_error_has_the_record_and_its_offset(
    broker: ScriptedBroker,
) -> None:
    broker.put("t", 0, batch([b"1", b"x", b"3"]))
    with consumer(broker, value_deserializer=int) as c:
        c.assign([TP])
        assert [r.value for r in read(c, 1)] == [1]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError) as raised:
                c.poll(timeout_ms=1000)
        error = raised.value
        assert isinstance(error, SerializationError)
        assert (error.topic_partition, error.offset, error.is_key) == (TP, 1, False)
        assert (error.record.key, error.record.value, error.record.headers) == (b"k", b"x", [("h", b"x")])
        assert error.record.timestamp == 1001
        assert c.position(TP) == 1
        c.seek(error.topic_partition, error.offset + 1)
        assert [r.value for r in read(c, 1)] == [3]


def test_record_deserialization_error_of_a_key_has_is_key_set(broker: ScriptedBroker) -> None:
    broker.put("t", 0, batch([b"1"]))
    with consumer(broker, key_deserializer=int) as c:
        c.assign([TP])
        with pytest.raises(RecordDeserializationError, match="key_deserializer int") as raised:
            read(c, 1)
        assert raised.value.is_key
