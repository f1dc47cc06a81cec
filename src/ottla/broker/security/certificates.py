"""The certificates of listeners that speak TLS: read when the broker starts, and again when they are set while it runs.

Connections that are there go on with what they began with, as in Kafka; new ones have the new certificates.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ottla.config.broker import BrokerConfig, renewed_listener
from ottla.errors import ConfigurationError
from ottla.net.server.connection import Connection

if TYPE_CHECKING:
    from ottla.cluster.interbroker.client import InterBrokerClient
    from ottla.net.server.listener import Connects, Listener

log = logging.getLogger("ottla.broker")


def connections(config: BrokerConfig, listener: str) -> Connects:
    """What makes the connections of a listener, by its security protocol. ConfigurationError names what is wrong."""
    if not config.security_protocol(listener).endswith("SSL"):
        return Connection
    from ottla.net.server.listener_ssl import accepting  # what TLS loads costs others their start-up

    return accepting(config, listener)


def check_certificates(config: BrokerConfig, listeners: Collection[str]) -> None:
    """Raise ConfigurationError where one of these listeners, named in small letters, could not work by the options."""
    for endpoint in config.listeners:
        if endpoint.name.lower() in listeners:
            connections(config, endpoint.name)


def differ(before: BrokerConfig, after: BrokerConfig) -> bool:
    """Whether any listener's certificates are told otherwise."""
    names = (
        {key: value for key, value in config.originals.items() if renewed_listener(key) is not None}
        for config in (before, after)
    )
    return next(names) != next(names)


def renew(config: BrokerConfig, listeners: Iterable[Listener], peers: InterBrokerClient | None) -> None:
    """Have new connections speak by the options and stores of now; where these cannot be used, by those of before."""
    for listener in listeners:
        if not config.security_protocol(listener.name).endswith("SSL"):
            continue
        try:
            listener.connects = connections(config, listener.name)
            between = config.inter_broker_listener
            if (
                peers is not None
                and peers.options is not None
                and between is not None
                and between.name == listener.name
            ):
                from ottla.net.server.listener_ssl import client_options  # as above

                peers.options = client_options(config, listener.name)
        except ConfigurationError as error:
            log.error("%s; the certificates of before stay in use", error.message)
        else:
            log.info("listener %s: certificates are read anew", listener.name)
