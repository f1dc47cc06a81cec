"""CreateAcls: answered as Kafka does without an authorizer. Served in all versions."""

from __future__ import annotations

from ottla.broker.handlers.describe_acls import NO_AUTHORIZER
from ottla.broker.services import Call
from ottla.errors import SecurityDisabledError
from ottla.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    """Each rule is refused."""
    refusal = AclCreationResult(error_code=SecurityDisabledError.code or 0, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refusal] * len(request.creations))
