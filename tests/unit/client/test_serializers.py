"""Serializers and deserializers by name, class, object or function."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla import serializers
from ottla.client.serializers import find
from ottla.errors import ConfigurationError, SerializationError
from ottla.serializers import SERDES


@pytest.mark.parametrize("name", ["long", "org.apache.kafka.common.serialization.LongSerializer"])
def test_serializer_may_be_named_by_ottlas_or_javas_name(name: str) -> None:
    write = find(name, "value_serializer")
    read = find(name.replace("Serializer", "Deserializer"), "value_deserializer")
    assert write is not None
    assert read is not None
    assert write("t", 258) == b"\0\0\0\0\0\0\1\2"
    assert read("t", b"\0\0\0\0\0\0\1\2") == 258


def test_unknown_name_is_rejected_with_the_valid_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"value_serializer: 'Avro'.*String, Integer"):
        find("Avro", "value_serializer")


def test_value_of_a_wrong_type_raises_an_error_with_option_and_type() -> None:
    write = find("long", "key_serializer")
    assert write is not None
    with pytest.raises(
        SerializationError,
        match=r"key_serializer LongSerializer .*: expected an int of 64 bits, not str",
    ):
        write("t", "5")


@pytest.mark.parametrize("kind", ["Serializer", "Deserializer"])
@pytest.mark.parametrize("name", SERDES)
def test_serializer_looked_up_by_name_has_kafkas_class_name(name: str, kind: str) -> None:
    for spelled in (name, name.lower(), f"org.apache.kafka.common.serialization.{name}{kind}"):
        converter = find(spelled, f"value_{kind.lower()}", {"default.list.value.serde.inner": "long"})
        assert converter is None or converter.name == f"{name}{kind}"
        cls = getattr(serializers, f"{name}{kind}")
        assert getattr(ottla, f"{name}{kind}") is cls
        result = find(cls, f"value_{kind.lower()}", {"default.list.value.serde.inner": "long"})
        assert (result is None) == (converter is None)
    assert converter is not None or kind == "Deserializer"


def test_bytes_of_a_wrong_length_raise_serialization_error() -> None:
    read = find("integer", "key_deserializer")
    assert read is not None
    with pytest.raises(SerializationError, match="IntegerDeserializer .* expected 4 bytes, got 3"):
        read("t", b"abc")


def test_serializer_may_be_a_class_an_object_or_a_function() -> None:
    class Upper:
        def serialize(self, topic: str, value: str) -> bytes:
            return f"{topic}:{value}".upper().encode()

    for option in (Upper, Upper()):
        write = find(option, "value_serializer")
        assert write is not None
        assert write("t", "v") == b"T:V"
    read = find(int, "value_deserializer")
    assert read is not None
    assert read("t", b"12") == 12
    assert find(None, "value_serializer") is None


@pytest.mark.parametrize("name", ["ByteArray", "org.apache.kafka.common.serialization.ByteArrayDeserializer"])
def test_byte_array_needs_no_deserializer_and_accepts_only_bytes(name: str) -> None:
    assert find(name, "value_deserializer") is None
    write = find(name.replace("Deserializer", "Serializer"), "value_serializer")
    assert write is not None
    with pytest.raises(SerializationError, match="expected bytes"):
        write("t", "text, which goes without a serializer")


def test_serializer_may_be_a_dotted_python_name() -> None:
    write = find("json.dumps", "value_serializer")
    assert write is not None
    assert write("t", [1]) == "[1]"


class WithHeaders:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def configure(self, configs: Any, is_key: bool) -> None:
        self.seen.append((configs["acks"], is_key))

    def serialize(self, topic: str, headers: list[tuple[str, bytes | None]], value: str) -> bytes:
        headers.append(("type", b"text"))
        return value.encode()

    def close(self) -> None:
        self.seen.append("closed")


def test_serializer_is_configured_and_closed_and_may_add_headers() -> None:
    serializer = WithHeaders()
    write = find(serializer, "key_serializer", {"acks": "all"})
    assert write is not None
    headers: list[tuple[str, bytes | None]] = []
    assert write("t", "v", headers) == b"v"
    assert headers == [("type", b"text")]
    write.close()
    assert serializer.seen == [("all", True), "closed"]


def test_deserializer_may_receive_headers() -> None:
    class Reader:
        def deserialize(self, topic: str, headers: Any, data: bytes) -> Any:
            return (dict(headers), data)

    read = find(Reader, "value_deserializer")
    assert read is not None
    assert read("t", b"v", [("a", b"1")]) == ({"a": b"1"}, b"v")
