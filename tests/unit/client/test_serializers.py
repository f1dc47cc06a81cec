from __future__ import annotations

from typing import Any

import pytest

from ottla.client.serializers import find
from ottla.errors import SerializationError


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("String", "größe", "größe".encode()),
        ("Integer", -2, b"\xff\xff\xff\xfe"),
        ("Long", 258, b"\0\0\0\0\0\0\1\2"),
        ("Double", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        ("ByteArray", b"raw", b"raw"),
        ("Bytes", b"raw", b"raw"),
        ("ByteBuffer", b"raw", b"raw"),
    ],
)
def test_javas_serializers_go_by_their_class_names(name: str, value: Any, data: bytes) -> None:
    write = find(f"org.apache.kafka.common.serialization.{name}Serializer", "value_serializer")
    read = find(f"org.apache.kafka.common.serialization.{name}Deserializer", "value_deserializer")
    assert write is not None
    assert read is not None
    assert write("t", value) == data
    assert read("t", data) == value
    assert write("t", None) is None
    assert read("t", None) is None


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(SerializationError, match=r"'Avro'.*String, Integer"):
        find("Avro", "value_serializer")


def test_a_wrong_type_names_option_type_and_topic() -> None:
    write = find("long", "key_serializer")
    assert write is not None
    with pytest.raises(SerializationError, match=r"key_serializer .* str of topic t: a number"):
        write("t", "5")


def test_wrong_bytes_are_told() -> None:
    read = find("integer", "key_deserializer")
    assert read is not None
    with pytest.raises(SerializationError, match="3 bytes"):
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
