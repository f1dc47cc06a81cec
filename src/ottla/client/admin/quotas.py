"""Quotas of users, clients and IP addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.driver import AdminCall, AdminDriver, Errors, failure, to_controller
from ottla.protocol.messages import alter_client_quotas as alter_quotas
from ottla.protocol.messages import describe_client_quotas as quotas

EXACT, DEFAULT, SPECIFIED = range(3)
"""Match types of a filter component: an exact name, the default entity, any name."""

Entity = tuple[tuple[str, str | None], ...]
"""An entity with quotas: (type, name) pairs, such as (("user", "alice"), ("client-id", None)). The name None is the
default entity.
"""


class ClientQuotaFilterComponent(NamedTuple):
    """A condition on an entity: it has a component of this type with this name (None: the default entity), or with any
    name if `any_name` is set.
    """

    entity_type: str
    name: str | None = None
    any_name: bool = False


class ClientQuotaFilter(NamedTuple):
    """Selects the entities that meet all of these conditions and, if `strict`, have no further components."""

    components: tuple[ClientQuotaFilterComponent, ...] = ()
    strict: bool = False


class ClientQuotaAlteration(NamedTuple):
    """A change of an entity's quotas: `{"producer_byte_rate": 1024.0}` sets a quota, the value None removes it."""

    entity: Entity | Mapping[str, str | None]
    ops: Mapping[str, float | None]


class QuotasAdmin(AdminDriver):
    """Admin calls for quotas."""

    async def describe_client_quotas(
        self,
        quota_filter: ClientQuotaFilter | None = None,
        timeout_ms: float | None = None,
    ) -> dict[Entity, dict[str, float]]:
        """Return the quotas of entities that match a filter (None: all), by entity and quota name."""
        parts = quota_filter or ClientQuotaFilter()
        return await self.call(
            quotas.DescribeClientQuotasRequest(
                components=[_component(part) for part in parts.components], strict=parts.strict
            ),
            lambda response: {
                tuple((e.entity_type, e.entity_name) for e in entry.entity): {v.key: v.value for v in entry.values}
                for entry in response.entries or ()
            },
            timeout_ms,
            "quotas",
        )

    async def alter_client_quotas(
        self,
        entries: Iterable[ClientQuotaAlteration],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Set and remove quotas; with `validate_only`, only check the changes. The keys of `errors` are entities."""
        changes = {_entity(entry.entity): dict(entry.ops) for entry in entries}
        call: AdminCall[Entity, None] = AdminCall(
            lambda entities: alter_quotas.AlterClientQuotasRequest(
                entries=[_quota_entry(entity, changes[entity]) for entity in entities], validate_only=validate_only
            ),
            lambda response, *_: {
                entity: failure(entry.error_code, _label(entity), entry.error_message)
                for entry in response.entries
                for entity in (_entity(tuple((e.entity_type, e.entity_name) for e in entry.entity)),)
            },
            to_controller,
        )
        await self.call_per_key(call, changes, timeout_ms, errors)


def _entity(entity: Entity | Mapping[str, str | None]) -> Entity:
    """Return the entity with its components sorted by type."""
    return tuple(sorted(entity.items() if isinstance(entity, Mapping) else entity, key=lambda part: part[0]))


def _label(entity: Entity) -> str:
    return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in entity)


def _component(part: ClientQuotaFilterComponent) -> quotas.ComponentData:
    kind = SPECIFIED if part.any_name else DEFAULT if part.name is None else EXACT
    return quotas.ComponentData(entity_type=part.entity_type, match_type=kind, match=part.name)


def _quota_entry(entity: Entity, ops: Mapping[str, float | None]) -> alter_quotas.EntryData:
    return alter_quotas.EntryData(
        entity=[alter_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[alter_quotas.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()],
    )
