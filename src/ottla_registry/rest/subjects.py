"""The routes of subjects and their versions."""

from __future__ import annotations

from typing import Any

from ottla_registry.registry import request_schema
from ottla_registry.rest.exchange import Call, Text
from ottla_registry.subjects import context_of


async def list_subjects(call: Call) -> Any:
    prefix = call.query("subjectPrefix", ":*:")
    is_deleted_only = call.flag("deletedOnly")
    state = call.registry.state
    subjects = state.subjects(
        "" if prefix.startswith(":*:") else prefix.removeprefix(":.:"), deleted=call.flag("deleted") or is_deleted_only
    )
    if prefix.startswith(":*:"):
        subjects = [subject for subject in subjects if _plain_name(subject).startswith(prefix[3:])]
    elif not prefix.startswith(":.") or prefix.startswith(":.:"):
        subjects = [subject for subject in subjects if context_of(subject) == "."]
    if is_deleted_only:
        live = set(state.subjects())
        subjects = [subject for subject in subjects if subject not in live]
    return call.page(subjects)


def _plain_name(subject: str) -> str:
    return subject.split(":", 2)[2] if subject.startswith(":.") else subject


async def look_up(call: Call) -> Any:
    request = request_schema(call.subject, await call.body())
    schema = await call.registry.look_up(request, normalize=call.flag("normalize"), deleted=call.flag("deleted"))
    return (await call.registry.in_format(schema, call.query("format"))).to_json()


async def delete_subject(call: Call) -> Any:
    return await call.registry.delete_subject(call.subject, permanent=call.flag("permanent"))


async def list_versions(call: Call) -> Any:
    versions = call.registry.versions(call.subject, deleted=call.flag("deleted"), deleted_only=call.flag("deletedOnly"))
    return call.page(versions)


async def register(call: Call) -> Any:
    request = request_schema(call.subject, await call.body())
    schema = await call.registry.register(request, normalize=call.flag("normalize"))
    return {"id": schema.id}  # clients would cache a schema in the response instead of their own


async def get_version(call: Call) -> Any:
    schema = call.registry.version(call.subject, call.version, deleted=call.flag("deleted"))
    return (await call.registry.in_format(schema, call.query("format"))).to_json()


async def get_version_text(call: Call) -> Any:
    return Text(call.registry.version(call.subject, call.version, deleted=call.flag("deleted")).schema)


async def delete_version(call: Call) -> Any:
    return await call.registry.delete_version(call.subject, call.version, permanent=call.flag("permanent"))


async def referenced_by(call: Call) -> Any:
    schema = call.registry.version(call.subject, call.version, deleted=True)
    return call.page(sorted({user.id for user in call.registry.state.referencing(schema.subject, schema.version)}))
