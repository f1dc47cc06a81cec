"""ACLs: description, creation, deletion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ottla.client.admin.driver import AdminCall, AdminDriver, Errors, check, failure, to_controller
from ottla.model import ACLOperation
from ottla.protocol.messages import create_acls as create
from ottla.protocol.messages import delete_acls as delete
from ottla.protocol.messages import describe_acls as describe
from ottla.security.acl import (
    ACL,
    ACLFilter,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)

NOT_REQUESTED: Final = -0x8000_0000
"""The broker's value for authorized operations that were not requested."""


class AclsAdmin(AdminDriver):
    """Admin calls for ACLs. Brokers without an authorizer reject them with SecurityDisabledError."""

    async def describe_acls(
        self,
        acl_filter: ACLFilter | None = None,
        timeout_ms: float | None = None,
    ) -> list[ACL]:
        """Return the ACLs that match a filter (None: all)."""
        return await self.call(
            describe.DescribeAclsRequest(**_filter(acl_filter or ACLFilter())),
            lambda response: [
                _acl(acl, ResourcePattern(_kind(r.resource_type), r.resource_name, _pattern(r.pattern_type)))
                for r in response.resources
                for acl in r.acls
            ],
            timeout_ms,
            "ACLs",
        )

    async def create_acls(
        self, acls: Iterable[ACL], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> list[ACL]:
        """Create ACLs, and return those that were created or existed already."""
        new = list(acls)
        for acl in new:
            acl.check()
        call: AdminCall[ACL, ACL] = AdminCall(
            lambda remaining: create.CreateAclsRequest(creations=[_creation(acl) for acl in remaining]),
            lambda response, remaining, _: {
                acl: failure(r.error_code, acl, r.error_message) or acl
                for acl, r in zip(remaining, response.results, strict=True)
            },
            to_controller,
        )
        return list(await self.call_per_key(call, new, timeout_ms, errors))

    async def delete_acls(
        self, acl_filters: Iterable[ACLFilter | ACL], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> dict[ACLFilter | ACL, list[ACL]]:
        """Delete the ACLs that match the filters, and return the deleted ACLs by filter."""
        call: AdminCall[ACLFilter | ACL, list[ACL]] = AdminCall(
            lambda remaining: delete.DeleteAclsRequest(
                filters=[delete.DeleteAclsFilter(**_filter(acl_filter)) for acl_filter in remaining]
            ),
            lambda response, remaining, _: {
                acl_filter: failure(r.error_code, acl_filter, r.error_message) or _deleted(r)
                for acl_filter, r in zip(remaining, response.filter_results, strict=True)
            },
            to_controller,
        )
        return await self.call_per_key(call, acl_filters, timeout_ms, errors)


def operations_of(bits: int) -> frozenset[ACLOperation] | None:
    """Decode the bit field of the operations that the client is authorized for (KIP-430). Return None if they were not
    requested.
    """
    if bits == NOT_REQUESTED:
        return None
    return frozenset(operation for operation in ACLOperation if bits & (1 << operation))


def _filter(acl_filter: ACLFilter | ACL) -> dict[str, Any]:
    kind, name, pattern = acl_filter.resource_pattern
    return {
        "resource_type_filter": int(kind),
        "resource_name_filter": name,
        "pattern_type_filter": int(pattern),
        "principal_filter": acl_filter.principal,
        "host_filter": acl_filter.host,
        "operation": int(acl_filter.operation),
        "permission_type": int(acl_filter.permission_type),
    }


def _creation(acl: ACL) -> create.AclCreation:
    kind, name, pattern = acl.resource_pattern
    return create.AclCreation(
        resource_type=int(kind),
        resource_name=name,
        resource_pattern_type=int(pattern),
        principal=acl.principal,
        host=acl.host,
        operation=int(acl.operation),
        permission_type=int(acl.permission_type),
    )


def _deleted(result: delete.DeleteAclsFilterResult) -> list[ACL]:
    acls = []
    for match in result.matching_acls:
        check(match.error_code, match.resource_name, match.error_message)
        pattern = ResourcePattern(_kind(match.resource_type), match.resource_name, _pattern(match.pattern_type))
        acls.append(_acl(match, pattern))
    return acls


def _acl(item: Any, pattern: ResourcePattern) -> ACL:
    operation = ACLOperation(item.operation) if item.operation in set(ACLOperation) else ACLOperation.UNKNOWN
    return ACL(item.principal, item.host, operation, ACLPermissionType(item.permission_type), pattern)


def _kind(number: int) -> ResourceType:
    return ResourceType(number) if number in set(ResourceType) else ResourceType.UNKNOWN


def _pattern(number: int) -> ACLResourcePatternType:
    return ACLResourcePatternType(number)
