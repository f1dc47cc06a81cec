"""Data with its version in 2 bytes before it: messages between members of a group, and records of coordinators."""

from __future__ import annotations

from typing import TypeVar

from ottla.errors import MalformedMessageError
from ottla.protocol.message import Data, decode, encode

D = TypeVar("D", bound=Data)


def encode_versioned(message: Data, version: int, prefix: int | None = None) -> bytes:
    """Encode a message after 2 bytes with its version, or with `prefix` if that is not None, as in record keys."""
    out = bytearray((version if prefix is None else prefix).to_bytes(2, "big"))
    return bytes(encode(message, version, out))


def version_of(data: bytes | memoryview) -> int:
    """Return the version that the bytes begin with. Raises MalformedMessageError if they are too short."""
    if len(data) < 2:
        raise MalformedMessageError("the bytes are too short for a version")
    return int.from_bytes(data[:2], "big", signed=True)


def decode_versioned(cls: type[D], data: bytes | memoryview) -> D:
    """Decode the message. If its version is newer than the declared ones, decode it as the newest declared version.

    The fields that the newer version has added at the end are ignored. Raises MalformedMessageError if
    the version is older than the declared ones, or the bytes do not form the message.
    """
    version = version_of(data)
    if version < cls.VERSIONS.start:
        raise MalformedMessageError(f"{cls.NAME or cls.__name__}: version {version} is not valid")
    return decode(cls, data, min(version, cls.VERSIONS.stop - 1), 2)
