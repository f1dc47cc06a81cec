"""DeleteAcls: delete the ACLs that match filters, for all brokers of the cluster. Requires ALTER on the cluster.

Each filter has its own result: the matching ACLs, and whether each was deleted. Version 0 does not know prefixed
patterns, and does not delete ACLs with them.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.request_context import RequestContext
from ottla.broker.security.acl_requests import acl_fields, acl_filter, acl_text, authorization_error, resource_fields
from ottla.cluster.broker.acl_store import AclStore
from ottla.errors import KafkaError, code_of
from ottla.protocol.messages import delete_acls as m
from ottla.security.acl import ACL, ACLFilter


def handle(
    request: m.DeleteAclsRequest, context: RequestContext
) -> m.DeleteAclsResponse | Awaitable[m.DeleteAclsResponse]:
    error, store = authorization_error(context, len(request.filters)), context.broker.acl_store
    if error is not None or store is None:
        return m.DeleteAclsResponse(filter_results=[_failed(error)] * len(request.filters))
    return _remove([_read(filter_) for filter_ in request.filters], store, context)


async def _remove(
    filters: list[ACLFilter | KafkaError], store: AclStore, context: RequestContext
) -> m.DeleteAclsResponse:
    usable = [filter_ for filter_ in filters if isinstance(filter_, ACLFilter)]
    try:
        results = await store.remove(usable)
        for acl in sorted({acl for result in results for acl, error in result if error is None}):
            context.log_change("Deleted ACL %s", acl_text(acl))
        outcomes = iter(results)
    except KafkaError as error:
        filters, outcomes = [w if isinstance(w, KafkaError) else error for w in filters], iter(())
    return m.DeleteAclsResponse(
        filter_results=[
            _failed(entry)
            if isinstance(entry, KafkaError)
            else m.DeleteAclsFilterResult(
                error_message=None, matching_acls=[_matching_acl(*met) for met in next(outcomes)]
            )
            for entry in filters
        ]
    )


def _read(requested: m.DeleteAclsFilter) -> ACLFilter | KafkaError:
    try:
        return acl_filter(requested)
    except KafkaError as error:
        return error


def _matching_acl(acl: ACL, error: KafkaError | None) -> m.DeleteAclsMatchingAcl:
    code, message = (0, None) if error is None else (code_of(error), error.message)
    return m.DeleteAclsMatchingAcl(
        error_code=code, error_message=message, **resource_fields(acl.resource_pattern), **acl_fields(acl)
    )


def _failed(error: KafkaError | None) -> m.DeleteAclsFilterResult:
    assert error is not None
    return m.DeleteAclsFilterResult(error_code=code_of(error), error_message=error.message)
