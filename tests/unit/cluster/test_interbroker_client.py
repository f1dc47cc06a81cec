"""Inter-broker connections: sharing, reconnects, timeouts and the choice of the listener."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage
from ottla.cluster.interbroker.client import InterBrokerClient
from ottla.config.broker.listener_config import Endpoint
from ottla.errors import BrokerConnectionError, BrokerNotAvailableError, NetworkError, RequestTimedOutError
from ottla.protocol.header import decode_request_header
from ottla.protocol.message import encode
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class Broker:
    """A broker on a free port. It responds to heartbeats with the number of the connection if `may_respond` is set."""

    def __init__(self) -> None:
        self.connections = 0
        self.may_respond = asyncio.Event()
        self.may_respond.set()
        self.received = asyncio.Event()
        self.port = 0
        self.client_ids: set[str | None] = set()
        self.writers: list[asyncio.StreamWriter] = []
        self.serving: set[asyncio.Task[None] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.serving.add(asyncio.current_task())
        number = self.connections
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                header, _ = decode_request_header(await reader.readexactly(size))
                self.client_ids.add(header.client_id)
                self.received.set()
                await self.may_respond.wait()
                body = header.correlation_id.to_bytes(4, "big") + encode(HeartbeatResponse(error_code=number), 1)
                writer.write(len(body).to_bytes(4, "big") + body)
        writer.close()

    def disconnect(self) -> None:
        for writer in self.writers:
            writer.close()
        self.writers.clear()

    def image(self, *names: str) -> BrokerImage:
        return BrokerImage(1, tuple(Endpoint(name, "127.0.0.1", self.port) for name in names or ("PLAINTEXT",)))


@contextlib.asynccontextmanager
async def serve_broker() -> AsyncIterator[Broker]:
    broker = Broker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.port = server.sockets[0].getsockname()[1]
    try:
        yield broker
    finally:
        broker.may_respond.set()
        server.close()
        broker.disconnect()
        await asyncio.gather(*filter(None, broker.serving))
        await server.wait_closed()


@contextlib.asynccontextmanager
async def interbroker_client(
    brokers: dict[int, BrokerImage], listener: str | None = None, protocol: str = "PLAINTEXT"
) -> AsyncIterator[InterBrokerClient]:
    interbroker = InterBrokerClient(brokers.get, listener, "broker-9", protocol=protocol)
    try:
        yield interbroker
    finally:
        interbroker.close()


async def beat(interbroker: InterBrokerClient, *, purpose: str = "", timeout: float = 5) -> int:
    """Send a heartbeat to broker 1. Return the number of the connection."""
    return (await interbroker.send(1, HeartbeatRequest(), 1, timeout=timeout, purpose=purpose)).error_code


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def test_concurrent_requests_share_one_connection() -> None:
    async def test() -> None:
        async with serve_broker() as broker, interbroker_client({1: broker.image()}) as interbroker:
            assert await asyncio.gather(*[beat(interbroker) for _ in range(20)]) == [1] * 20
            assert await beat(interbroker) == 1
            assert broker.client_ids == {"broker-9"}

    run(test)


def test_request_on_an_open_connection_is_sent_at_once_without_a_task() -> None:
    async def test() -> None:
        async with serve_broker() as broker, interbroker_client({1: broker.image()}) as interbroker:
            await beat(interbroker)
            response = interbroker.send(1, HeartbeatRequest(), 1, timeout=5)
            assert isinstance(response, asyncio.Future)
            assert not isinstance(response, asyncio.Task)
            assert (await response).error_code == 1

    run(test)


def test_long_request_of_one_purpose_does_not_delay_others() -> None:
    async def test() -> None:
        async with serve_broker() as broker, interbroker_client({1: broker.image()}) as interbroker:
            broker.may_respond.clear()
            slow = asyncio.create_task(beat(interbroker, purpose="fetcher"))
            await broker.received.wait()
            broker.received.clear()
            quick = asyncio.create_task(beat(interbroker, purpose="markers"))
            await broker.received.wait()
            broker.may_respond.set()
            assert {await slow, await quick} == {1, 2}

    run(test)


def test_lost_connection_is_opened_again() -> None:
    async def test() -> None:
        async with serve_broker() as broker, interbroker_client({1: broker.image()}) as interbroker:
            broker.may_respond.clear()
            waiting = asyncio.create_task(beat(interbroker))
            await broker.received.wait()
            broker.disconnect()
            with pytest.raises(NetworkError):
                await waiting
            broker.may_respond.set()
            assert await beat(interbroker) == 2

    run(test)


def test_send_to_a_broker_that_has_moved_connects_to_its_new_address() -> None:
    async def test() -> None:
        async with serve_broker() as old, serve_broker() as new:
            brokers = {1: old.image()}
            async with interbroker_client(brokers) as interbroker:
                await beat(interbroker)
                brokers[1] = new.image()
                await beat(interbroker)
                assert (old.connections, new.connections) == (1, 1)

    run(test)


def test_send_to_a_dead_broker_raises_broker_not_available() -> None:
    async def test() -> None:
        async with serve_broker() as broker:
            brokers = {1: broker.image()}
            async with interbroker_client(brokers) as interbroker:
                broker.may_respond.clear()
                waiting = asyncio.create_task(beat(interbroker))
                await broker.received.wait()
                del brokers[1]
                with pytest.raises(BrokerNotAvailableError, match="broker 1"):
                    await beat(interbroker)
                with pytest.raises(NetworkError):  # its connections are closed
                    await waiting

    run(test)


def test_requests_to_a_removed_or_moved_broker_fail_at_once() -> None:
    async def test() -> None:
        async with serve_broker() as broker, serve_broker() as elsewhere:
            for after in ({}, {1: elsewhere.image()}):
                brokers = {1: broker.image()}
                async with interbroker_client(brokers) as interbroker:
                    broker.may_respond.clear()
                    broker.received.clear()
                    waiting = asyncio.create_task(beat(interbroker))
                    await broker.received.wait()
                    image = ClusterImage("c")
                    await interbroker.on_image_changed(image, image)
                    assert not waiting.done(), "nothing has changed"
                    brokers.clear()
                    brokers.update(after)
                    await interbroker.on_image_changed(image, image)
                    with pytest.raises(NetworkError):
                        await waiting

    run(test)


def test_send_after_a_timeout_opens_a_new_connection() -> None:
    async def test() -> None:
        async with serve_broker() as broker, interbroker_client({1: broker.image()}) as interbroker:
            broker.may_respond.clear()
            with pytest.raises(RequestTimedOutError):
                await beat(interbroker, timeout=0.05)
            broker.may_respond.set()
            assert await beat(interbroker) == 2

    run(test)


def test_send_to_a_closed_port_raises_connection_error() -> None:
    async def test() -> None:
        async with serve_broker() as broker:
            image = broker.image()
        async with interbroker_client({1: image}) as interbroker:
            results = await asyncio.gather(*[beat(interbroker) for _ in range(3)], return_exceptions=True)
            assert [type(result) for result in results] == [BrokerConnectionError] * 3

    run(test)


def test_cancelled_connect_is_continued_by_the_next_request() -> None:
    async def test() -> None:
        async with serve_broker() as broker, interbroker_client({1: broker.image()}) as interbroker:
            first, second = asyncio.create_task(beat(interbroker)), asyncio.create_task(beat(interbroker))
            await asyncio.sleep(0)
            first.cancel()
            assert await second == broker.connections

    run(test)


def test_close_fails_pending_and_later_requests() -> None:
    async def test() -> None:
        async with serve_broker() as broker, interbroker_client({1: broker.image()}) as interbroker:
            broker.may_respond.clear()
            waiting = asyncio.create_task(beat(interbroker))
            await broker.received.wait()
            connecting = asyncio.create_task(beat(interbroker, purpose="other"))
            await asyncio.sleep(0)
            interbroker.close()
            for pending in waiting, connecting, asyncio.create_task(beat(interbroker)):
                with pytest.raises((NetworkError, BrokerNotAvailableError)):
                    await pending

    run(test)


@pytest.mark.parametrize(
    ("listener", "protocol", "expected"),
    [
        ("BETWEEN", "SASL_PLAINTEXT", "BETWEEN"),
        (None, "SSL", "SECURE"),
        (None, "PLAINTEXT", "PLAIN"),
        ("ELSEWHERE", "SSL", "SECURE"),
    ],
)
def test_connect_uses_the_inter_broker_listener_or_its_protocol(
    listener: str | None, protocol: str, expected: str
) -> None:
    async def test() -> None:
        async with serve_broker() as broker:
            names = {"SECURE": "SSL", "PLAIN": "PLAINTEXT", "BETWEEN": "SASL_PLAINTEXT"}
            endpoints = tuple(
                Endpoint(name, "127.0.0.1", broker.port if name == expected else 1, security_protocol)
                for name, security_protocol in names.items()
            )
            async with interbroker_client({1: BrokerImage(1, endpoints)}, listener, protocol) as interbroker:
                assert await beat(interbroker) == 1

    run(test)


def test_connect_without_a_listener_of_the_protocol_raises_broker_not_available() -> None:
    async def test() -> None:
        async with serve_broker() as broker, interbroker_client({1: broker.image()}, protocol="SSL") as interbroker:
            with pytest.raises(BrokerNotAvailableError, match="broker 1 has neither a listener SSL"):
                await beat(interbroker)
            assert broker.connections == 0

    run(test)
