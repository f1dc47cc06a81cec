"""Scripted brokers for tests of channels."""

from __future__ import annotations

import asyncio
import contextlib

from ottla.protocol.header import decode_request_header
from ottla.protocol.message import encode
from ottla.protocol.messages.heartbeat import HeartbeatResponse


async def receive(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def heartbeat_response(correlation_id: int, error_code: int = 0) -> bytes:
    body = correlation_id.to_bytes(4, "big", signed=True) + encode(HeartbeatResponse(error_code=error_code), 1)
    return len(body).to_bytes(4, "big") + body


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with its correlation id as the error code."""
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            header, _ = decode_request_header(await receive(reader))
            writer.write(heartbeat_response(header.correlation_id, header.correlation_id))
    writer.close()
