"""The routes of schemas by id and GUID, and of the lists of schemas, schema types and contexts."""

from __future__ import annotations

from typing import Any

from ottla_registry import errors
from ottla_registry.metadata import has_rules_of_type
from ottla_registry.rest.exchange import Call, Text
from ottla_registry.schemas.types import TYPES
from ottla_registry.store.records import StoredSchema
from ottla_registry.subjects import context_of


def _users(call: Call) -> list[StoredSchema]:
    return call.registry.users(call.schema_id, call.queried_subject)


def _shown(call: Call) -> list[StoredSchema]:
    """Return the versions with a schema id, without those that are deleted unless they are requested."""
    users = [schema for schema in _users(call) if not schema.deleted or call.flag("deleted")]
    return sorted(users, key=lambda schema: (schema.subject, schema.version))


async def get_schema(call: Call) -> Any:
    schema = _users(call)[0]
    document = await _content(call, schema)
    if call.flag("fetchMaxId"):
        document["maxId"] = call.registry.state.highest_id(context_of(schema.subject))
    return document


async def _content(call: Call, schema: StoredSchema) -> dict[str, Any]:
    return call.with_guid((await call.registry.in_format(schema, call.query("format"))).content(), schema)


async def get_schema_text(call: Call) -> Any:
    return Text((await call.registry.in_format(_users(call)[0], call.query("format"))).schema)


def _with_guid(call: Call) -> list[StoredSchema]:
    schemas = call.registry.state.by_guid(call.guid)
    if not schemas:
        raise errors.schema_not_found(call.guid)
    return schemas


async def get_schema_by_guid(call: Call) -> Any:
    return await _content(call, _with_guid(call)[0])


async def list_ids_of_guid(call: Call) -> Any:
    ids = sorted({(context_of(schema.subject), schema.id) for schema in _with_guid(call)})
    return [{"context": context, "id": schema_id} for context, schema_id in ids]


async def list_subjects(call: Call) -> Any:
    return call.page(sorted({schema.subject for schema in _shown(call)}))


async def list_versions(call: Call) -> Any:
    return call.page([{"subject": schema.subject, "version": schema.version} for schema in _shown(call)])


async def list_types(call: Call) -> Any:
    return sorted(TYPES)


async def list_schemas(call: Call) -> Any:
    state = call.registry.state
    is_latest_only, is_deleted = call.flag("latestOnly"), call.flag("deleted")
    schemas = [
        schema
        for subject in state.prefixed(call.query("subjectPrefix"), deleted=is_deleted)
        for schema in state.versions(subject, deleted=is_deleted)[-1 if is_latest_only else 0 :]
    ]
    if rule_type := call.query("ruleType"):
        schemas = [schema for schema in schemas if has_rules_of_type(schema.field("ruleSet") or {}, rule_type)]
    return [call.with_guid(schema.to_json(), schema) for schema in call.page(schemas)]


async def list_contexts(call: Call) -> Any:
    prefix = call.query("contextPrefix")
    return call.page([context for context in call.registry.state.contexts() if context.startswith(prefix)])
