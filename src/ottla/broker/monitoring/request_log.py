"""The request log, as in Kafka: a line for each request while the level of the logger `ottla.request` is set to DEBUG.

Requests of a SASL authentication, and those after which the broker closes the connection because of an error, have no
line.

The log is off by default, even with `--log-level debug`, because it has a line for each fetch. Operators set the level
while the broker runs: `ottla configs --entity-type broker-loggers`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable

from ottla.broker.apis import BY_KEY
from ottla.broker.quotas.client_quotas import ANONYMOUS
from ottla.net.server.connection import USER, Connection, Reply
from ottla.protocol.header import RequestHeader

log = logging.getLogger("ottla.request")


def logged(
    reply: Reply | Awaitable[Reply], header: RequestHeader, connection: Connection, size: int, began: float
) -> Reply | Awaitable[Reply]:
    """Return the response of a request, and write the request's line to the log: now, or when the awaited response is
    ready.
    """
    if isinstance(reply, Awaitable):
        return _log_later(reply, header, connection, size, began)
    _log(reply, header, connection, size, began)
    return reply


async def _log_later(
    pending: Awaitable[Reply], header: RequestHeader, connection: Connection, size: int, began: float
) -> Reply:
    try:
        reply = await pending
    except asyncio.CancelledError:
        log.debug("%s", _line(header, connection, size, began, "disconnected"))
        raise
    _log(reply, header, connection, size, began)
    return reply


def _log(reply: Reply, header: RequestHeader, connection: Connection, size: int, began: float) -> None:
    answered = sum(chunk.nbytes if hasattr(chunk, "nbytes") else len(chunk) for chunk in reply or ())
    log.debug("%s", _line(header, connection, size, began, f"response_bytes={answered}"))


def _line(header: RequestHeader, connection: Connection, size: int, began: float, outcome: str) -> str:
    entry = BY_KEY.get(header.api_key)
    name = str(header.api_key) if entry is None else entry.name
    return (
        f"{name} version={header.api_version} correlation_id={header.correlation_id} client_id={header.client_id} "
        f"principal=User:{connection.state.get(USER, ANONYMOUS)} peer={connection.peer} "
        f"listener={connection.listener.name} request_bytes={size} {outcome} "
        f"time_ms={(time.perf_counter() - began) * 1000:.2f}"
    )
