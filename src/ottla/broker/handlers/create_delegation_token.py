"""CreateDelegationToken: create a token with which clients authenticate as its owner by SCRAM (KIP-48).

From version 3 on, a client can create a token for another owner, which requires CREATE_TOKENS on that owner, a
resource of type USER (KIP-373). Any broker creates tokens, not only the controller.
"""

from __future__ import annotations

from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.broker.security.delegation_tokens import NO_TIME, require_authentication, require_tokens
from ottla.errors import InvalidPrincipalTypeError
from ottla.model import ACLOperation
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.security.acl import ResourceType

USER_TYPE = "User"


async def handle(request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse:
    """Create a token. As in Kafka, the response contains owner and requester even if the request fails."""
    kind, name = USER_TYPE, context.user
    if request.owner_principal_name:
        kind, name = request.owner_principal_type or "", request.owner_principal_name
    response = CreateDelegationTokenResponse(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=USER_TYPE,
        token_requester_principal_name=context.user,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    with errors_in(response):
        await _create(request, context, response)
    return response


async def _create(
    request: CreateDelegationTokenRequest, context: RequestContext, response: CreateDelegationTokenResponse
) -> None:
    require_authentication(context)
    owner, requester = f"{response.principal_type}:{response.principal_name}", context.client.principal
    if owner != requester:
        context.require(ACLOperation.CREATE_TOKENS, ResourceType.USER, owner)
    # A client with the token authenticates as a user. If the owner had another principal type, it would act as the user
    # of the same name.
    principal_types = {response.principal_type, *(renewer.principal_type for renewer in request.renewers)}
    if principal_types != {USER_TYPE}:
        raise InvalidPrincipalTypeError
    renewers = [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers]
    tokens = require_tokens(context)
    token = await tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    context.log_change("Created the delegation token %s of %s", token.token_id, owner)
    response.issue_timestamp_ms = token.issue_timestamp
    response.expiry_timestamp_ms = token.expiry_timestamp
    response.max_timestamp_ms = token.max_timestamp
    response.token_id, response.hmac = token.token_id, tokens.hmac(token)
