"""AlterClientQuotas (key 49): set and remove quotas of users, clients and addresses (KIP-546).

- version 1 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class EntityData(Struct):
    """One part of an entity: its type (user, client-id, ip) and its name; None for the default."""

    entity_type: str = f.string("0+")
    entity_name: str | None = f.string("0+", nullable="0+")


class OpData(Struct):
    """One quota: its key, and its new value or its removal."""

    key: str = f.string("0+")
    value: float = f.float64("0+")
    remove: bool = f.boolean("0+")


class EntryData(Struct):
    """One entity and the changes of its quotas."""

    entity: list[EntityData] = f.array(EntityData, "0+")
    ops: list[OpData] = f.array(OpData, "0+")


class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"], api_key=49, versions="0-1", flexible="1+"):
    """The quotas to set or remove. With `validate_only`, the broker only checks them."""

    entries: list[EntryData] = f.array(EntryData, "0+")
    validate_only: bool = f.boolean("0+")


class EntryResponseData(Struct):
    """The outcome of one entity."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    entity: list[EntityData] = f.array(EntityData, "0+")


class AlterClientQuotasResponse(Response, api_key=49, versions="0-1", flexible="1+"):
    """The result of each entity."""

    throttle_time_ms: int = f.int32("0+")
    entries: list[EntryResponseData] = f.array(EntryResponseData, "0+")
