from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla import serializers
from ottla.client.serializers import find
from ottla.errors import SerializationError
from ottla.serializers import SERDES


@pytest.mark.parametrize("name", ["long", "org.apache.kafka.common.serialization.LongSerializer"])
def test_types_go_by_names_of_ours_and_javas(name: str) -> None:
    write = find(name, "value_serializer")
    read = find(name.replace("Serializer", "Deserializer"), "value_deserializer")
    assert write is not None
    assert read is not None
    assert write("t", 258) == b"\0\0\0\0\0\0\1\2"
    assert read("t", b"\0\0\0\0\0\0\1\2") == 258


def test_an_unknown_name_is_reported_with_the_known_ones() -> None:
    with pytest.raises(SerializationError, match=r"value_serializer: 'Avro'.*String, Integer"):
        find("Avro", "value_serializer")


def test_a_wrong_type_names_option_type_and_topic() -> None:
    write = find("long", "key_serializer")
    assert write is not None
    with pytest.raises(
        SerializationError,
        match=r"key_serializer LongSerializer .*: expected an int of 64 bits, not str",
    ):
        write("t", "5")


@pytest.mark.parametrize("kind", ["Serializer", "Deserializer"])
@pytest.mark.parametrize("name", SERDES)
def test_serializer_found_by_name_calls_itself_by_kafkas_class_name(name: str, kind: str) -> None:
    for spelled in (name, name.lower(), f"org.apache.kafka.common.serialization.{name}{kind}"):
        converter = find(spelled, f"value_{kind.lower()}", {"default.list.value.serde.inner": "long"})
        assert converter is None or converter.name == f"{name}{kind}"
        cls = getattr(serializers, f"{name}{kind}")
        assert getattr(ottla, f"{name}{kind}") is cls
        result = find(cls, f"value_{kind.lower()}", {"default.list.value.serde.inner": "long"})
        assert (result is None) == (converter is None)
    assert converter is not None or kind == "Deserializer"


def test_wrong_bytes_are_reported() -> None:
    read = find("integer", "key_deserializer")
    assert read is not None
    with pytest.raises(SerializationError, match="IntegerDeserializer .* expected 4 bytes, got 3"):
        read("t", b"abc")


def test_classes_objects_and_functions_do() -> None:
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
def test_bytes_as_they_are_need_no_call_each(name: str) -> None:
    assert find(name, "value_deserializer") is None
    write = find(name.replace("Deserializer", "Serializer"), "value_serializer")
    assert write is not None
    with pytest.raises(SerializationError, match="expected bytes"):
        write("t", "text, which goes without a serializer")


def test_dotted_names_of_python_do() -> None:
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


def test_a_serializer_may_see_headers_and_is_configured_and_closed() -> None:
    mine = WithHeaders()
    write = find(mine, "key_serializer", {"acks": "all"})
    assert write is not None
    headers: list[tuple[str, bytes | None]] = []
    assert write("t", "v", headers) == b"v"
    assert headers == [("type", b"text")]
    write.close()
    assert mine.seen == [("all", True), "closed"]


def test_a_deserializer_may_see_headers() -> None:
    class Reader:
        def deserialize(self, topic: str, headers: Any, data: bytes) -> Any:
            return (dict(headers), data)

    read = find(Reader, "value_deserializer")
    assert read is not None
    assert read("t", b"v", [("a", b"1")]) == ({"a": b"1"}, b"v")
