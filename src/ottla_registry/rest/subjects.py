"""The routes of subjects and their versions."""

from __future__ import annotations

from typing import Any

from ottla_registry.registry import request_schema
from ottla_registry.rest.exchange import Call, Text
from ottla_registry.store.records import StoredSchema
from ottla_registry.store.state import ANY_CONTEXT


async def list_subjects(call: Call) -> Any:
    is_deleted_only = call.flag("deletedOnly")
    state = call.registry.state
    prefix = call.query("subjectPrefix", ANY_CONTEXT)
    subjects = state.prefixed(prefix, deleted=call.flag("deleted") or is_deleted_only)
    if is_deleted_only:
        live = set(state.subjects())
        subjects = [subject for subject in subjects if subject not in live]
    return call.page(subjects)


async def look_up(call: Call) -> Any:
    request = request_schema(call.subject, await call.body())
    schema = await call.registry.look_up(request, normalize=call.flag("normalize"), deleted=call.flag("deleted"))
    return await _shown(call, schema)


async def delete_subject(call: Call) -> Any:
    return await call.registry.delete_subject(call.subject, permanent=call.flag("permanent"))


async def list_versions(call: Call) -> Any:
    is_negative = call.flag("deletedAsNegative")
    deleted, deleted_only = call.flag("deleted") or is_negative, call.flag("deletedOnly") and not is_negative
    versions = call.registry.versions(call.subject, deleted=deleted, deleted_only=deleted_only)
    return call.page([-schema.version if schema.deleted and is_negative else schema.version for schema in versions])


async def register(call: Call) -> Any:
    request = request_schema(call.subject, await call.body())
    schema = await call.registry.register(request, normalize=call.flag("normalize"))
    # Without the schema: clients would cache it instead of their own.
    return call.with_guid({"id": schema.id}, schema)


async def get_version(call: Call) -> Any:
    return await _shown(call, _version(call))


async def get_version_text(call: Call) -> Any:
    return Text((await call.registry.in_format(_version(call), call.query("format"))).schema)


def _version(call: Call) -> StoredSchema:
    return call.registry.version_in_contexts(call.subject, call.version, deleted=call.flag("deleted"))


async def _shown(call: Call, schema: StoredSchema) -> dict[str, Any]:
    return call.with_guid((await call.registry.in_format(schema, call.query("format"))).to_json(), schema)


async def delete_version(call: Call) -> Any:
    return await call.registry.delete_version(call.subject, call.version, permanent=call.flag("permanent"))


async def referenced_by(call: Call) -> Any:
    schema = call.registry.version(call.subject, call.version, deleted=True)
    users = call.registry.state.referencing(schema.subject, schema.version, deleted=call.flag("deleted"))
    return call.page(sorted({user.id for user in users}))


async def get_latest_with_metadata(call: Call) -> Any:
    query = call.request.query_params
    properties = dict(zip(query.getlist("key"), query.getlist("value"), strict=False))
    return await _shown(call, call.registry.latest_with(call.subject, properties, deleted=call.flag("deleted")))
