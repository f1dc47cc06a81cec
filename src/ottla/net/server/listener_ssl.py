"""TLS settings of a listener from its configs, for accepted connections and for connections to other brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.broker.principal_rules import principal_rules
from ottla.errors import ConfigurationError
from ottla.net.client.connect import SocketOptions
from ottla.net.server.tls_connection import TlsConnection, TlsSettings
from ottla.security.tls.contexts import client_context, server_context

if TYPE_CHECKING:
    from ottla.net.server.listener import Connects


def accepting(config: BrokerConfig, listener: str) -> Connects:
    """Return a function that creates a listener's TLS connections.

    Raises ConfigurationError if a key or trust store cannot be used, or another TLS config is invalid.
    """
    with _named(listener):
        context = server_context(config.tls_of(listener), config.client_auth(listener))
        rules = principal_rules(config.on_listener(listener, "ssl.principal.mapping.rules"))
        with_sasl = config.security_protocol(listener) == "SASL_SSL"
        return partial(TlsConnection, security=TlsSettings(context, rules, with_sasl))


def client_options(config: BrokerConfig, listener: str) -> SocketOptions:
    """Return the socket options for connections to this listener of other brokers, with the key and trust stores of
    this broker's listener.

    Raises ConfigurationError if one of the stores cannot be used, or another TLS config is invalid.
    """
    with _named(listener):
        tls = config.tls_of(listener)
        return SocketOptions(ssl_context=client_context(tls), ssl_check_hostname=tls.checks_hostname)


@contextmanager
def _named(listener: str) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"listener {listener}: {error.message}") from None
