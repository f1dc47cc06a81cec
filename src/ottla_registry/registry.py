"""Registration, lookup and deletion of schemas, and changes of configs and modes.

A change takes a lock, reads the topic to its end, decides and writes. The write fails if another registry has written
in the meantime, so two requests never get the same id or version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from ottla_registry import errors
from ottla_registry.schemas.parsed import Compatibility, ParsedSchema, ReferencedSchema
from ottla_registry.schemas.protobuf import ProtobufSchema
from ottla_registry.schemas.types import TYPES
from ottla_registry.store import records
from ottla_registry.store.records import Record, Reference, StoredSchema
from ottla_registry.store.state import RegistryState
from ottla_registry.store.topic import SchemasTopic
from ottla_registry.subjects import DEFAULT_CONTEXT, context_of, is_context, within

MODES: Final = frozenset({"READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"})
MAX_SCHEMA_BYTES: Final = 1_000_000
"""Maximum size in bytes of a schema, which is below the default of max.message.bytes."""
MAX_REFERENCES: Final = 200
MAX_ID: Final = 2**31 - 1
ATTEMPTS: Final = 20
"""Maximum number of attempts to make a change while other registries write."""
Changed = TypeVar("Changed")


class SchemaRegistry:
    """Schemas by subject. Raises RestError for requests that the REST API rejects.

    Not thread-safe: event loop only.
    """

    def __init__(self, state: RegistryState, topic: SchemasTopic) -> None:
        self.state = state
        self._topic = topic
        self._writing = asyncio.Lock()

    async def start(self) -> None:
        """Read the topic. Raises KafkaError."""
        await self._topic.start()

    async def stop(self) -> None:
        """Close the clients."""
        await self._topic.stop()

    # Schemas

    async def register(self, request: StoredSchema, *, normalize: bool = False) -> StoredSchema:
        """Register a schema. `request.id` and `request.version` are 0 unless a schema is imported with them. Return the
        version, which may already exist.
        """
        return await self._change(lambda: self._registration(request, normalize=normalize))

    async def _change(self, decide: Callable[[], Awaitable[tuple[Changed, Sequence[Record]]]]) -> Changed:
        """Write the records that `decide` returns, and return its result. `decide` is called again if another registry
        has written after the topic was read to its end.
        """
        async with self._writing:
            for _ in range(ATTEMPTS):
                await self._topic.read_to_end()
                result, changes = await decide()
                if not changes or await self._topic.append(changes):
                    return result
        raise errors.store_failed(f"other registries have written in the meantime, {ATTEMPTS} times")

    async def _registration(self, request: StoredSchema, *, normalize: bool) -> tuple[StoredSchema, list[Record]]:
        subject = request.subject
        self._check_writable(subject)
        is_import = self.state.mode(subject) == "IMPORT"
        if is_import != (request.id > 0):
            raise errors.not_permitted(f"Subject {subject} is {'' if is_import else 'not '}in import mode")
        parsed = await self._parse(request)
        new = replace(request, schema=parsed.normalized if normalize else parsed.canonical)
        versions = self.state.versions(subject)
        if (equal := _equal(versions, new)) is not None and request.id in (0, equal.id):
            return equal, []
        if not is_import:
            reasons = await self._differences(parsed, subject, versions)
            if reasons:
                raise errors.incompatible(subject, reasons)
        new = self._numbered(new)
        return new, [(records.schema_key(subject, new.version), records.schema_value(new))]

    def _numbered(self, new: StoredSchema) -> StoredSchema:
        """Return a new version with its id and version."""
        context = context_of(new.subject)
        if new.id:
            users = self.state.by_id(context, new.id)
            if any(schema.identity != new.identity for schema in users):
                raise errors.id_does_not_match(new.id)
        schema_id = new.id or self.state.id_of(context, new) or self.state.next_id(context)
        versions = self.state.versions(new.subject, deleted=True)
        version = new.version or (versions[-1].version + 1 if versions else 1)
        if schema_id > MAX_ID or version > MAX_ID:
            raise errors.not_permitted("The registry has no more ids or versions")
        return replace(new, id=schema_id, version=version)

    async def look_up(self, request: StoredSchema, *, normalize: bool = False, deleted: bool = False) -> StoredSchema:
        """Return the version of a subject that has this schema."""
        versions = self.state.versions(request.subject, deleted=deleted)
        if not versions:
            raise errors.subject_not_found(request.subject)
        parsed = await self._parse(request)
        new = replace(request, schema=parsed.normalized if normalize else parsed.canonical)
        equal = _equal(versions, new)
        if equal is None:
            raise errors.schema_not_found()
        return equal

    async def incompatibilities(
        self, request: StoredSchema, version: int | None, *, normalize: bool = False
    ) -> list[str]:
        """Return the reasons why a schema is incompatible with `version` of its subject (-1: the latest; None: all
        versions that the subject's compatibility level covers).
        """
        subject = request.subject
        versions = self.state.versions(subject) if version is None else [self.version(subject, version)]
        return await self._differences(await self._parse(request), subject, versions)

    async def _differences(self, parsed: ParsedSchema, subject: str, versions: Sequence[StoredSchema]) -> list[str]:
        level = Compatibility[self.state.config(subject).get("compatibilityLevel", "BACKWARD")]
        if level is Compatibility.NONE or not versions:
            return []
        is_transitive = level.value[2]
        old = [await self._parse(schema) for schema in (versions if is_transitive else versions[-1:])]
        try:
            reasons = await asyncio.to_thread(level.check, parsed, old)
        except (ValueError, RecursionError) as error:
            raise errors.invalid_schema(str(error)) from None
        if reasons:
            reasons.append(f"{{compatibility: '{level.name}'}}")
        return reasons

    async def in_format(self, schema: StoredSchema, name: str) -> StoredSchema:
        """Return a schema in the format of a request: `serialized` is a descriptor in base64 for Protobuf."""
        if name != "serialized" or schema.schema_type != "PROTOBUF":
            return schema
        parsed = await self._parse(schema)
        return replace(schema, schema=parsed.serialized) if isinstance(parsed, ProtobufSchema) else schema

    async def _parse(self, schema: StoredSchema) -> ParsedSchema:
        parse = TYPES.get(schema.schema_type)
        if parse is None:
            raise errors.invalid_schema(f"unknown schema type {schema.schema_type}")
        if len(schema.schema.encode()) > MAX_SCHEMA_BYTES:
            raise errors.schema_too_large(MAX_SCHEMA_BYTES)
        references = self._references(schema)
        try:
            return await asyncio.to_thread(parse, schema.schema, references)
        except ValueError as error:
            raise errors.invalid_schema(str(error)) from None

    def _references(self, schema: StoredSchema) -> list[ReferencedSchema]:
        """Return the schemas that a schema references, each after those that it references itself."""
        loaded: dict[str, ReferencedSchema] = {}

        def load(parent: StoredSchema) -> None:
            for reference in parent.references:
                if reference.name in loaded:
                    continue
                subject = within(context_of(parent.subject), reference.subject)
                child = self.state.version(subject, reference.version)
                if child is None:
                    raise errors.invalid_schema(
                        f"no schema reference found for subject {reference.subject} and version {reference.version}"
                    )
                if len(loaded) >= MAX_REFERENCES:
                    raise errors.invalid_schema(f"more than {MAX_REFERENCES} references")
                load(child)
                loaded[reference.name] = ReferencedSchema(reference.name, child.schema)

        load(schema)
        return list(loaded.values())

    def version(self, subject: str, version: int, *, deleted: bool = False) -> StoredSchema:
        """Return a version of a subject; -1 is the latest."""
        versions = self.state.versions(subject, deleted=deleted)
        if not versions:
            raise errors.subject_not_found(subject)
        if version == -1:
            return versions[-1]
        schema = self.state.version(subject, version)
        if schema is None or (schema.deleted and not deleted):
            raise errors.version_not_found(version)
        return schema

    def versions(self, subject: str, *, deleted: bool = False, deleted_only: bool = False) -> list[int]:
        """Return the numbers of a subject's versions."""
        versions = self.state.versions(subject, deleted=deleted or deleted_only)
        if not versions:
            raise errors.subject_not_found(subject)
        return [schema.version for schema in versions if schema.deleted or not deleted_only]

    def users(self, schema_id: int, subject: str = "") -> list[StoredSchema]:
        """Return the subject versions that have a schema id, in the context of `subject`. Without a subject, other
        contexts are searched after the default one.
        """
        contexts = [context_of(subject)] if subject else [DEFAULT_CONTEXT, *self.state.contexts()]
        for context in contexts:
            if versions := self.state.by_id(context, schema_id):
                return versions
        raise errors.schema_not_found(schema_id)

    # Deletion

    async def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> int:
        """Delete a version (-1: the latest): softly, or permanently after that. Return its number."""

        async def decide() -> tuple[int, list[Record]]:
            self._check_writable(subject)
            schema = self.version(subject, version, deleted=True)
            if version == -1 and not permanent:
                schema = self.version(subject, -1)
            self._check_unreferenced([schema])
            if permanent and not schema.deleted:
                raise errors.version_not_soft_deleted(subject, schema.version)
            if not permanent and schema.deleted:
                raise errors.version_soft_deleted(subject, schema.version)
            key = records.schema_key(subject, schema.version)
            return schema.version, [(key, None if permanent else records.schema_value(schema.with_deleted()))]

        return await self._change(decide)

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete a subject: softly, or permanently after that. Return the numbers of the deleted versions."""

        async def decide() -> tuple[list[int], list[Record]]:
            self._check_writable(subject)
            every = self.state.versions(subject, deleted=True)
            if not every:
                raise errors.subject_not_found(subject)
            live = [schema for schema in every if not schema.deleted]
            if permanent and live:
                raise errors.subject_not_soft_deleted(subject)
            if not permanent and not live:
                raise errors.subject_soft_deleted(subject)
            versions = every if permanent else live
            self._check_unreferenced(versions)
            return [schema.version for schema in versions], _deletion(subject, versions, permanent=permanent)

        return await self._change(decide)

    def _check_unreferenced(self, versions: Sequence[StoredSchema]) -> None:
        for schema in versions:
            if self.state.referencing(schema.subject, schema.version):
                raise errors.reference_exists(schema.subject, schema.version)

    # Configs and modes

    async def set_config(self, subject: str | None, config: Mapping[str, Any] | None) -> dict[str, Any]:
        """Set a subject's config, or the global one; None deletes it. Return the new config, or the deleted one."""

        async def decide() -> tuple[dict[str, Any], list[Record]]:
            self._check_writable(subject)
            old = self.state.configs.get(subject)
            if config is None and old is None and subject is not None:
                raise errors.subject_not_found(subject)
            new = None if config is None else {**(old or {}), **config}
            value = None if new is None else records.dumps(new)
            return new or old or {"compatibilityLevel": "BACKWARD"}, [(records.config_key(subject), value)]

        return await self._change(decide)

    async def set_mode(self, subject: str | None, mode: str | None, *, force: bool = False) -> str:
        """Set the mode of a subject, or the global one; None deletes it. Return the new mode, or the deleted one."""
        if mode is not None and mode not in MODES:
            raise errors.invalid_mode()

        async def decide() -> tuple[str, list[Record]]:
            old = self.state.modes.get(subject)
            if mode is None and old is None and subject is not None:
                raise errors.subject_not_found(subject)
            if mode == "IMPORT" and old != mode and not force and self._has_schemas(subject):
                raise errors.not_permitted("Cannot import since found existing subjects")
            value = None if mode is None else records.dumps({"mode": mode})
            return mode or old or "READWRITE", [(records.mode_key(subject), value)]

        return await self._change(decide)

    def _has_schemas(self, subject: str | None) -> bool:
        if subject is None or is_context(subject):
            return bool(self.state.subjects(subject or ""))
        return bool(self.state.versions(subject))

    def _check_writable(self, subject: str | None) -> None:
        if self.state.mode(subject).startswith("READONLY"):
            context = context_of(subject or "")
            raise errors.not_permitted(f"Subject {subject or ''} in context {context} is in read-only mode")


def _equal(versions: Sequence[StoredSchema], new: StoredSchema) -> StoredSchema | None:
    """Return the latest version with the same schema."""
    return next((schema for schema in reversed(versions) if schema.identity == new.identity), None)


def _deletion(subject: str, versions: Sequence[StoredSchema], *, permanent: bool) -> list[Record]:
    """Return the records that delete a subject."""
    if permanent:
        return [(records.schema_key(subject, schema.version), None) for schema in versions]
    value = records.dumps({"subject": subject, "version": versions[-1].version})
    return [(records.delete_subject_key(subject), value)]


def request_schema(subject: str, document: Any) -> StoredSchema:
    """Parse the body of a request that contains a schema. Raises RestError (42201) if it is malformed."""
    try:
        if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
            raise ValueError('the body has no "schema"')
        return StoredSchema(
            subject,
            _number(document.get("version")),
            _number(document.get("id")),
            document["schema"],
            str(document.get("schemaType") or "AVRO"),
            tuple(map(Reference.from_json, document.get("references") or ())),
            extra=records.unused_fields(document),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.invalid_schema(f"{error}") from None


def _number(value: Any) -> int:
    """Return an id or version of a request; 0 if there is none, and for -1, as clients send it."""
    number = 0 if value is None else int(value)
    if not -1 <= number <= MAX_ID:
        raise ValueError(f"{number} is out of range")
    return max(number, 0)
