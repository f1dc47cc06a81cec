"""Quotas of users, clients and addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.driver import AdminCalls, Errors, check, failure
from ottla.errors import KafkaError
from ottla.protocol.messages import alter_client_quotas as alter_quotas
from ottla.protocol.messages import describe_client_quotas as quotas

EXACT, DEFAULT, SPECIFIED = range(3)
"""How a part of a filter matches: a name, the default entity, any that is specified."""

Entity = tuple[tuple[str, str | None], ...]
"""What has quotas: (type, name) pairs, such as (("user", "alice"), ("client-id", None)); None is the default."""


class ClientQuotaFilterComponent(NamedTuple):
    """A part of an entity: of this type and name (None: the default one), or (`any_name`) of any name."""

    entity_type: str
    name: str | None = None
    any_name: bool = False


class ClientQuotaFilter(NamedTuple):
    """Entities with all of these parts and (`strict`) no others; no parts and not strict: all."""

    components: tuple[ClientQuotaFilterComponent, ...] = ()
    strict: bool = False


class ClientQuotaAlteration(NamedTuple):
    """Quotas to set of an entity, or (None) to remove: `{"producer_byte_rate": 1024.0}`."""

    entity: Entity | Mapping[str, str | None]
    ops: Mapping[str, float | None]


class QuotasAdmin(AdminCalls):
    """Calls about quotas."""

    async def describe_client_quotas(
        self,
        quota_filter: ClientQuotaFilter | None = None,
        timeout_ms: float | None = None,
    ) -> dict[Entity, dict[str, float]]:
        """The quotas of entities (of all of them with None), by entity and name."""
        wanted = quota_filter or ClientQuotaFilter()
        request = quotas.DescribeClientQuotasRequest(
            components=[_component(part) for part in wanted.components], strict=wanted.strict
        )

        async def attempt() -> dict[Entity, dict[str, float]]:
            response = await self.connections.ask_any(request)
            check(response.error_code, "quotas", response.error_message)
            return {
                tuple((e.entity_type, e.entity_name) for e in entry.entity): {v.key: v.value for v in entry.values}
                for entry in response.entries or ()
            }

        return await self.retried(attempt, timeout_ms)

    async def alter_client_quotas(
        self,
        entries: Iterable[ClientQuotaAlteration],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Set and remove quotas."""
        wanted = {_entity(entry.entity): dict(entry.ops) for entry in entries}

        async def attempt(left: list[Entity]) -> dict[Entity, KafkaError | None]:
            request = alter_quotas.AlterClientQuotasRequest(
                entries=[_quota_entry(entity, wanted[entity]) for entity in left], validate_only=validate_only
            )
            response = await self.ask_controller(request)
            found: dict[Entity, KafkaError | None] = {}
            for entry in response.entries:
                entity = _entity(tuple((e.entity_type, e.entity_name) for e in entry.entity))
                found[entity] = failure(entry.error_code, _told(entity), entry.error_message)
            return found

        await self.settled(wanted, attempt, timeout_ms, errors)


def _entity(given: Entity | Mapping[str, str | None]) -> Entity:
    """The parts in one order, whoever tells them."""
    return tuple(sorted(given.items() if isinstance(given, Mapping) else given, key=lambda part: part[0]))


def _told(entity: Entity) -> str:
    return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in entity)


def _component(part: ClientQuotaFilterComponent) -> quotas.ComponentData:
    kind = SPECIFIED if part.any_name else DEFAULT if part.name is None else EXACT
    return quotas.ComponentData(entity_type=part.entity_type, match_type=kind, match=part.name)


def _quota_entry(entity: Entity, ops: Mapping[str, float | None]) -> alter_quotas.EntryData:
    return alter_quotas.EntryData(
        entity=[alter_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[alter_quotas.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()],
    )
