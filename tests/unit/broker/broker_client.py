"""A broker without sockets: requests go to its dispatch as frames, and responses are decoded."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from ottla.broker.dispatch import Dispatch
from ottla.broker.server.broker_node import BrokerNode
from ottla.cluster.interbroker.membership_proof import MEMBER
from ottla.config.broker.broker_config import BrokerConfig
from ottla.net.server.connection import Connection
from ottla.protocol.header import decode_response_header, encode_request_header
from ottla.protocol.message import Request, Response, decode, encode
from ottla.records.builder import BatchBuilder

R = TypeVar("R", bound=Response)
SECONDS = 20
ALLOCATED_IDS = 1_000_000
"""Tests use producer ids below this as if they were allocated."""
SECRET = b"of this cluster " * 2


class BrokerClient:
    """A client of one broker."""

    def __init__(self, node: BrokerNode) -> None:
        assert node._context is not None
        self.node = node
        self.context = node._context
        self.context.producer_ids.end = ALLOCATED_IDS
        self._dispatch = Dispatch(self.context)
        listener = SimpleNamespace(name="PLAINTEXT")
        self.connection: Any = SimpleNamespace(
            peer="127.0.0.1:5000",
            listener=listener,
            state={},
            throttle=self._throttle,
            release_frame=lambda: None,
            on_close=[],
        )
        self.client_id = "tester"
        self.throttled_seconds = 0.0

    def as_broker(self) -> BrokerClient:
        """Return a client that is another broker of the cluster, authenticated by its proof."""
        broker = BrokerClient(self.node)
        broker.join_cluster()
        broker.connection.state = {**self.connection.state, MEMBER: True}
        return broker

    def join_cluster(self) -> None:
        """Make the broker a member of a cluster, which has a secret."""
        self.context = replace(self.context, cluster_secret=SECRET)
        self._dispatch = Dispatch(self.context)

    def _throttle(self, seconds: float) -> None:
        self.throttled_seconds = seconds

    def send(self, request: Request[R], version: int) -> Any:
        """Dispatch a request, and return the response in pieces, or an awaitable of it."""
        return self.dispatch(self.frame(request, version))

    def frame(self, request: Request[Any], version: int) -> bytearray:
        """Return the frame of a request."""
        frame = bytearray()
        encode_request_header(frame, request.API_KEY, version, 7, self.client_id)
        return encode(request, version, frame)

    def dispatch(self, frame: bytearray) -> Any:
        """Dispatch a frame, and return the response in pieces, or an awaitable of it."""
        connection: Connection = self.connection
        return self._dispatch(memoryview(frame), connection)

    async def request(self, request: Request[R], version: int) -> R:
        """Send a request, and return the decoded response."""
        response = self.send(request, version)
        if isinstance(response, Awaitable):
            response = await asyncio.wait_for(response, SECONDS)
        data = b"".join(
            chunk if isinstance(chunk, (bytes, bytearray, memoryview)) else chunk.read() for chunk in response
        )
        assert struct.unpack_from(">i", data)[0] == len(data) - 4
        body = memoryview(data)[4:]
        correlation_id, pos = decode_response_header(body, request.API_KEY, version)
        assert correlation_id == 7
        return decode(type(request).RESPONSE, body, version, pos)  # type: ignore[return-value]


def with_broker(
    test: Callable[[BrokerClient], Coroutine[Any, Any, None]], data: Path, *, seconds: float = SECONDS, **options: Any
) -> None:
    """Run a test against a broker with these configs (`num_partitions=3`)."""
    configs = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(data),
        "group.initial.rebalance.delay.ms": 0,
        # with Kafka's 50, most tests would mostly create files
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        "share.coordinator.state.topic.num.partitions": 3,
        **{k.replace("_", "."): v for k, v in options.items()},
    }

    async def run() -> None:
        async with BrokerNode(BrokerConfig(configs)) as node:
            await asyncio.wait_for(test(BrokerClient(node)), seconds)

    asyncio.run(run())


def batch(*values: bytes, timestamp: int | None = None, key: bytes | None = b"k", **close: Any) -> bytearray:
    """Return a record batch."""
    import time

    builder = BatchBuilder(bytearray(200 * len(values) + sum(map(len, values)) + 100))
    for value in values:
        builder.append(timestamp if timestamp is not None else time.time_ns() // 1_000_000, key, value)
    return bytearray(builder.close(**close))
