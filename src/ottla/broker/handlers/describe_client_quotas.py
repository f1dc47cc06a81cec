"""DescribeClientQuotas: the quotas of entities that match a filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla import addresses
from ottla.broker.quotas.quota_entities import CLIENT_ID, IP, KEYS, USER, Parts, parts_of
from ottla.broker.request_context import RequestContext
from ottla.errors import InvalidRequestError
from ottla.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

EXACT, DEFAULT, ANY = 0, 1, 2


def handle(request: DescribeClientQuotasRequest, context: RequestContext) -> DescribeClientQuotasResponse:
    """Return the entities with quotas that match the filter."""
    components = {component.entity_type: component for component in request.components}
    _check(request, components)
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()],
            values=[ValueData(key=key, value=value) for key, value in values.items()],
        )
        for parts, values in _quotas(context)
        if _matches(parts, components, request.strict)
    ]
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _check(request: DescribeClientQuotasRequest, components: Mapping[str, ComponentData]) -> None:
    if len(components) < len(request.components):
        raise InvalidRequestError("the filter must not contain the same entity type twice")
    unknown = components.keys() - {USER, CLIENT_ID, IP}
    if unknown:
        raise InvalidRequestError(f"Custom entity type {min(unknown)!r} is not supported")
    if IP in components and len(components) > 1:
        raise InvalidRequestError("Invalid entity filter component combination: ip cannot be combined with other types")
    for component in components.values():
        if component.match_type not in (EXACT, DEFAULT, ANY):
            raise InvalidRequestError(f"Unexpected match type {component.match_type}")
        if component.match_type == EXACT and component.match is None:
            raise InvalidRequestError(f"the filter lacks the name of the {component.entity_type}")


def _quotas(context: RequestContext) -> Iterator[tuple[Parts, dict[str, float]]]:
    for path, options in sorted(context.broker.image.configs.items()):
        parts = parts_of(path)
        if parts is not None:
            keys = KEYS[IP if IP in parts else USER]
            values = {key: float(value) for key, value in options.items() if key in keys}
            if values:
                yield parts, values


def _matches(parts: Parts, components: Mapping[str, ComponentData], strict: bool) -> bool:
    if strict and parts.keys() != components.keys():
        return False
    if not parts.keys() >= components.keys():
        return False
    return all(_matches_one(parts[kind], component) for kind, component in components.items())


def _matches_one(name: str | None, component: ComponentData) -> bool:
    if component.match_type == ANY:
        return True
    if component.match_type == DEFAULT or name is None or component.match is None:
        return name is None and component.match_type == DEFAULT
    if component.entity_type == IP:
        return addresses.canonical_or_same(name) == addresses.canonical_or_same(component.match)
    return name == component.match
