"""RenewDelegationToken: postpone the expiry of a token (KIP-48). Only the token's owner and renewers may do this."""

from __future__ import annotations

from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.broker.security.delegation_tokens import NO_TIME, require_tokens
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


async def handle(request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse:
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=NO_TIME)
    with errors_in(response):
        tokens, hmac = require_tokens(context), bytes(request.hmac)
        response.expiry_timestamp_ms = await tokens.renew(context.client.principal, hmac, request.renew_period_ms)
        context.log_change("Renewed the delegation token %s", tokens.id_of(hmac))
    return response
