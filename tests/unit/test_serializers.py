"""Serializers compatible with Java's. The expected bytes are those of the Java classes."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ConfigurationError
from ottla.serializers import ListSerde, serde_named

UUID = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("String", "größe", b"gr\xc3\xb6\xc3\x9fe"),
        ("Integer", -2, b"\xff\xff\xff\xfe"),
        ("Long", 258, b"\0\0\0\0\0\0\1\2"),
        ("Short", -2, b"\xff\xfe"),
        ("Double", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        ("Double", -0.0, b"\x80\0\0\0\0\0\0\0"),
        ("Float", 1.5, b"\x3f\xc0\0\0"),
        ("Boolean", True, b"\1"),
        ("Boolean", False, b"\0"),
        ("Bytes", b"raw", b"raw"),
        ("ByteBuffer", b"raw", b"raw"),
        ("ByteArray", b"", b""),
        ("UUID", UUID, b"123e4567-e89b-12d3-a456-426614174000"),
        ("Json", {"a": [1, None, "ö"]}, '{"a":[1,null,"ö"]}'.encode()),
    ],
)
def test_values_are_serialized_and_deserialized_as_in_java(name: str, value: Any, data: bytes) -> None:
    for class_name in (name, f"org.apache.kafka.common.serialization.{name}Serializer", f"x.Serdes${name}Serde"):
        serde = serde_named(class_name)
        assert serde.serialize("t", value) == data
        assert serde.deserialize("t", data) == value
        assert serde.serialize("t", None) is None
        assert serde.deserialize("t", None) is None


@pytest.mark.parametrize(
    ("inner", "value", "data"),
    [
        # Fixed size: kind 0, the indexes of None, the count, the values.
        ("integer", [1, None, 2], b"\0\0\0\0\1\0\0\0\1\0\0\0\3\0\0\0\1\0\0\0\2"),
        ("short", [], b"\0\0\0\0\0\0\0\0\0"),
        ("UUID", [UUID], b"\0\0\0\0\0\0\0\0\1" + str(UUID).encode()),
        # Others: kind 1, the count, each with its size, -1 for None.
        ("string", ["ab", None, ""], b"\1\0\0\0\3\0\0\0\2ab\xff\xff\xff\xff\0\0\0\0"),
        ("boolean", [True], b"\1\0\0\0\1\0\0\0\1\1"),
    ],
)
def test_lists_are_serialized_and_deserialized_as_in_java(inner: str, value: list[Any], data: bytes) -> None:
    serde = ListSerde(inner)
    assert serde.serialize("t", value) == data
    assert serde.deserialize("t", data) == value


@given(st.lists(st.none() | st.text()), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_serialized_list_is_deserialized_to_the_same_list(texts: list[str | None], numbers: list[int | None]) -> None:
    for inner, value in (("string", texts), ("long", numbers)):
        serde = ListSerde(inner)
        assert serde.deserialize("t", serde.serialize("t", value)) == value


@given(st.sampled_from(["string", "long", "integer"]), st.binary())
def test_bytes_that_are_not_a_list_are_rejected(inner: str, data: bytes) -> None:
    try:
        actual = ListSerde(inner).deserialize("t", data)
    except ValueError:
        return
    assert len(actual) <= len(data)


def test_list_serde_takes_its_inner_type_from_the_configs() -> None:
    for is_key, option in ((True, "default.list.key.serde.inner"), (False, "default.list.value.serde.inner")):
        serde = serde_named("list")
        serde.configure({option: "org.apache.kafka.common.serialization.Serdes$LongSerde"}, is_key)
        assert serde.deserialize("t", serde.serialize("t", [5])) == [5]
    with pytest.raises(ConfigurationError, match=r"default\.list\.value\.serde\.inner is required"):
        serde_named("list").configure({}, False)


@pytest.mark.parametrize(
    ("configs", "is_key", "data"),
    [
        ({}, False, b"\xc3\xb6"),
        ({"serializer.encoding": "latin-1"}, False, b"\xf6"),
        ({"serializer.encoding": "latin-1", "value.serializer.encoding": "utf-16-be"}, False, b"\0\xf6"),
        ({"serializer.encoding": "latin-1", "value.serializer.encoding": "utf-16-be"}, True, b"\xf6"),
        ({"key.deserializer.encoding": "latin-1"}, True, b"\xf6"),
    ],
)
def test_string_serde_uses_the_configured_encoding(configs: dict[str, str], is_key: bool, data: bytes) -> None:
    serde = serde_named("string")
    serde.configure(configs, is_key)
    assert serde.serialize("t", "ö") == data
    assert serde.deserialize("t", data) == "ö"


def test_unknown_encoding_is_reported_with_its_config() -> None:
    with pytest.raises(ConfigurationError, match=r"serializer\.encoding: 'klingon'"):
        serde_named("string").configure({"serializer.encoding": "klingon"}, False)


@pytest.mark.parametrize(
    ("name", "value"), [("string", 5), ("long", "5"), ("integer", True), ("short", 40_000), ("uuid", "x"), ("void", 1)]
)
def test_value_of_another_type_is_rejected(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="expected"):
        serde_named(name).serialize("t", value)


@pytest.mark.parametrize(("name", "data"), [("long", b"1234"), ("boolean", b"\2"), ("void", b""), ("uuid", b"x")])
def test_bytes_of_another_type_are_rejected(name: str, data: bytes) -> None:
    with pytest.raises(ValueError, match="expected 8 bytes|expected the byte|expected no value|UUID"):
        serde_named(name).deserialize("t", data)
