"""Checks that all requests for delegation tokens have in common (KIP-48)."""

from __future__ import annotations

from ottla.broker.quotas.client_quotas import ANONYMOUS
from ottla.broker.request_context import RequestContext
from ottla.cluster.broker.delegation_token_store import DelegationTokenStore
from ottla.errors import DelegationTokenAuthDisabledError, DelegationTokenRequestNotAllowedError
from ottla.net.server.connection import BY_TOKEN

NO_TIME = -1
"""The value of timestamps in the response to a request that failed."""


def require_tokens(context: RequestContext) -> DelegationTokenStore:
    """Return the token store.

    Raises DelegationTokenRequestNotAllowedError if the connection is not authenticated, or is authenticated by a token,
    and DelegationTokenAuthDisabledError if no master key is configured.
    """
    require_authentication(context)
    if context.broker.delegation_tokens is None:
        raise DelegationTokenAuthDisabledError
    return context.broker.delegation_tokens


def require_authentication(context: RequestContext) -> None:
    """Raise DelegationTokenRequestNotAllowedError unless the client is authenticated by SASL or a TLS certificate, and
    not by a delegation token.
    """
    connection = context.connection
    protocol = context.broker.config.security_protocol(connection.listener.name)
    is_authenticated = protocol.startswith("SASL") or (protocol == "SSL" and context.user != ANONYMOUS)
    if not is_authenticated or connection.state.get(BY_TOKEN):
        raise DelegationTokenRequestNotAllowedError
