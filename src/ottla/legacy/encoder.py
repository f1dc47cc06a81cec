"""Encoders turn keys and messages into bytes; a custom one has `to_bytes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Encoder(Protocol):
    """Protocol of what serializer.class and key.serializer.class name. A class is called with the configs, or without
    arguments.
    """

    def to_bytes(self, value: Any) -> bytes | None:
        """Return a key or message as bytes."""
        ...


class DefaultEncoder:
    """Returns bytes unchanged."""

    def to_bytes(self, value: Any) -> bytes | None:
        """Return the same bytes."""
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, (bytearray, memoryview)):
            return bytes(value)
        raise TypeError(f"expected bytes, got {type(value).__name__}")


class StringEncoder:
    """Encodes text, in the encoding of the option serializer.encoding (UTF-8)."""

    def __init__(self, props: Mapping[str, Any] | None = None) -> None:
        self.encoding: str = (props or {}).get("serializer.encoding", "UTF8")

    def to_bytes(self, value: Any) -> bytes | None:
        """Return the encoded text."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"expected a str, got {type(value).__name__}")
        return value.encode(self.encoding)


class NullEncoder:
    """Encodes everything as None."""

    def to_bytes(self, value: Any) -> bytes | None:
        """Return None."""
        return None


ENCODERS: Mapping[str, type[Any]] = {
    "kafka.serializer.DefaultEncoder": DefaultEncoder,
    "kafka.serializer.StringEncoder": StringEncoder,
    "kafka.serializer.NullEncoder": NullEncoder,
}
"""Built-in encoders by their names in Scala."""
