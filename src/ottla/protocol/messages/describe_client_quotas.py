"""DescribeClientQuotas (key 48): quotas of users, clients and addresses (KIP-546).

- version 1 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ComponentData(Struct):
    """A condition for one entity type. Match type 0: the name in `match`; 1: the default entity; 2: any entity."""

    entity_type: str = f.string("0+")
    match_type: int = f.int8("0+")
    match: str | None = f.string("0+", nullable="0+")


class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"], api_key=48, versions="0-1", flexible="1+"):
    """The filter of entities. With `strict`, an entity matches only if it has no other entity types than those in
    `components`.
    """

    components: list[ComponentData] = f.array(ComponentData, "0+")
    strict: bool = f.boolean("0+")


class EntityData(Struct):
    """One part of an entity: its type (user, client-id, ip) and its name; None for the default."""

    entity_type: str = f.string("0+")
    entity_name: str | None = f.string("0+", nullable="0+")


class ValueData(Struct):
    """One quota: its key, such as producer_byte_rate, and its value."""

    key: str = f.string("0+")
    value: float = f.float64("0+")


class EntryData(Struct):
    """One entity and its quotas."""

    entity: list[EntityData] = f.array(EntityData, "0+")
    values: list[ValueData] = f.array(ValueData, "0+")


class DescribeClientQuotasResponse(Response, api_key=48, versions="0-1", flexible="1+"):
    """The entities that match the filter, with their quotas."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    entries: list[EntryData] | None = f.array(EntryData, "0+", nullable="0+")
