"""Decoders turn bytes into keys and messages; a custom one has `from_bytes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Decoder(Protocol):
    """Protocol of decoders. They are called with bytes, never with None."""

    def from_bytes(self, data: bytes) -> Any:
        """Return the key or message."""
        ...


class DefaultDecoder:
    """Returns bytes unchanged."""

    def __init__(self, props: Mapping[str, Any] | None = None) -> None:
        pass

    def from_bytes(self, data: bytes) -> bytes:
        """Return the same bytes."""
        return data


class StringDecoder:
    """Decodes text, in the encoding of the option serializer.encoding (UTF-8)."""

    def __init__(self, props: Mapping[str, Any] | None = None) -> None:
        self.encoding: str = (props or {}).get("serializer.encoding", "UTF8")

    def from_bytes(self, data: bytes) -> str:
        """Return the text."""
        return data.decode(self.encoding)
