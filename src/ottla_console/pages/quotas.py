"""Pages that list and change client quotas."""

from __future__ import annotations

import math
from typing import Final

from starlette.responses import Response

from ottla.client.admin.quotas import ClientQuotaAlteration
from ottla_console.cluster.clients import CHANGE_MS, READ_MS
from ottla_console.web.page import BadInputError, Page

ENTITIES: Final[dict[str, str]] = {"user": "user", "client-id": "client-id", "ip": "ip"}
NAMES: Final[dict[str, str]] = {
    "producer_byte_rate": "bytes/s",
    "consumer_byte_rate": "bytes/s",
    "request_percentage": "% of a thread",
    "controller_mutation_rate": "partitions/s",
    "connection_creation_rate": "connections/s (ip only)",
}


async def listing(page: Page) -> Response:
    """Return the page that lists the quotas."""
    described = await page.admin.describe_client_quotas(None, READ_MS)
    quotas = sorted(described.items(), key=lambda item: [(kind, name or "") for kind, name in item[0]])
    collector = page.console.collector
    return page.render(
        "quotas.html",
        quotas=quotas,
        entities=ENTITIES,
        names=NAMES,
        usage=[(row, row.limit(described)) for row in collector.quota_usage],
        has_metrics=collector.metric_pages is not None,
        failed=collector.metric_pages.errors if collector.metric_pages is not None else {},
    )


async def alter(page: Page) -> Response:
    """Set or remove a quota of an entity."""
    entity: dict[str, str | None] = {}
    for kind in ENTITIES:
        name = page.text(kind, "")
        if name:
            entity[kind] = None if name == "<default>" else name
    if not entity:
        raise BadInputError("set a user, a client-id or an ip; <default> applies to all that have no quota")
    quota = page.choice("quota", {name: name for name in NAMES})
    value = None if page.text("operation", "set") == "remove" else _value(page)
    label = " ".join(f"{kind}:{name or '<default>'}" for kind, name in entity.items())
    with page.audited("alter-quota", f"{label} {quota}={value}"):
        await page.admin.alter_client_quotas([ClientQuotaAlteration(entity, {quota: value})], CHANGE_MS)
    return page.done("/quotas", f"{quota} of {label} was {'removed' if value is None else f'set to {value:g}'}.")


def _value(page: Page) -> float:
    try:
        value = float(page.text("value"))
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise BadInputError("value: expected a number greater than zero")
    return value
