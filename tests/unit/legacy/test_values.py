"""Values of the 0.8 producer: messages, encoders, partitioners and configs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.errors import ConfigurationError
from ottla.legacy import (
    ByteArrayPartitioner,
    DefaultEncoder,
    DefaultPartitioner,
    KeyedMessage,
    NullEncoder,
    ProducerConfig,
    StringEncoder,
)
from ottla.legacy.producer.partitioner import java_abs, java_hash

BROKERS = {"metadata.broker.list": "a:1,b:2"}


class Plugin:
    def __init__(self, props: Mapping[str, Any]) -> None:
        self.props = props

    def to_bytes(self, value: Any) -> bytes:
        return b"own"

    def partition(self, key: Any, num_partitions: int) -> int:
        return 0


def test_keyed_message_has_three_constructors() -> None:
    assert KeyedMessage("t", "m") == KeyedMessage[Any, Any]("t", None, None, "m")
    assert KeyedMessage("t", "k", "m") == KeyedMessage("t", "k", "k", "m")
    assert KeyedMessage("t", "k", "p", "m") == KeyedMessage[str, str]("t", key="k", part_key="p", message="m")
    assert KeyedMessage("t", "m").partition_key is None
    assert KeyedMessage[str, str]("t", "k", None, "m").partition_key == "k"
    assert KeyedMessage[str, str]("t", None, "p", "m").partition_key == "p"


def test_keyed_message_is_immutable_and_requires_a_topic() -> None:
    with pytest.raises(AttributeError):
        KeyedMessage("t", "m").topic = "u"
    with pytest.raises(ValueError, match="topic"):
        KeyedMessage("", "m")
    with pytest.raises(TypeError):
        KeyedMessage("t", 1, 2, 3, 4)  # type: ignore[call-overload]


def test_encoders_convert_values_to_bytes() -> None:
    assert StringEncoder().to_bytes("é") == b"\xc3\xa9"
    assert StringEncoder({"serializer.encoding": "latin-1"}).to_bytes("é") == b"\xe9"
    assert DefaultEncoder().to_bytes(bytearray(b"x")) == b"x"
    assert NullEncoder().to_bytes("x") is None
    for encoder in (StringEncoder(), DefaultEncoder()):
        assert encoder.to_bytes(None) is None
        with pytest.raises(TypeError):
            encoder.to_bytes(1)


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("", 0),
        ("abc", 96354),
        ("192.168.2.1", 55966934),
        ("\U0001f600", 1772899),
        ("polygenelubricants", -(2**31)),
        (7, 7),
        (-7, -7),
        (2**40, 256),
        (-(2**40) - 5, 260),
        (1.5, 1073217536),
        (True, 1231),
        (b"abc", 126145),
        (b"\xff", 30),
    ],
)
def test_java_hash_equals_javas_hash_code(key: Any, hashed: int) -> None:
    assert java_hash(key) == hashed


def test_java_abs_of_the_smallest_int_is_0() -> None:
    assert java_abs(-(2**31)) == 0
    assert DefaultPartitioner().partition("polygenelubricants", 7) == 0
    assert ByteArrayPartitioner().partition(b"abc", 10) == 5
    with pytest.raises(TypeError):
        ByteArrayPartitioner().partition("abc", 10)


# Configs

DEFAULTS = {
    "request.required.acks": 0,
    "request.timeout.ms": 10_000,
    "producer.type": "sync",
    "serializer.class": DefaultEncoder,
    "key.serializer.class": None,
    "serializer.encoding": "UTF8",
    "partitioner.class": DefaultPartitioner,
    "compression.codec": 0,
    "compressed.topics": (),
    "message.send.max.retries": 3,
    "retry.backoff.ms": 100,
    "topic.metadata.refresh.interval.ms": 600_000,
    "queue.buffering.max.ms": 5_000,
    "queue.buffering.max.messages": 10_000,
    "queue.enqueue.timeout.ms": -1,
    "batch.num.messages": 200,
    "send.buffer.bytes": 102_400,
    "client.id": "",
}


def test_producer_config_has_the_defaults_of_0_8_2() -> None:
    assert ProducerConfig(BROKERS).values == {"metadata.broker.list": (("a", 1), ("b", 2)), **DEFAULTS}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("metadata.broker.list", "a:x"),
        ("request.required.acks", 2),
        ("request.required.acks", "all"),
        ("request.timeout.ms", 0),
        ("producer.type", "both"),
        ("serializer.class", "no.such.Encoder"),
        ("serializer.class", object),
        ("partitioner.class", StringEncoder),
        ("compression.codec", 4),
        ("compression.codec", "zstd"),
        ("message.send.max.retries", -1),
        ("queue.buffering.max.messages", 0),
        ("queue.enqueue.timeout.ms", -2),
        ("batch.num.messages", 10_001),
        ("client.id", "a b"),
    ],
)
def test_invalid_value_is_rejected_with_the_config_name(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=option.replace(".", r"\.")):
        ProducerConfig({**BROKERS, option: value})


def test_metadata_broker_list_is_required() -> None:
    with pytest.raises(ConfigurationError, match=r"metadata\.broker\.list"):
        ProducerConfig({})


def test_unknown_config_is_logged_and_unknown_keyword_raises_type_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ottla.legacy"):
        ProducerConfig({**BROKERS, "zk.connect": "z", "external.thing": "1"})
        assert "zk.connect" in caplog.text
        assert "external" not in caplog.text
    with pytest.raises(TypeError, match="did you mean producer_type"):
        ProducerConfig(BROKERS, producer_typ="sync")


def test_plugin_is_created_with_the_configs_if_it_accepts_them() -> None:
    config = ProducerConfig({**BROKERS, "serializer.class": f"{__name__}.Plugin", "partitioner.class": Plugin, "my": 5})
    assert config.create("serializer.class").props["my"] == 5
    assert config.create("partitioner.class").partition("k", 3) == 0
    plugin = Plugin({})
    assert ProducerConfig({**BROKERS, "serializer.class": plugin}).create("serializer.class") is plugin
    scala = ProducerConfig(
        {**BROKERS, "serializer.class": "kafka.serializer.StringEncoder", "serializer.encoding": "utf-16-be"}
    )
    assert scala.create("serializer.class").to_bytes("a") == b"\0a"
