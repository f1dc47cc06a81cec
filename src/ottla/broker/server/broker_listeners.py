"""The listeners of a broker, which are bound, started, drained and closed together."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable

from ottla.broker.config.dynamic_config import connection_limits
from ottla.broker.security import certificates
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.broker.listener_config import Endpoint
from ottla.net.server.connection import Service
from ottla.net.server.connection_quotas import ConnectionQuotas
from ottla.net.server.listener import Listener
from ottla.net.server.memory_pool import MemoryPool

log = logging.getLogger("ottla.broker")

DRAIN_SECONDS = 2.0
"""Maximum time in seconds that a stopping broker waits for requests in progress."""
DRAIN_STEP_SECONDS = 0.01


class BrokerListeners(list[Listener]):
    """The listeners of a broker, and the limits of their connections. Not thread-safe: event loop only."""

    def __init__(self, memory: MemoryPool) -> None:
        """`memory`: the memory pool that the requests of all listeners share."""
        super().__init__()
        self._memory = memory
        self.quotas = ConnectionQuotas()
        self.endpoints: tuple[Endpoint, ...] = ()
        """The addresses to which the listeners are bound."""

    def bind(self, config: BrokerConfig, service: Callable[[str], Service]) -> None:
        """Bind a listener to each address of `listeners`.

        Raises StartupError if one cannot be bound, and ConfigurationError for unusable certificates.

        `service`: returns the service of a listener, by its name.
        """
        bound = []
        inter_broker = config.inter_broker_listener
        if inter_broker is not None and len(config.listeners) > 1:
            self.quotas.protect(inter_broker.name, self._close_least_recently_used)
        for endpoint in config.listeners:
            listener = Listener(
                endpoint.name,
                service(endpoint.name),
                admission=self.quotas,
                memory=self._memory,
                max_frame_bytes=config.first_request_bytes(endpoint.name),
                idle_ms=config.connections_max_idle_ms,
                send_buffer_bytes=config.socket_send_buffer_bytes,
                receive_buffer_bytes=config.socket_receive_buffer_bytes,
                connection=certificates.connections(config, endpoint.name),
            )
            self.append(listener)
            port = listener.bind(endpoint.host, endpoint.port)
            bound.append(endpoint._replace(port=port, protocol=config.security_protocol(endpoint.name)))
        self.endpoints = tuple(bound)

    def advertised(self, config: BrokerConfig) -> tuple[Endpoint, ...]:
        """Return the advertised listeners: the addresses in `advertised.listeners`, or else the addresses to which the
        listeners are bound.

        If a listener that is not in `advertised.listeners` is bound to all addresses of the machine, the machine's host
        name is advertised.
        """
        advertised = {e.name: e for e in config.advertised_listeners}
        addresses = []
        for bound in self.endpoints:
            host = bound.host if bound.host not in ("", "0.0.0.0", "::") else _own_host_name()
            addresses.append(advertised.get(bound.name, bound._replace(host=host))._replace(protocol=bound.protocol))
        return tuple(addresses)

    def listen(self, backlog: int) -> None:
        """Let clients connect; `backlog` is the maximum number of connections that wait to be accepted."""
        for listener in self:
            listener.listen(backlog)

    def start(self) -> None:
        """Accept connections and process requests."""
        for listener in self:
            listener.start()

    def update_limits(self, config: BrokerConfig, image: ClusterImage) -> None:
        """Apply the limits of connections in a new config or image."""
        self.quotas.update_limits(connection_limits(config, image))

    def stop_accepting(self) -> None:
        """Accept no further connections."""
        for listener in self:
            listener.stop_accepting()

    async def drain(self) -> None:
        """Wait until responses are sent, at most DRAIN_SECONDS.

        The coordinators and partitions must have been closed before, which completes the requests that wait for them.
        """
        deadline = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < deadline:
            if not any(c.busy for listener in self for c in listener.connections):
                return
            await asyncio.sleep(DRAIN_STEP_SECONDS)

    def disconnect(self) -> None:
        """Close all connections and sockets, as if the process were killed."""
        for listener in self:
            listener.close()

    def close(self) -> None:
        """Close all listeners and their connections."""
        self.disconnect()
        self.clear()

    def _close_least_recently_used(self) -> None:
        """Close the connection that was active least recently, for one on the inter-broker listener (KIP-402).

        A connection that has a request in progress is closed only if all have one.
        """
        clients = (c for listener in self if not self.quotas.is_protected(listener.name) for c in listener.connections)
        oldest = min(clients, key=lambda c: (c.working, c.last_active), default=None)
        if oldest is not None:
            log.warning(
                "Disconnecting the client %s in favor of a connection on the inter-broker listener, because "
                "max.connections is reached",
                oldest.peer,
            )
            oldest.close()


def _own_host_name() -> str:
    return socket.getfqdn() or os.uname().nodename
