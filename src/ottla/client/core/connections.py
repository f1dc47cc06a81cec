"""Connections to the brokers of a cluster, opened when they are needed. Kafka's `NetworkClient`.

A connection is ready after the negotiation of API versions and, if configured, authentication. After each failed
attempt in a row, the client waits longer before it connects to the broker again, up to reconnect.backoff.max.ms. Not
thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla import errors, logs
from ottla.backoff import JITTER, ExponentialBackoff
from ottla.client.core.handshake import BrokerConnection, negotiate, sasl_login
from ottla.config.client import ClientConfig
from ottla.futures import shielded
from ottla.model import Node
from ottla.net.client.channel import Channel
from ottla.net.client.channel_metrics import ChannelMetrics
from ottla.net.client.connect import SocketOptions
from ottla.net.client.dns import canonical_names_of
from ottla.protocol.message import Request, Response

log = logging.getLogger("ottla.client")

NOT_AUTHENTICATED: Final = (
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
    errors.SslAuthenticationError,
)
"""Errors of authentication. They are raised at once, because a retry would also fail."""

R = TypeVar("R", bound=Response)
RequestOrFactory = Request[R] | Callable[[int], Request[R]]

FIRST_REPLACED: Final = 0.85
LATEST_REPLACED: Final = 0.95
REPLACING_STEP: Final = 0.001
"""A connection whose authenticated session has a limited lifetime is replaced between FIRST_REPLACED and
LATEST_REPLACED, with an attempt every REPLACING_STEP. All are fractions of the lifetime.
"""

SLOW_SECONDS: Final = 1.5
"""Time in seconds after which a warning says that a connection attempt is slow, that a group or transactional id has no
coordinator, or that an admin call is retried.
"""
MIN_IDLE_CHECK_SECONDS: Final = 0.1
"""Minimum time in seconds between two checks for idle connections, also with connections.max.idle.ms=0."""
SHOWN_REASONS: Final = 3
"""Maximum number of different errors that the warning about unreachable brokers lists."""

DATA: Final = "data"
"""The purpose of connections for all requests that have no other purpose."""
FETCH: Final = "fetch"
"""The purpose of connections for fetches, and for the acknowledgements of share consumers. Fetches have separate
connections because a broker handles the requests of a connection one after the other, and a fetch may wait for data.
"""
GROUP: Final = "group"
"""The purpose of connections to group and transaction coordinators. They are separate because JoinGroup may wait for
minutes, and because heartbeats must not wait behind fetches.
"""


class ReconnectState:
    """The number of failed connection attempts to a broker in a row, and the event loop time before which no other
    attempt starts.
    """

    __slots__ = ("failures", "not_before")

    def __init__(self) -> None:
        self.failures = 0
        self.not_before = 0.0


class Connections:
    """The connections of one client. `nodes` returns the brokers of the metadata by id."""

    def __init__(
        self,
        config: ClientConfig,
        client_id: str,
        nodes: Callable[[], dict[int, Node]],
        metrics: ChannelMetrics,
    ) -> None:
        logs.protect()
        self.config = config
        self.metrics = metrics
        self.client_id = client_id
        self.request_timeout: float = config.request_timeout_ms / 1000
        self._nodes = nodes
        self._bootstrap = _bootstrap_nodes(config.bootstrap_servers)
        self._only_bootstrap = False
        """Whether `send_any` uses only the bootstrap servers: since a rebootstrap, until one of them has responded."""
        self._bootstrap_is_resolved = config.client_dns_lookup == "use_all_dns_ips"
        self._ready: dict[tuple[int, str], BrokerConnection] = {}
        self._replaced: set[BrokerConnection] = set()
        """The connections that get no new requests because their sessions expire soon."""
        self._connecting: dict[tuple[int, str], asyncio.Task[BrokerConnection]] = {}
        self._reconnects: dict[int, ReconnectState] = {}
        self._backoff = ExponentialBackoff(
            config.reconnect_backoff_ms / 1000, config.reconnect_backoff_max_ms / 1000, jitter=JITTER
        )
        first_ms = config.socket_connection_setup_timeout_ms
        self._setup_timeout = ExponentialBackoff(
            first_ms / 1000, max(first_ms, config.socket_connection_setup_timeout_max_ms) / 1000, jitter=JITTER
        )
        """Timeout in seconds for establishing a connection. It doubles with each failure in a row, up to
        socket.connection.setup.timeout.max.ms (KIP-601).
        """
        self._options = _socket_options(config)
        self._login = sasl_login(config)
        self.slow_reason: str = ""
        """The reason why a connection attempt has been slow, for the error of a call that times out; empty if none has
        been since the last successful one.
        """
        self._outage_since: float | None = None
        """The event loop time since which no broker has been reachable; None otherwise."""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False
        metrics.count_with(lambda: sum(c.channel.is_open for c in list(self._ready.values())))

    # Requests

    @property
    def requests_in_flight(self) -> int:
        """The number of requests that are waiting for a response, including those on replaced connections."""
        connections = (*list(self._ready.values()), *list(self._replaced))
        return sum(len(connection.channel.in_flight) for connection in connections)

    async def send(
        self,
        node_id: int,
        request: RequestOrFactory[R],
        *,
        of: type[Request[R]] | None = None,
        at_most: int | None = None,
        timeout: float | None = None,
        purpose: str = DATA,
    ) -> R:
        """Send a request to a broker, and return the response. The version is the newest that both sides support, and
        not above `at_most`.

        `request` may be a function that takes the version and returns the request; then `of` is its class. `timeout` is
        the time in seconds to wait for the response, by default request.timeout.ms. Raises errors of the connection,
        and UnsupportedVersionError if there is no common version. Error codes in the response are not checked.
        """
        connection = await self.connect(node_id, purpose)
        version = connection.version(of or type(request), at_most)  # type: ignore[arg-type]
        made = request if isinstance(request, Request) else request(version)
        limit = self.request_timeout if timeout is None else timeout
        return await connection.channel.send(made, version, limit)

    async def send_any(self, request: Request[R]) -> R:
        """Send a request to any broker, and return the response. Brokers with an open connection and few requests in
        flight are preferred. If one fails, the next is tried.

        Raises authentication errors and UnsupportedVersionError at once, and the last error if all brokers fail.
        """
        return await self.send_any_of(type(request), lambda _: request)

    async def send_any_of(self, of: type[Request[R]], request: Callable[[int], Request[R]]) -> R:
        """Send a request like `send_any`, but build it for the negotiated version."""
        failures: list[errors.KafkaError] = []
        if not self._bootstrap_is_resolved:
            await self._find_canonical_names()
        for node_id in self._by_load():
            try:
                answer = await self.send(node_id, request, of=of)
            except errors.KafkaError as error:
                if isinstance(error, (errors.UnsupportedVersionError, *NOT_AUTHENTICATED)):
                    raise
                failures.append(error)
            else:
                self._only_bootstrap = False
                self._end_outage()
                return answer
        self._begin_outage(failures)
        raise (
            failures[-1] if failures else errors.BrokerNotAvailableError("no broker is known; check bootstrap.servers")
        )

    @property
    def is_failing(self) -> bool:
        """Whether no broker has been reachable, or a connection attempt has been slow, since the last success. A
        warning has said so.
        """
        return self._outage_since is not None or bool(self.slow_reason)

    def _begin_outage(self, failures: Iterable[errors.KafkaError]) -> None:
        """Log that no broker is reachable, once until a broker has responded again."""
        if self._closed or self._outage_since is not None:
            return
        self._outage_since = asyncio.get_running_loop().time()
        reasons = list(dict.fromkeys(map(str, failures)))
        log.warning(
            "No broker is reachable; calls are retried until they time out: %s (client.id=%s)",
            logs.listed(reasons, SHOWN_REASONS),
            self.client_id,
        )

    def _end_outage(self) -> None:
        if self._outage_since is not None:
            seconds = asyncio.get_running_loop().time() - self._outage_since
            self._outage_since = None
            log.info("A broker is reachable again after %.1f s (client.id=%s)", seconds, self.client_id)

    async def _find_canonical_names(self) -> None:
        """Replace the bootstrap servers with the canonical names of their addresses (client.dns.lookup, KIP-235)."""
        loop = asyncio.get_running_loop()
        names = []
        failures: dict[str, OSError] = {}
        for host, port in self.config.bootstrap_servers:
            try:
                names += [(name, port) for name in await canonical_names_of(loop, host, port)]
            except OSError as error:
                failures[f"{host}:{port}"] = error
        for server, failure in failures.items():
            if names:
                log.warning(
                    "Cannot resolve %s of bootstrap.servers; using only those that can be resolved: %s", server, failure
                )
            else:
                log.warning("Cannot resolve %s of bootstrap.servers; a later request tries again: %s", server, failure)
        if names:
            self._bootstrap = _bootstrap_nodes(names)
            self._bootstrap_is_resolved = True

    def rebootstrap(self) -> None:
        """Close the ready connections, and let `send_any` use only bootstrap servers until one has responded
        (KIP-899).
        """
        log.info(
            "The metadata could not be refreshed; closing the connections, and discovering the cluster through "
            "bootstrap.servers again (client.id=%s)",
            self.client_id,
        )
        self._only_bootstrap = True
        for node_id, purpose in list(self._ready):
            self.disconnect(node_id, purpose)

    def _by_load(self) -> list[int]:
        """Return the ids of the nodes that `send_any` tries, the preferred ones first. Bootstrap servers are last; with
        metadata.recovery.strategy=none they are used only if the metadata has no brokers.
        """
        nodes = [] if self._only_bootstrap else list(self._nodes())
        random.shuffle(nodes)

        def load(node_id: int) -> tuple[int, int]:
            connection = self._ready.get((node_id, DATA))
            if connection is None or not connection.channel.is_open:
                state = self._reconnects.get(node_id)
                return (2 if state and state.failures else 1, 0)
            return (0, len(connection.channel.in_flight))

        if nodes and self.config.metadata_recovery_strategy == "none":
            return sorted(nodes, key=load)
        bootstrap = list(self._bootstrap)
        random.shuffle(bootstrap)
        return sorted(nodes, key=load) + sorted(bootstrap, key=load)

    def ready(self, node_id: int, purpose: str = DATA) -> BrokerConnection | None:
        """Return the connection to a broker for a purpose if it is ready; otherwise None."""
        connection = self._ready.get((node_id, purpose))
        return connection if connection is not None and connection.channel.is_open else None

    # Opening

    async def connect(self, node_id: int, purpose: str = DATA) -> BrokerConnection:
        """Return a ready connection to a broker; open one if there is none, after the backoff of a failed attempt.

        Raises BrokerConnectionError if the broker is unreachable or unknown, errors of the handshake, and
        IllegalStateError after `close`.
        """
        connection = self.ready(node_id, purpose)
        if connection is not None:
            return connection
        if self._closed:
            raise errors.IllegalStateError("the client is closed")
        key = (node_id, purpose)
        connecting = self._connecting.get(key)
        if connecting is None:
            connecting = asyncio.get_running_loop().create_task(self._open(node_id, purpose))
            self._connecting[key] = connecting
            connecting.add_done_callback(lambda done: self._opened(key, done))
        # Several callers may wait for the same connection; cancelling one of them must not affect the others.
        try:
            return await shielded(connecting)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if connecting.cancelled() and (caller is None or not caller.cancelling()):  # `close` has cancelled it
                raise errors.IllegalStateError("the client is closed") from None
            raise

    def _opened(self, key: tuple[int, str], connecting: asyncio.Task[BrokerConnection]) -> None:
        self._connecting.pop(key, None)
        if not connecting.cancelled():
            connecting.exception()  # marks the exception as retrieved: the callers may have given up

    async def _open(self, node_id: int, purpose: str) -> BrokerConnection:
        node = self._node(node_id)
        loop = asyncio.get_running_loop()
        state = self._reconnects.setdefault(node_id, ReconnectState())
        if state.not_before > loop.time():
            await asyncio.sleep(state.not_before - loop.time())
        channel = Channel(
            loop,
            node.host,
            node.port,
            client_id=self.client_id,
            options=self._options._replace(connect_timeout=self._setup_timeout.backoff(state.failures)),
            metrics=self.metrics.for_node(node_id),
            on_close=self._on_close,
        )
        slow = loop.call_later(SLOW_SECONDS, self._report_slow, f"{node.host}:{node.port}")
        try:
            await channel.connect()
            self.metrics.created.record()
            connection = await negotiate(channel, self.config, self._login)
            if self.config.security_protocol != "PLAINTEXT":
                self.metrics.authenticated.record()
        except BaseException as error:
            state.not_before = loop.time() + self._backoff.backoff(state.failures)
            state.failures += 1
            if isinstance(error, NOT_AUTHENTICATED):
                self.metrics.failed_authentication.record()
            channel.close(error if isinstance(error, errors.KafkaError) else None)
            raise
        finally:
            slow.cancel()
        self.slow_reason = ""
        self._reconnects.pop(node_id, None)
        self._ready[(node_id, purpose)] = connection
        self._watch_idle()
        if connection.lifetime_ms:
            self._replace_in_time((node_id, purpose), connection)
        return connection

    def _report_slow(self, peer: str) -> None:
        """Log that a connection attempt is slow. Further ones are not logged until an attempt has succeeded."""
        reason = (
            f"{peer} did not complete the handshake within {SLOW_SECONDS:g} s; is it a Kafka broker, does "
            "security.protocol match its listener, is max.connections reached, or does a firewall drop packets?"
        )
        if not self.slow_reason and not self._closed:
            log.warning("%s Still waiting for it (client.id=%s)", reason, self.client_id)
        self.slow_reason = reason

    def _replace_in_time(self, key: tuple[int, str], connection: BrokerConnection) -> None:
        """Stop using a connection before its authenticated session expires (KIP-368). The next request opens another
        one.

        From FIRST_REPLACED on, the connection is replaced as soon as it has no request in flight, so that no request
        overtakes another one, but no later than LATEST_REPLACED. It is closed when the session expires.
        """
        loop, lifetime = asyncio.get_running_loop(), connection.lifetime_ms / 1000
        latest = loop.time() + LATEST_REPLACED * lifetime

        def replace() -> None:
            if connection.channel.in_flight and loop.time() < latest:
                loop.call_later(REPLACING_STEP * lifetime, replace)
            elif self._ready.get(key) is connection:
                self._replaced.add(self._ready.pop(key))

        def expire() -> None:
            self._replaced.discard(connection)
            connection.channel.close(ended)

        loop.call_later(FIRST_REPLACED * lifetime, replace)
        ended = errors.BrokerConnectionError("the connection was replaced because its authenticated session expires")
        loop.call_later(lifetime, expire)

    def _on_close(self, channel: Channel) -> None:
        if channel.was_connected:
            self.metrics.closed.record()

    def _node(self, node_id: int) -> Node:
        node = self._nodes().get(node_id) or self._bootstrap.get(node_id)
        if node is None:
            # The metadata may be outdated, or from a broker that is behind the one that named this node.
            raise errors.BrokerConnectionError(f"broker {node_id} is not in the metadata of the cluster")
        return node

    # Closing

    def disconnect(self, node_id: int, purpose: str) -> None:
        """Close a connection. Its pending requests fail."""
        connection = self._ready.pop((node_id, purpose), None)
        if connection is not None:
            connection.channel.close(errors.BrokerConnectionError("the connection was closed by the client"))

    def _watch_idle(self) -> None:
        idle = self.config.connections_max_idle_ms
        if idle >= 0 and self._idle_timer is None:
            delay = max(idle / 2000, MIN_IDLE_CHECK_SECONDS)
            self._idle_timer = asyncio.get_running_loop().call_later(delay, self._close_idle)

    def _close_idle(self) -> None:
        """Close connections that have been idle for connections.max.idle.ms, and remove closed ones."""
        self._idle_timer = None
        oldest = asyncio.get_running_loop().time() - self.config.connections_max_idle_ms / 1000
        for key, connection in list(self._ready.items()):
            channel = connection.channel
            if not channel.in_flight and channel.last_used < oldest:
                channel.close(errors.BrokerConnectionError(f"{channel.host}:{channel.port}: closed an idle connection"))
            if not channel.is_open:
                del self._ready[key]
        if self._ready:
            self._watch_idle()

    async def close(self) -> None:
        """Close all connections. Pending requests fail."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        connecting = list(self._connecting.values())
        for task in connecting:
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        for connection in (*self._ready.values(), *self._replaced):
            connection.channel.close(errors.IllegalStateError("the client is closed"))
        self._ready.clear()
        self._replaced.clear()


def _bootstrap_nodes(servers: Iterable[tuple[str, int]]) -> dict[int, Node]:
    """Return the bootstrap servers as nodes. Their ids are -2, -3 and so on."""
    return {-2 - i: Node(-2 - i, host, port) for i, (host, port) in enumerate(servers)}


def _socket_options(config: ClientConfig) -> SocketOptions:
    """Return the options of the client's sockets. Raises ConfigurationError if the key store or trust store is
    unusable.
    """
    context = None
    if config.security_protocol.endswith("SSL"):
        from ottla.security.tls.contexts import (
            client_context,  # imported here because it slows down the start of other clients
        )

        context = client_context(config)
    return SocketOptions(
        config.receive_buffer_bytes,
        config.send_buffer_bytes,
        more=config.socket_options,
        ssl_context=context,
        ssl_check_hostname=config.checks_hostname,
    )
