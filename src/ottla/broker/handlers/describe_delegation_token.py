"""DescribeDelegationToken: no token is told without authentication, as in Kafka. Served in all versions."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import DelegationTokenRequestNotAllowedError
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(request: DescribeDelegationTokenRequest, context: RequestContext) -> DescribeDelegationTokenResponse:
    """Tokens need a listener that authenticates."""
    return DescribeDelegationTokenResponse(error_code=DelegationTokenRequestNotAllowedError.code or 0)
