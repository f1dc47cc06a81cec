"""CreateAcls: add ACLs, for all brokers of the cluster. Requires ALTER on the cluster.

Each ACL has its own result. Adding an existing ACL is not an error. As in Kafka, an operation that the resource type
does not have is accepted and has no effect.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.request_context import RequestContext
from ottla.broker.security.acl_requests import acl_of, acl_text, authorization_error
from ottla.cluster.broker.acl_store import AclStore
from ottla.errors import KafkaError, code_of
from ottla.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.security.acl import ACL


def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse | Awaitable[CreateAclsResponse]:
    error, store = authorization_error(context, len(request.creations)), context.broker.acl_store
    if error is not None or store is None:
        return CreateAclsResponse(results=[_result(error)] * len(request.creations))
    return _add([_read(creation) for creation in request.creations], store, context)


async def _add(rules: list[ACL | KafkaError], store: AclStore, context: RequestContext) -> CreateAclsResponse:
    valid = [acl for acl in rules if isinstance(acl, ACL)]
    results = await store.add(valid)
    for acl, error in zip(valid, results, strict=True):
        if error is None:
            context.log_change("Added ACL %s", acl_text(acl))
    outcomes = iter(results)
    return CreateAclsResponse(
        results=[_result(entry if isinstance(entry, KafkaError) else next(outcomes)) for entry in rules]
    )


def _read(creation: AclCreation) -> ACL | KafkaError:
    try:
        return acl_of(creation)
    except KafkaError as error:
        return error


def _result(error: KafkaError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult()
    return AclCreationResult(error_code=code_of(error), error_message=error.message)
