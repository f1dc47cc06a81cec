"""Keys and values as bytes and back. Kafka's `Serializer`s, each with the Java class that it speaks like."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

from ottla.errors import SerializationError


@runtime_checkable
class Serializer(Protocol):
    """An object that makes bytes; a plain callable `value -> bytes` does as well."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """The bytes of a key or value."""
        ...


@runtime_checkable
class Deserializer(Protocol):
    """An object that makes values of bytes; a plain callable `bytes -> value` does as well."""

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """The key or value."""
        ...


class _Number:
    def __init__(self, kind: str, layout: str, types: tuple[type, ...]) -> None:
        self._kind = kind
        self._struct = struct.Struct(layout)
        self._types = types

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """The number's bytes, the highest first."""
        if value is None:
            return None
        if not isinstance(value, self._types) or isinstance(value, bool):
            raise TypeError(f"a number is wanted, not {type(value).__name__}")
        return self._struct.pack(value)

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """The number."""
        if data is None:
            return None
        if len(data) != self._struct.size:
            raise ValueError(f"{len(data)} bytes where a {self._kind} has {self._struct.size}")
        return self._struct.unpack(data)[0]


class StringSerde:
    """Text as UTF-8."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """The text's bytes."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"a text is wanted, not {type(value).__name__}")
        return value.encode()

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        """The text."""
        return None if data is None else str(data, "utf-8")


class BytesSerde:
    """Bytes as they are."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """The same bytes."""
        if value is None:
            return None
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"bytes are wanted, not {type(value).__name__}")
        return bytes(value)

    def deserialize(self, topic: str, data: bytes | None) -> bytes | None:
        """The same bytes."""
        return data


JAVA: dict[str, Callable[[], Any]] = {
    "String": StringSerde,
    "Integer": lambda: _Number("Integer", ">i", (int,)),
    "Long": lambda: _Number("Long", ">q", (int,)),
    "Short": lambda: _Number("Short", ">h", (int,)),
    "Double": lambda: _Number("Double", ">d", (float, int)),
    "Float": lambda: _Number("Float", ">f", (float, int)),
    "Bytes": BytesSerde,
    "ByteBuffer": BytesSerde,
    "ByteArray": BytesSerde,
}
"""Ours for Java's `org.apache.kafka.common.serialization.<name>Serializer` and `…Deserializer`."""

Convert = Callable[[str, Any], Any]
"""(topic, value) -> value on the other side."""


def find(option: Any, what: str) -> Convert | None:
    """The function for an option key.serializer and its like; None when there is nothing to do.

    `what` is the option's name, for errors. The option may be a callable, a (De)Serializer, a class of one, a name of
    ours ("string", "long") or a Java class.
    """
    if option is None:
        return None
    name = "deserialize" if "deserializer" in what else "serialize"
    if isinstance(option, str):
        option = _by_name(option)
    elif isinstance(option, type) and hasattr(option, name):
        option = option()
    method = getattr(option, name, None)
    call: Convert = method if method is not None else lambda topic, value: option(value)

    def convert(topic: str, value: Any) -> Any:
        try:
            return call(topic, value)
        except Exception as error:  # a user's code: whatever it raises is told with option, topic and type
            raise SerializationError(
                f"{what} {_name(option)} cannot convert a {type(value).__name__} of topic {topic}: {error}"
            ) from error

    return convert


def _by_name(name: str) -> Any:
    short = name.rpartition(".")[2].removesuffix("Serializer").removesuffix("Deserializer")
    found = next((make for known, make in JAVA.items() if known.lower() == short.lower()), None)
    if found is None:
        raise SerializationError(f"{name!r} is not known; there are {', '.join(JAVA)}")
    return found()


def _name(option: Any) -> str:
    return getattr(option, "__name__", type(option).__name__)


def to_bytes(value: Any, what: str) -> bytes | None:
    """Bytes of a value without a serializer: bytes and text are taken."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise SerializationError(
        f"{what} is a {type(value).__name__}, and only bytes, text and None can be sent: {what}_serializer makes them"
    )


def checked_headers(headers: Iterable[Any]) -> list[tuple[str, bytes | None]]:
    """Headers as (text, bytes or None) each; SerializationError for anything else."""
    found: list[tuple[str, bytes | None]] = []
    for header in headers:
        try:
            name, value = header
        except (TypeError, ValueError):
            raise SerializationError(f"a header must be a pair of name and value, not {header!r}") from None
        if not isinstance(name, str) or not (value is None or isinstance(value, (bytes, bytearray, memoryview))):
            raise SerializationError(f"header {name!r}: a text and bytes (or None) are wanted, not {value!r}")
        found.append((name, value if value is None else bytes(value)))
    return found
