"""ExpireDelegationToken: let a token expire after a time, or remove it (KIP-48).

Only the token's owner and renewers may do this.
"""

from __future__ import annotations

from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.broker.security.delegation_tokens import NO_TIME, require_tokens
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


async def handle(request: ExpireDelegationTokenRequest, context: RequestContext) -> ExpireDelegationTokenResponse:
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=NO_TIME)
    with errors_in(response):
        tokens, hmac = require_tokens(context), bytes(request.hmac)
        token_id, period_ms = tokens.id_of(hmac), request.expiry_time_period_ms
        response.expiry_timestamp_ms = await tokens.expire(context.client.principal, hmac, period_ms)
        verb = "Removed" if period_ms < 0 else "Changed the expiry of"
        context.log_change("%s the delegation token %s", verb, token_id)
    return response
