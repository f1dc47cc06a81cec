"""CreateDelegationToken: no token is made without authentication, as in Kafka. Served in all versions."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import DelegationTokenRequestNotAllowedError as Refused
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse


def handle(request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse:
    """Tokens need a listener that authenticates."""
    return CreateDelegationTokenResponse(
        error_code=Refused.code or 0,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
