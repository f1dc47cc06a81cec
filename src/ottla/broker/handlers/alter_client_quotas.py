"""AlterClientQuotas: set and remove quotas of users, clients and addresses. Requires ALTER_CONFIGS on the cluster."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.error_responses import errors_in
from ottla.broker.quotas.quota_entities import KEYS, path_of
from ottla.broker.request_context import RequestContext
from ottla.errors import InvalidRequestError
from ottla.model import ACLOperation
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResponseData,
    OpData,
)
from ottla.security.acl import ResourceType


async def handle(request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
    """Alter the quotas of each entity. An error of one does not affect the others."""
    authorization_error = context.authorization_error(ACLOperation.ALTER_CONFIGS, ResourceType.CLUSTER)
    answers = []
    for entry in request.entries:
        answer = EntryResponseData(entity=entry.entity, error_message=None)
        with errors_in(answer):
            if authorization_error is not None:
                raise authorization_error
            await _alter(entry, request.validate_only, context)
        answers.append(answer)
    return AlterClientQuotasResponse(entries=answers)


async def _alter(entry: EntryData, validate_only: bool, context: RequestContext) -> None:
    parts = {part.entity_type: part.entity_name for part in entry.entity}
    if len(parts) < len(entry.entity):
        raise InvalidRequestError("an entity must not contain the same type twice")
    path = path_of(parts)

    async def attempt() -> None:
        options = dict(context.broker.image.configs.get(path, {}))
        for op in entry.ops:
            _apply(op, options, KEYS["ip" if "ip" in parts else "user"])
        if not validate_only:
            await context.broker.config_store.set(path, options)
            changes = ", ".join(f"{op.key} removed" if op.remove else f"{op.key}={op.value:g}" for op in entry.ops)
            context.log_change("Changed quotas of %s: %s", path, changes)

    await context.broker.config_store.change(path, attempt)


def _apply(op: OpData, options: dict[str, str], keys: Mapping[str, type]) -> None:
    kind = keys.get(op.key)
    if kind is None:
        raise InvalidRequestError(f"Invalid configuration key {op.key}; supported: {', '.join(keys)}")
    if op.remove:
        options.pop(op.key, None)
        return
    if not op.value > 0 or op.value == float("inf") or (kind is int and not float(op.value).is_integer()):
        expected = "a whole number above 0" if kind is int else "a number above 0"
        raise InvalidRequestError(f"{op.key}: {op.value} is not allowed, it must be {expected}")
    options[op.key] = str(kind(op.value))
