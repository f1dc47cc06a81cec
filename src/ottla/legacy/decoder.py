"""Decoders make keys and messages of bytes; an own one has `from_bytes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Decoder(Protocol):
    """What a consumer's streams are made with. Called with bytes, never with None."""

    def from_bytes(self, data: bytes) -> Any:
        """The key or message."""
        ...


class DefaultDecoder:
    """Bytes as they are."""

    def __init__(self, props: Mapping[str, Any] | None = None) -> None:
        pass

    def from_bytes(self, data: bytes) -> bytes:
        """The same bytes."""
        return data


class StringDecoder:
    """Text, in the encoding of the option serializer.encoding (UTF-8)."""

    def __init__(self, props: Mapping[str, Any] | None = None) -> None:
        self.encoding: str = (props or {}).get("serializer.encoding", "UTF8")

    def from_bytes(self, data: bytes) -> str:
        """The text."""
        return data.decode(self.encoding)
