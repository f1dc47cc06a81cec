"""Pages that list, create and delete ACLs."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from ottla.model import ACLOperation
from ottla.security.acl import (
    ACL,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)
from ottla_console.cluster.clients import CHANGE_MS
from ottla_console.pages.paging import Slice
from ottla_console.web.page import BadInputError, Page

TYPES: Final = {kind.name: kind for kind in ResourceType if kind > ResourceType.ANY}
PATTERNS: Final = {kind.name: kind for kind in (ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED)}
PERMISSIONS: Final = {kind.name: kind for kind in (ACLPermissionType.ALLOW, ACLPermissionType.DENY)}
OPERATIONS: Final = {kind.name: kind for kind in ACLOperation if kind > ACLOperation.ANY}


async def listing(page: Page) -> Response:
    """Return the list of ACLs."""
    search = page.text("search", "")
    listed = await page.console.collector.acls()
    shown = [acl for acl in listed.rows if search.lower() in str(acl).lower()]
    return page.render(
        "acls.html",
        part=Slice.for_page(page, shown),
        search=search,
        disabled=listed.disabled,
        types=TYPES,
        patterns=PATTERNS,
        permissions=PERMISSIONS,
        operations=OPERATIONS,
    )


async def create(page: Page) -> Response:
    """Create an ACL."""
    acl = _acl(page)
    with page.audited("create-acl", str(acl)):
        await page.admin.create_acls([acl], CHANGE_MS)
    return page.done("/acls", f"{acl} was created.")


async def delete(page: Page) -> Response:
    """Delete an ACL."""
    acl = _acl(page)
    with page.audited("delete-acl", str(acl)):
        await page.admin.delete_acls([acl], CHANGE_MS)
    return page.done("/acls", f"{acl} was deleted.")


def _acl(page: Page) -> ACL:
    principal = page.text("principal")
    if ":" not in principal:
        raise BadInputError("principal: expected a type and a name, such as User:alice")
    kind = page.choice("type", TYPES)
    name = page.text("resource", "kafka-cluster" if kind is ResourceType.CLUSTER else None)
    pattern = ResourcePattern(kind, name, page.choice("pattern", PATTERNS, "LITERAL"))
    operation, permission = page.choice("operation", OPERATIONS), page.choice("permission", PERMISSIONS)
    return ACL(principal, page.text("host", "*"), operation, permission, pattern)
