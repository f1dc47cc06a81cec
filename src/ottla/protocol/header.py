"""The headers before each request and response.

The version of a header follows from the message: flexible requests have header 2 and flexible responses header 1,
with tagged fields; others have 1 and 0. Two exceptions: ControlledShutdown 0 has request header 0, without a client
id, and ApiVersions always has response header 0.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from ottla.errors import MalformedMessageError
from ottla.protocol.apis import BY_KEY
from ottla.protocol.codegen import malformed
from ottla.protocol.wire import read_uvarint

API_VERSIONS: Final = 18
CONTROLLED_SHUTDOWN: Final = 7
MAX_TAGS: Final = 1000
"""The maximum number of tagged fields of a header; Kafka has none."""

_FIXED = struct.Struct(">hhi")
_WITH_CLIENT_ID = struct.Struct(">hhih")


class RequestHeader(NamedTuple):
    """The header of a request. The response carries the same correlation id."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def is_flexible(api_key: int, version: int) -> bool:
    """Return whether this version of an API is flexible; an unknown API is not."""
    api = BY_KEY.get(api_key)
    return api is not None and api.flexible is not None and version >= api.flexible


def decode_request_header(buffer: bytes | bytearray | memoryview) -> tuple[RequestHeader, int]:
    """Return the header and the position of the request behind it.

    Raises MalformedMessageError if the bytes end too early or are not a valid header.
    """
    buf = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    try:
        key, version, correlation_id = _FIXED.unpack_from(buf, 0)
        if (key, version) == (CONTROLLED_SHUTDOWN, 0):
            return RequestHeader(key, version, correlation_id, None), 8
        key, version, correlation_id, length = _WITH_CLIENT_ID.unpack_from(buf, 0)
        client_id, pos = None, 10
        if length >= 0:
            pos += length
            if pos > len(buf):
                raise malformed("client id")
            client_id = str(buf[10:pos], "utf-8")
        if is_flexible(key, version):
            pos = skip_tags(buf, pos)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessageError(f"request header: {error}") from error
    return RequestHeader(key, version, correlation_id, client_id), pos


def encode_request_header(
    out: bytearray, api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> None:
    """Append the header of a request."""
    if (api_key, api_version) == (CONTROLLED_SHUTDOWN, 0):
        out += _FIXED.pack(api_key, api_version, correlation_id)
        return
    raw = None if client_id is None else client_id.encode()
    out += _WITH_CLIENT_ID.pack(api_key, api_version, correlation_id, -1 if raw is None else len(raw))
    if raw:
        out += raw
    if is_flexible(api_key, api_version):
        out.append(0)


def decode_response_header(buffer: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """Return the correlation id of a response, and the position of the response behind the header.

    Raises MalformedMessageError if the bytes end too early or are not a valid header.
    """
    try:
        correlation_id = int.from_bytes(buffer[:4], "big", signed=True)
        if len(buffer) < 4:
            raise malformed("response header")
        if api_key != API_VERSIONS and is_flexible(api_key, api_version):
            return correlation_id, skip_tags(buffer, 4)
    except IndexError as error:
        raise MalformedMessageError(f"response header: {error}") from error
    return correlation_id, 4


def encode_response_header(out: bytearray, api_key: int, api_version: int, correlation_id: int) -> None:
    """Append the header of a response."""
    out += correlation_id.to_bytes(4, "big", signed=True)
    if api_key != API_VERSIONS and is_flexible(api_key, api_version):
        out.append(0)


def response_header_size(api_key: int, api_version: int) -> int:
    """Return the number of bytes that `encode_response_header` writes."""
    return 5 if api_key != API_VERSIONS and is_flexible(api_key, api_version) else 4


def skip_tags(buf: memoryview, pos: int) -> int:
    """Return the position after a section of unknown tagged fields. Raises MalformedMessageError or IndexError if
    the section is malformed or cut off.
    """
    count, pos = read_uvarint(buf, pos)
    if count > MAX_TAGS or count * 2 > len(buf) - pos:
        raise malformed("tagged fields")
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > len(buf):
            raise malformed("tagged fields")
    return pos
