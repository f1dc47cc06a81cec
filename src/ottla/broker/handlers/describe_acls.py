"""DescribeAcls: the ACLs that match a filter, grouped by resource. Version 0 does not know prefixed patterns.

Requires DESCRIBE on the cluster (`apis.ApiEntry.required_cluster_operation`).
"""

from __future__ import annotations

from itertools import groupby

from ottla.broker.request_context import RequestContext
from ottla.broker.security.acl_requests import NO_AUTHORIZER, acl_fields, acl_filter, resource_fields
from ottla.errors import SecurityDisabledError
from ottla.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.security.acl import ACL, ResourcePattern


async def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """Return the matching ACLs.

    The metadata store is read first, because the client may have just added an ACL at another broker.
    """
    store = context.broker.acl_store
    if store is None:
        raise SecurityDisabledError(NO_AUTHORIZER)
    pattern_filter = acl_filter(request)
    await store.refresh()
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(**resource_fields(pattern), acls=[AclDescription(**acl_fields(acl)) for acl in acls])
            for pattern, acls in groupby(store.matching(pattern_filter), _resources)
        ]
    )


def _resources(acl: ACL) -> ResourcePattern:
    return acl.resource_pattern
