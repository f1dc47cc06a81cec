"""DescribeDelegationToken: tokens with their secrets, by owner or renewer (KIP-48).

From version 3 on, the response has the requester of each token (KIP-373).

A client sees the tokens that it owns or may renew. For others, it needs DESCRIBE on the token, or DESCRIBE_TOKENS on
the owner (a resource of type USER).
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.security.delegation_tokens import require_tokens
from ottla.model import ACLOperation
from ottla.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.security.acl import ResourceType
from ottla.security.delegation_token import TokenInformation


async def handle(request: DescribeDelegationTokenRequest, context: RequestContext) -> DescribeDelegationTokenResponse:
    """Return the visible tokens.

    The metadata store is read first, because the client may have just created a token at another broker.
    """
    tokens = require_tokens(context)
    await tokens.refresh()
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    return DescribeDelegationTokenResponse(
        tokens=[
            _description(token, tokens.hmac(token))
            for token in tokens.tokens()
            if (owners is None or any(map(token.belongs_to, owners))) and _is_visible(token, context)
        ]
    )


def _is_visible(token: TokenInformation, context: RequestContext) -> bool:
    return (
        token.belongs_to(context.client.principal)
        or context.allows(ACLOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or context.allows(ACLOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _description(token: TokenInformation, hmac: bytes) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = token.requester.partition(":")
    renewers = [renewer.partition(":") for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiry_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, _, name in renewers
        ],
    )
