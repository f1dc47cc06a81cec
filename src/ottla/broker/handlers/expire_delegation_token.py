"""ExpireDelegationToken: no token is ended without authentication, as in Kafka. Served in all versions."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import DelegationTokenRequestNotAllowedError as Refused
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


def handle(request: ExpireDelegationTokenRequest, context: RequestContext) -> ExpireDelegationTokenResponse:
    """Tokens need a listener that authenticates."""
    return ExpireDelegationTokenResponse(error_code=Refused.code or 0, expiry_timestamp_ms=-1)
