"""RenewDelegationToken: no token lives longer without authentication, as in Kafka. Served in all versions."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import DelegationTokenRequestNotAllowedError as Refused
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def handle(request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse:
    """Tokens need a listener that authenticates."""
    return RenewDelegationTokenResponse(error_code=Refused.code or 0, expiry_timestamp_ms=-1)
