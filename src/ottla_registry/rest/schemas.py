"""The routes of schemas by id, and of the list of all schemas."""

from __future__ import annotations

from typing import Any

from ottla_registry.rest.exchange import Call, Text
from ottla_registry.schemas.types import TYPES
from ottla_registry.store.records import StoredSchema
from ottla_registry.subjects import qualified


def _users(call: Call) -> list[StoredSchema]:
    return call.registry.users(call.schema_id, qualified(call.query("subject")))


def _shown(call: Call) -> list[StoredSchema]:
    """Return the versions with a schema id, without those that are deleted unless they are requested."""
    users = [schema for schema in _users(call) if not schema.deleted or call.flag("deleted")]
    return sorted(users, key=lambda schema: (schema.subject, schema.version))


async def get_schema(call: Call) -> Any:
    return (await call.registry.in_format(_users(call)[0], call.query("format"))).content()


async def get_schema_text(call: Call) -> Any:
    return Text(_users(call)[0].schema)


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
    return [schema.to_json() for schema in call.page(schemas)]


async def list_contexts(call: Call) -> Any:
    prefix = call.query("contextPrefix")
    return call.page([context for context in call.registry.state.contexts() if context.startswith(prefix)])
