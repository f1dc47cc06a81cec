"""Decoders convert bytes to keys and messages. A custom decoder needs the method `from_bytes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Decoder(Protocol):
    """The protocol of decoders. They are not called for null keys and messages."""

    def from_bytes(self, data: bytes) -> Any:
        """Return the key or message for these bytes."""
        ...


class DefaultDecoder:
    """A decoder that returns bytes unchanged."""

    def __init__(self, props: Mapping[str, Any] | None = None) -> None:
        pass

    def from_bytes(self, data: bytes) -> bytes:
        """Return the same bytes."""
        return data


class StringDecoder:
    """A decoder that returns a str. The config serializer.encoding sets the encoding (default: UTF-8)."""

    def __init__(self, props: Mapping[str, Any] | None = None) -> None:
        self.encoding: str = (props or {}).get("serializer.encoding", "UTF8")

    def from_bytes(self, data: bytes) -> str:
        """Return the bytes as a str."""
        return data.decode(self.encoding)
