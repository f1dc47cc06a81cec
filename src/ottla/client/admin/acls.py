"""Access rules (ACLs): told, added, removed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ottla.client.admin.driver import AdminCalls, Errors, check, failure
from ottla.errors import KafkaError
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

NOT_ASKED: Final = -0x8000_0000


class AclsAdmin(AdminCalls):
    """Calls about access rules. Brokers without an authorizer answer SecurityDisabledError."""

    async def describe_acls(
        self,
        acl_filter: ACLFilter | None = None,
        timeout_ms: float | None = None,
    ) -> list[ACL]:
        """The rules that match a filter; all of them with None."""
        request = describe.DescribeAclsRequest(**_filter(acl_filter or ACLFilter()))

        async def attempt() -> list[ACL]:
            response = await self.connections.ask_any(request)
            check(response.error_code, "access rules", response.error_message)
            return [
                _acl(rule, ResourcePattern(_kind(r.resource_type), r.resource_name, _pattern(r.pattern_type)))
                for r in response.resources
                for rule in r.acls
            ]

        return await self.retried(attempt, timeout_ms)

    async def create_acls(
        self, acls: Iterable[ACL], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> list[ACL]:
        """Add rules; those that were added. One that is there already is no error."""
        wanted = list(acls)
        for acl in wanted:
            acl.check()

        async def attempt(left: list[ACL]) -> dict[ACL, ACL | KafkaError]:
            response = await self.ask_controller(create.CreateAclsRequest(creations=[_creation(acl) for acl in left]))
            return {
                acl: failure(r.error_code, acl, r.error_message) or acl
                for acl, r in zip(left, response.results, strict=True)
            }

        return list(await self.settled(wanted, attempt, timeout_ms, errors))

    async def delete_acls(
        self, acl_filters: Iterable[ACLFilter | ACL], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> dict[ACLFilter | ACL, list[ACL]]:
        """Remove the rules that match filters; which those were, by filter."""

        async def attempt(left: list[ACLFilter | ACL]) -> dict[ACLFilter | ACL, list[ACL] | KafkaError]:
            request = delete.DeleteAclsRequest(filters=[_deletion(wanted) for wanted in left])
            response = await self.ask_controller(request)
            return {
                wanted: failure(r.error_code, wanted, r.error_message) or _deleted(r)
                for wanted, r in zip(left, response.filter_results, strict=True)
            }

        return await self.settled(acl_filters, attempt, timeout_ms, errors)


def operations_of(bits: int) -> frozenset[ACLOperation] | None:
    """What the client may do with a resource (KIP-430); None where that was not asked."""
    if bits == NOT_ASKED:
        return None
    return frozenset(operation for operation in ACLOperation if bits & (1 << operation))


def _filter(wanted: ACLFilter | ACL) -> dict[str, Any]:
    kind, name, pattern = wanted.resource_pattern
    return {
        "resource_type_filter": int(kind),
        "resource_name_filter": name,
        "pattern_type_filter": int(pattern),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": int(wanted.operation),
        "permission_type": int(wanted.permission_type),
    }


def _deletion(wanted: ACLFilter | ACL) -> delete.DeleteAclsFilter:
    return delete.DeleteAclsFilter(**_filter(wanted))


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
    found = []
    for match in result.matching_acls:
        check(match.error_code, match.resource_name, match.error_message)
        pattern = ResourcePattern(_kind(match.resource_type), match.resource_name, _pattern(match.pattern_type))
        found.append(_acl(match, pattern))
    return found


def _acl(rule: Any, pattern: ResourcePattern) -> ACL:
    operation = ACLOperation(rule.operation) if rule.operation in set(ACLOperation) else ACLOperation.UNKNOWN
    return ACL(rule.principal, rule.host, operation, ACLPermissionType(rule.permission_type), pattern)


def _kind(number: int) -> ResourceType:
    return ResourceType(number) if number in set(ResourceType) else ResourceType.UNKNOWN


def _pattern(number: int) -> ACLResourcePatternType:
    return ACLResourcePatternType(number)
