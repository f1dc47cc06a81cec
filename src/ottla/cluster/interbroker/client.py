"""Connections to other brokers, opened when needed. Kafka's `BrokerBlockingSender` and `InterBrokerSendThread`.

There is one connection per broker and purpose, because a broker handles one request of a connection at a time, and some
requests wait for long. The caller determines the request version; versions are not negotiated. Nothing is retried here:
the caller knows whether and when that makes sense.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage
from ottla.cluster.interbroker.membership_proof import prove
from ottla.config.broker.listener_config import Endpoint
from ottla.errors import BrokerConnectionError, BrokerNotAvailableError
from ottla.protocol.message import Request, Response

if TYPE_CHECKING:
    from ottla.net.client.channel import Channel
    from ottla.net.client.connect import SocketOptions
    from ottla.net.client.sasl_login import Login

R = TypeVar("R", bound=Response)

DEFAULT_PROTOCOL = "PLAINTEXT"
"""Kafka's default of `security.inter.broker.protocol`."""

LOGIN_SECONDS: Final = 30.0
"""Timeout in seconds of each step of the authentication. The caller of `send` has its own timeout in addition."""
REPLACED: Final = 0.85
"""The fraction of the authenticated session's lifetime (KIP-368) after which a connection is replaced."""


class RequestSender(Protocol):
    """Sends requests to other brokers. Implemented by `InterBrokerClient`."""

    def send(
        self, broker_id: int, request: Request[R], version: int, *, timeout: float, purpose: str = ""
    ) -> Awaitable[R]:
        """Send a request, and return its response. The awaitable raises KafkaError if that fails, for example if there
        is no response within `timeout` seconds.

        `purpose`: requests to a broker with different purposes use different connections.
        """
        ...


class BrokerConnection:
    """The connection to one broker for one purpose."""

    __slots__ = ("channel", "connecting")

    def __init__(self) -> None:
        self.channel: Channel | None = None
        self.connecting = asyncio.Lock()
        """Held while a connection is being opened.

        The next holder uses the connection, or tries again if opening it failed.
        """

    def fits(self, endpoint: Endpoint | None) -> bool:
        """Return whether there is an open connection to this address."""
        channel = self.channel
        if channel is None or endpoint is None:
            return False
        return channel.is_open and (channel.host, channel.port) == endpoint[1:3]

    def close(self) -> None:
        """Close the connection, if it is open. Requests in flight fail."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None


class InterBrokerClient:
    """All connections of this broker to other brokers. Not thread-safe: event loop only."""

    def __init__(
        self,
        broker: Callable[[int], BrokerImage | None],
        listener_name: str | None,
        client_id: str,
        options: SocketOptions | None = None,
        *,
        protocol: str = DEFAULT_PROTOCOL,
        login: Login | None = None,
        secret: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        """No connection is opened yet.

        `broker`: returns a broker's registration, or None if it is not alive.

        `options`: socket options, with TLS if `protocol` requires it. `protocol`: the security protocol between
        brokers.

        `login`: this broker's credentials, if the protocol requires SASL. `listener_name`: the inter-broker listener;
        None for the one with the name of `protocol`.

        `secret`: returns the cluster's secret, which proves to other brokers that this is one of its brokers; None:
        send no proof.
        """
        self._login = login
        self._secret = secret
        self._broker = broker
        self._listener = listener_name or protocol
        self._protocol = protocol
        self._client_id = client_id
        self.options = options
        """The options of new connections. Replaced when certificates are renewed."""
        self._connections: dict[tuple[int, str], BrokerConnection] = {}
        self._replaced: dict[Channel, None] = {}
        self._closed = False

    def send(
        self, broker_id: int, request: Request[R], version: int, *, timeout: float, purpose: str = ""
    ) -> Awaitable[R]:
        """Send a request and return its response. `timeout` in seconds includes the time to connect.

        On an open connection, the request is sent before the awaitable is awaited, and no task is needed.

        The awaitable raises BrokerNotAvailableError if the broker is not alive or has no suitable listener, or this
        client is closed; BrokerConnectionError if the broker cannot be reached; the error of a failed authentication;
        and NetworkError or RequestTimedOutError if the broker may have handled the request.
        """
        connection, broker = self._connections.get((broker_id, purpose)), self._broker(broker_id)
        if connection is not None and broker is not None and connection.fits(self._address(broker)):
            assert connection.channel is not None
            return connection.channel.send(request, version, timeout)
        return self._connect_and_send(broker_id, request, version, timeout, purpose)

    async def _connect_and_send(
        self, broker_id: int, request: Request[R], version: int, timeout: float, purpose: str
    ) -> R:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                channel = await self._channel(broker_id, purpose)
        except TimeoutError:
            raise BrokerConnectionError(f"broker {broker_id} was not reached within {timeout:g} s") from None
        return await channel.send(request, version, deadline - loop.time())

    async def on_image_changed(self, _before: ClusterImage, _after: ClusterImage) -> None:
        """Close the connections to brokers that have left or changed their address, so that requests to them fail at
        once.
        """
        for (broker_id, _), connection in list(self._connections.items()):
            channel, broker = connection.channel, self._broker(broker_id)
            if broker is None:
                self._remove(broker_id)
            elif channel is not None and not connection.fits(self._address(broker)):
                connection.close()

    def close(self) -> None:
        """Close all connections and open no others."""
        self._closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        for channel in list(self._replaced):
            channel.close()

    async def _channel(self, broker_id: int, purpose: str) -> Channel:
        key = broker_id, purpose
        while True:
            endpoint = self._endpoint(broker_id)
            connection = self._connections.setdefault(key, BrokerConnection())
            if connection.fits(endpoint):
                assert connection.channel is not None
                return connection.channel
            async with connection.connecting:
                if not connection.fits(endpoint):
                    await self._connect(connection, endpoint)
            if self._connections.get(key) is not connection:
                connection.close()  # meanwhile the other broker has left, or this broker is stopping

    async def _connect(self, connection: BrokerConnection, endpoint: Endpoint) -> None:
        from ottla.net.client.channel import Channel  # a standalone broker starts without it
        from ottla.net.client.connect import SocketOptions

        connection.close()
        loop, options = asyncio.get_running_loop(), self.options or SocketOptions()
        channel = Channel(
            loop,
            endpoint.host,
            endpoint.port,
            client_id=self._client_id,
            options=options,
            on_close=lambda channel: self._replaced.pop(channel, None),
        )
        await channel.connect()
        try:
            lifetime = await self._authenticate(channel)
        except BaseException:
            channel.close()
            raise
        connection.channel = channel
        if lifetime:
            loop.call_later(REPLACED * lifetime, self._replace, connection, channel)
            loop.call_later(lifetime, channel.close)

    def _replace(self, connection: BrokerConnection, channel: Channel) -> None:
        """Stop sending requests on a connection, which stays open for responses. The next request opens a new one."""
        if connection.channel is channel and channel.is_open:
            connection.channel = None
            self._replaced[channel] = None

    async def _authenticate(self, channel: Channel) -> float:
        """Log in by SASL if required, and prove that this broker belongs to the cluster if there is a secret.

        Return the session's lifetime in seconds; 0 if unlimited.
        """
        lifetime = 0.0
        if self._login is not None:
            from ottla.net.client.sasl_login import log_in

            lifetime = await log_in(channel, self._login, LOGIN_SECONDS) / 1000
        secret = self._secret()
        if secret is not None:
            await prove(channel, secret, LOGIN_SECONDS)
        return lifetime

    def _endpoint(self, broker_id: int) -> Endpoint:
        if self._closed:
            raise BrokerNotAvailableError("this broker is stopping")
        broker = self._broker(broker_id)
        if broker is None:
            self._remove(broker_id)
            raise BrokerNotAvailableError(f"broker {broker_id} is not alive")
        address = self._address(broker)
        if address is None:
            raise BrokerNotAvailableError(
                f"broker {broker_id} has neither a listener {self._listener} nor one with protocol {self._protocol}"
            )
        return address

    def _address(self, broker: BrokerImage) -> Endpoint | None:
        """Return the broker's inter-broker listener, or else a listener with the same protocol; None if it has
        neither.
        """
        for endpoint in broker.endpoints:
            if endpoint.name == self._listener:
                return endpoint
        return next((endpoint for endpoint in broker.endpoints if endpoint.protocol == self._protocol), None)

    def _remove(self, broker_id: int) -> None:
        for key in [key for key in self._connections if key[0] == broker_id]:
            self._connections.pop(key).close()
