"""Encoders make bytes of keys and messages; an own one has `to_bytes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Encoder(Protocol):
    """What serializer.class and key.serializer.class name. The class is called with the options, or with nothing."""

    def to_bytes(self, value: Any) -> bytes | None:
        """The bytes of a key or message."""
        ...


class DefaultEncoder:
    """Bytes as they are."""

    def to_bytes(self, value: Any) -> bytes | None:
        """The same bytes."""
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, (bytearray, memoryview)):
            return bytes(value)
        raise TypeError(f"bytes are wanted, not {type(value).__name__}")


class StringEncoder:
    """Text, in the encoding of the option serializer.encoding (UTF-8)."""

    def __init__(self, props: Mapping[str, Any] | None = None) -> None:
        self.encoding: str = (props or {}).get("serializer.encoding", "UTF8")

    def to_bytes(self, value: Any) -> bytes | None:
        """The text's bytes."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"expected a str, got {type(value).__name__}")
        return value.encode(self.encoding)


class NullEncoder:
    """Nothing, whatever is given."""

    def to_bytes(self, value: Any) -> bytes | None:
        """None."""
        return None


ENCODERS: Mapping[str, type[Any]] = {
    "kafka.serializer.DefaultEncoder": DefaultEncoder,
    "kafka.serializer.StringEncoder": StringEncoder,
    "kafka.serializer.NullEncoder": NullEncoder,
}
"""Scala's names."""
