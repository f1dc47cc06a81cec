"""DeleteAcls: answered as Kafka does without an authorizer. Served in all versions."""

from __future__ import annotations

from ottla.broker.handlers.describe_acls import NO_AUTHORIZER
from ottla.broker.services import Call
from ottla.errors import SecurityDisabledError
from ottla.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    """Each filter is refused."""
    refusal = DeleteAclsFilterResult(error_code=SecurityDisabledError.code or 0, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[refusal] * len(request.filters))
