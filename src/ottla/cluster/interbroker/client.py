"""Connections to the other brokers, made when needed. Kafka's `BrokerBlockingSender` and `InterBrokerSendThread`.

A broker answers one request of a connection at a time, so who may wait for long has a lane of its own: one connection
per broker and lane. Versions are fixed by who asks; nothing is negotiated. Nothing is tried again here, either: who
asks knows whether and when that makes sense. Everything runs on the loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage
from ottla.cluster.interbroker.membership_proof import prove
from ottla.config.broker import Endpoint
from ottla.errors import BrokerConnectionError, BrokerNotAvailableError
from ottla.protocol.message import Request, Response

if TYPE_CHECKING:
    from ottla.net.client.channel import Channel
    from ottla.net.client.connect import SocketOptions
    from ottla.net.client.sasl_login import Login

R = TypeVar("R", bound=Response)

DEFAULT_PROTOCOL = "PLAINTEXT"
"""What brokers speak among themselves where no listener is named. Kafka's default of security.inter.broker.protocol."""

LOGIN_SECONDS: Final = 30.0
"""How long another broker may take to know us; who asks has a limit of his own."""
REPLACED: Final = 0.85
"""When a connection that is good for some time (KIP-368) is replaced, as a part of this time."""


class BrokerConnection:
    """The way to one broker on one lane."""

    __slots__ = ("channel", "dialling")

    def __init__(self) -> None:
        self.channel: Channel | None = None
        self.dialling = asyncio.Lock()
        """Who holds it makes the connection; the others wait for it, and try themselves when that came to nothing."""

    def fits(self, endpoint: Endpoint | None) -> bool:
        """Whether there is a connection, and to this address."""
        channel = self.channel
        if channel is None or endpoint is None:
            return False
        return channel.is_open and (channel.host, channel.port) == endpoint[1:3]

    def close(self) -> None:
        """End the connection; who waits for an answer gets an error."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None


class InterBrokerClient:
    """All connections of this broker to others. `broker` tells where one is; None: it does not live."""

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
        """`options`: of the sockets, with TLS where `protocol`, the security protocol between brokers, has it.

        `login`: who this broker is, where the protocol asks for that.

        `secret`: of the cluster, by which the others know that this is one of its brokers; None: they are not told.
        """
        self._login = login
        self._secret = secret
        self._broker = broker
        self._listener = listener_name or protocol
        self._protocol = protocol
        self._client_id = client_id
        self.options = options
        """Of the next connections; replaced when certificates are renewed."""
        self._links: dict[tuple[int, str], BrokerConnection] = {}
        self._replaced: set[Channel] = set()
        self._closed = False

    async def ask(self, broker_id: int, request: Request[R], version: int, *, timeout: float, lane: str = "") -> R:
        """The broker's response. `timeout` seconds bound all of it, connecting included.

        Raises BrokerNotAvailableError for a broker that does not live, BrokerConnectionError where it is not reached,
        NetworkError or RequestTimedOutError where the request may have been carried out.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                channel = await self._channel(broker_id, lane)
        except TimeoutError:
            raise BrokerConnectionError(f"broker {broker_id} was not reached within {timeout:g} s") from None
        return await channel.ask(request, version, deadline - loop.time())

    async def follow(self, _before: ClusterImage, _after: ClusterImage) -> None:
        """End the connections to brokers that are gone or have moved: nobody has to wait for their answers."""
        for (broker_id, _), link in list(self._links.items()):
            channel, broker = link.channel, self._broker(broker_id)
            if broker is None:
                self._forget(broker_id)
            elif channel is not None and not link.fits(self._address(broker)):
                link.close()

    def close(self) -> None:
        """End all connections, for good."""
        self._closed = True
        for link in self._links.values():
            link.close()
        self._links.clear()
        for channel in list(self._replaced):
            channel.close()

    async def _channel(self, broker_id: int, lane: str) -> Channel:
        """An open connection to where the broker is now."""
        key = broker_id, lane
        while True:
            endpoint = self._endpoint(broker_id)
            link = self._links.setdefault(key, BrokerConnection())
            if link.fits(endpoint):
                assert link.channel is not None
                return link.channel
            async with link.dialling:
                if not link.fits(endpoint):
                    await self._dial(link, endpoint)
            if self._links.get(key) is not link:
                link.close()  # the broker has gone meanwhile, or this one stops

    async def _dial(self, link: BrokerConnection, endpoint: Endpoint) -> None:
        from ottla.net.client.channel import Channel  # a broker by itself starts without it
        from ottla.net.client.connect import SocketOptions

        link.close()
        loop, options = asyncio.get_running_loop(), self.options or SocketOptions()
        channel = Channel(
            loop,
            endpoint.host,
            endpoint.port,
            client_id=self._client_id,
            options=options,
            on_close=self._replaced.discard,
        )
        await channel.connect()
        try:
            lifetime = await self._introduce(channel)
        except BaseException:
            channel.close()
            raise
        link.channel = channel
        if lifetime:
            loop.call_later(REPLACED * lifetime, self._replace, link, channel)
            loop.call_later(lifetime, channel.close)

    def _replace(self, link: BrokerConnection, channel: Channel) -> None:
        """Have the next who asks make a new connection; on this one only answers are waited for."""
        if link.channel is channel and channel.is_open:
            link.channel = None
            self._replaced.add(channel)

    async def _introduce(self, channel: Channel) -> float:
        """Say who we are, and that we belong to the cluster; for how many seconds that holds, 0 for ever."""
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
            raise BrokerNotAvailableError("this broker stops")
        broker = self._broker(broker_id)
        if broker is None:
            self._forget(broker_id)
            raise BrokerNotAvailableError(f"broker {broker_id} does not live")
        address = self._address(broker)
        if address is None:
            raise BrokerNotAvailableError(
                f"broker {broker_id} has neither a listener {self._listener} nor one that speaks {self._protocol}"
            )
        return address

    def _address(self, broker: BrokerImage) -> Endpoint | None:
        """On the listener for brokers, else on one that speaks its protocol."""
        by_name = (e for e in broker.endpoints if e.name == self._listener)
        by_protocol = (e for e in broker.endpoints if e.protocol == self._protocol)
        return next(by_name, None) or next(by_protocol, None)

    def _forget(self, broker_id: int) -> None:
        for key in [key for key in self._links if key[0] == broker_id]:
            self._links.pop(key).close()
