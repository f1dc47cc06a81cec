"""Certificates of TLS listeners: loaded when the broker starts, reloaded when they are set dynamically.

Existing connections keep their certificates, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ottla.config.broker.broker_config import PLAIN_USERS, BrokerConfig, renewed_listener
from ottla.errors import ConfigurationError
from ottla.net.server.connection import Connection

if TYPE_CHECKING:
    from ottla.cluster.interbroker.client import InterBrokerClient
    from ottla.net.client.connect import SocketOptions
    from ottla.net.server.listener import Connects, Listener

log = logging.getLogger("ottla.broker")


def connections(config: BrokerConfig, listener: str) -> Connects:
    """Return the factory of a listener's connections, with TLS if its security protocol requires it.

    Raises ConfigurationError for unusable certificates.
    """
    if not config.security_protocol(listener).endswith("SSL"):
        return Connection
    from ottla.net.server.listener_ssl import accepting  # imported late: TLS takes time to load

    return accepting(config, listener)


def check_certificates(config: BrokerConfig, listeners: Collection[str]) -> None:
    """Raise ConfigurationError if the certificates of one of these listeners are unusable.

    `listeners`: names in lower case.
    """
    for endpoint in config.listeners:
        if endpoint.name.lower() in listeners:
            connections(config, endpoint.name)


def differ(before: BrokerConfig, after: BrokerConfig) -> bool:
    """Return whether the configs of certificates with the prefix `listener.name.` differ."""
    names = (
        {k: v for k, v in config.originals.items() if renewed_listener(k) is not None and not k.endswith(PLAIN_USERS)}
        for config in (before, after)
    )
    return next(names) != next(names)


def renew(config: BrokerConfig, listeners: Iterable[Listener], peers: InterBrokerClient | None) -> None:
    """Reload certificates for new connections; if they are unusable, the previous ones stay in use."""
    for listener in listeners:
        if not config.security_protocol(listener.name).endswith("SSL"):
            continue
        try:
            connects = connections(config, listener.name)
            options: SocketOptions | None = None
            between = config.inter_broker_listener
            if (
                peers is not None
                and peers.options is not None
                and between is not None
                and between.name == listener.name
            ):
                from ottla.net.server.listener_ssl import client_options  # imported late, as above

                options = client_options(config, listener.name)
        except ConfigurationError as error:
            # the message names the listener
            log.error("Cannot reload the certificates of %s. The previous ones stay in use.", error.message)
        else:
            listener.use(connects)
            if peers is not None and options is not None:
                peers.options = options
            log.info("Reloaded the certificates of listener %s", listener.name)
