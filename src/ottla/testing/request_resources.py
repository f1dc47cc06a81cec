"""The topics, groups and transactional ids that a request names. They are recognized by the names of fields and
structures, which are similar in all APIs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from ottla.broker.request_context import RequestContext
from ottla.protocol.message import Request, Struct
from ottla.protocol.messages.fetch import FetchRequest

TOPIC_FIELDS: Final = ("topic", "topic_name", "name")
PARTITION_FIELDS: Final = ("partition_index", "partition", "index")
GROUP_FIELDS: Final = frozenset({"group_id", "group_ids", "groups", "groups_names"})
TRANSACTIONAL_ID_FIELDS: Final = frozenset({"transactional_id", "transactional_ids", "v3_and_below_transactional_id"})
GROUP_KEY, TRANSACTION_KEY = 0, 1
"""The key types of FindCoordinator."""

NamedPartition = tuple[str, int | None]
"""A topic and a partition; the partition is None for the topic itself."""


def partitions(request: Request[Any], context: RequestContext) -> Iterator[NamedPartition]:
    """Yield the topics and partitions that a request names, and for Fetch those of its fetch session. A topic whose
    partitions are named is also yielded without a partition.
    """
    names: dict[UUID, str] = {}
    yield from _partitions(request, context, names)
    if isinstance(request, FetchRequest) and request.session_id:
        for key in context.broker.fetch_sessions.partitions(request.session_id):
            name = key.topic or _name(key.topic_id, context, names)
            yield name, key.partition
            yield name, None


def _partitions(item: Struct, context: RequestContext, names: dict[UUID, str]) -> Iterator[NamedPartition]:
    name = _topic(item, context, names)
    for field in item.FIELDS:
        if field.kind != "array":
            continue
        for inner in getattr(item, field.name) or ():
            if name is not None and "partition" in field.name:
                yield name, inner if isinstance(inner, int) else _partition(inner)
            elif isinstance(inner, Struct):
                yield from _partitions(inner, context, names)
            elif field.name == "topic_names":
                yield inner, None
    if name is not None:
        yield name, None


def _partition(item: Struct) -> int | None:
    return next((getattr(item, name) for name in PARTITION_FIELDS if hasattr(item, name)), None)


def _topic(item: Struct, context: RequestContext, names: dict[UUID, str]) -> str | None:
    """Return the name of the topic that a structure is about, empty for an unknown topic id; None if the structure is
    about something else.
    """
    if "Topic" not in type(item).__name__ or isinstance(item, Request):
        return None
    name = next((value for field in TOPIC_FIELDS if (value := getattr(item, field, None))), None)
    topic_id = getattr(item, "topic_id", None)
    return name or (_name(topic_id, context, names) if isinstance(topic_id, UUID) else None)


def _name(topic_id: UUID, context: RequestContext, names: dict[UUID, str]) -> str:
    if not names:
        names.update((topic.id, name) for name, topic in context.broker.image.topics.items())
    return names.get(topic_id, "")


def groups(request: Request[Any]) -> set[str]:
    """Return the ids of the groups that a request names."""
    return _named(request, GROUP_FIELDS, GROUP_KEY)


def transactional_ids(request: Request[Any]) -> set[str]:
    """Return the transactional ids that a request names."""
    return _named(request, TRANSACTIONAL_ID_FIELDS, TRANSACTION_KEY)


def _named(request: Request[Any], fields: frozenset[str], key_type: int) -> set[str]:
    if request.NAME == "FindCoordinator":
        body: Any = request
        return {key for key in (body.key, *body.coordinator_keys) if key} if body.key_type == key_type else set()
    return set(_texts(request, fields))


def _texts(item: Struct, fields: frozenset[str]) -> Iterator[str]:
    for field in item.FIELDS:
        value = getattr(item, field.name)
        for inner in value or () if field.kind == "array" else (value,):
            if isinstance(inner, Struct):
                yield from _texts(inner, fields)
            elif field.name in fields and isinstance(inner, str) and inner:
                yield inner
