"""Encoders convert keys and messages to bytes. A custom encoder needs the method `to_bytes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Encoder(Protocol):
    """The protocol of encoders for serializer.class and key.serializer.class: objects, or classes whose constructors
    take the configs, or no argument.
    """

    def to_bytes(self, value: Any) -> bytes | None:
        """Return the bytes of a key or message; None for null."""
        ...


class DefaultEncoder:
    """An encoder that returns bytes unchanged."""

    def to_bytes(self, value: Any) -> bytes | None:
        """Return a value of type bytes, bytearray or memoryview as bytes; None for None. Raises TypeError for other
        types.
        """
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, (bytearray, memoryview)):
            return bytes(value)
        raise TypeError(f"expected bytes, got {type(value).__name__}")


class StringEncoder:
    """An encoder for str. The config serializer.encoding sets the encoding (default: UTF-8)."""

    def __init__(self, props: Mapping[str, Any] | None = None) -> None:
        self.encoding: str = (props or {}).get("serializer.encoding", "UTF8")

    def to_bytes(self, value: Any) -> bytes | None:
        """Return the encoded str; None for None. Raises TypeError for other types."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"expected a str, got {type(value).__name__}")
        return value.encode(self.encoding)


class NullEncoder:
    """An encoder that returns None for every value."""

    def to_bytes(self, value: Any) -> bytes | None:
        """Return None."""
        return None


ENCODERS: Mapping[str, type[Any]] = {
    "kafka.serializer.DefaultEncoder": DefaultEncoder,
    "kafka.serializer.StringEncoder": StringEncoder,
    "kafka.serializer.NullEncoder": NullEncoder,
}
"""The built-in encoders by their class names in Scala."""
