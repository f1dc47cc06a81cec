"""Data with its version in 2 bytes before it: how members of a group talk, and how coordinators keep state."""

from __future__ import annotations

from typing import TypeVar

from ottla.errors import MalformedMessageError
from ottla.protocol.message import Data, decode, encode

D = TypeVar("D", bound=Data)


def encode_versioned(message: Data, version: int, prefix: int | None = None) -> bytes:
    """The bytes of a message behind its version, or behind another number where `prefix` is given (record keys)."""
    out = bytearray((version if prefix is None else prefix).to_bytes(2, "big"))
    return bytes(encode(message, version, out))


def version_of(data: bytes | memoryview) -> int:
    """The number that the bytes begin with."""
    if len(data) < 2:
        raise MalformedMessageError("the bytes are too short for a version")
    return int.from_bytes(data[:2], "big", signed=True)


def decode_versioned(cls: type[D], data: bytes | memoryview) -> D:
    """The message. A newer version than ours is read as our newest: what it adds stands behind and is left alone."""
    version = version_of(data)
    if version < cls.VERSIONS.start:
        raise MalformedMessageError(f"{cls.NAME or cls.__name__}: version {version} is not valid")
    return decode(cls, data, min(version, cls.VERSIONS.stop - 1), 2)
