"""Registration, lookup, compatibility checks and deletion of schemas, and changes of configs and modes.

A change takes a lock, reads the topic to its end, decides and writes. If another registry has written in the meantime,
the write fails, and the registry reads and decides again, up to `ATTEMPTS` times in all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from ottla_registry import errors
from ottla_registry.metadata import DEFAULTS_AND_OVERRIDES, check_metadata, completed
from ottla_registry.schemas.avro import AvroSchema
from ottla_registry.schemas.parsed import Compatibility, ParsedSchema, ReferencedSchema
from ottla_registry.schemas.types import TYPES
from ottla_registry.store import records
from ottla_registry.store.records import Record, Reference, StoredSchema
from ottla_registry.store.state import RegistryState
from ottla_registry.store.topic import SchemasTopic
from ottla_registry.subjects import DEFAULT_CONTEXT, context_of, is_context, within

MODES: Final = frozenset({"READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"})
FORMATS: Final = frozenset({("PROTOBUF", "serialized"), ("AVRO", "resolved")})
"""Pairs of a schema type and a format other than its text. The format is an attribute of the parsed schema."""
MAX_SCHEMA_BYTES: Final = 1_000_000
"""Maximum size in bytes of a schema, which is below the default of max.message.bytes."""
MAX_REFERENCES: Final = 200
MAX_RESOLVED: Final = 200
"""Maximum number of versions with references that are resolved to find one equal to a schema without references."""
MAX_ID: Final = 2**31 - 1
ATTEMPTS: Final = 20
"""Maximum number of attempts to make a change while other registries write."""
Changed = TypeVar("Changed")


class SchemaRegistry:
    """A schema registry. Its methods raise RestError for requests that the REST API rejects.

    Not thread-safe: event loop only.
    """

    def __init__(self, state: RegistryState, topic: SchemasTopic) -> None:
        self.state = state
        self._topic = topic
        self._writing = asyncio.Lock()

    async def start(self) -> None:
        """Create the topic if it is missing, and read it. Raises KafkaError or RestError if that fails or times out."""
        await self._topic.start()

    async def stop(self) -> None:
        """Stop reading the topic, and close the clients."""
        await self._topic.stop()

    async def cluster_id(self) -> str:
        """Return the id of the Kafka cluster; empty if it has none. Raises RestError if the request fails."""
        return await self._topic.cluster_id()

    # Schemas

    async def register(self, request: StoredSchema, *, normalize: bool = False) -> StoredSchema:
        """Register a schema, and return its version. If the subject already has the schema, that version is returned,
        even in a read-only mode, provided that `request.version` is 0 and `request.id` is 0 or the id of that version.

        For a new version, `request.id` must be 0, except in mode IMPORT, which requires an id; with `request.version`
        0, it gets the next number.
        """
        return await self._change(lambda: self._registration(request, normalize=normalize))

    async def _change(self, decide: Callable[[], Awaitable[tuple[Changed, Sequence[Record]]]]) -> Changed:
        """Write the records that `decide` returns, and return its result. `decide` is called again if another registry
        may have written after the topic was read to its end, at most `ATTEMPTS` times in all.
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
        is_import = self.state.mode(subject) == "IMPORT"
        versions = self.state.versions(subject)
        if not is_import:
            request = _populated(request, versions, self.state.config(subject))
        parsed, new = await self._parsed(request, normalize=normalize)
        equal = _equal(versions, new)
        equal = equal or await self._equivalent(versions, parsed, new)
        if equal is not None and request.id in (0, equal.id) and not request.version:
            return equal, []  # in any mode: a serializer registers its schema to look up the id
        self._check_writable(subject)
        if is_import != (request.id > 0):
            required = "read-write" if is_import else "import"
            context = context_of(subject)
            raise errors.not_permitted(f"Subject {subject} in context {context} is not in {required} mode")
        if not is_import:
            reasons = await self._differences(parsed, new, versions)
            if reasons:
                raise errors.incompatible(subject, reasons)
        new = self._numbered(new, is_import=is_import)
        return new, [
            *self._new_context(subject),
            *((records.schema_key(subject, old.version), None) for old in self._superseded(new)),
            (records.schema_key(subject, new.version), records.schema_value(new)),
        ]

    def _new_context(self, subject: str) -> list[Record]:
        """Return the record of the subject's context; no record if the context is the default one or has a record.
        Without this record, Confluent's registry does not list the context's subjects.
        """
        context = context_of(subject)
        if context == DEFAULT_CONTEXT or context in self.state.stored_contexts:
            return []
        return [records.context(context)]

    def _superseded(self, new: StoredSchema) -> list[StoredSchema]:
        """Return the deleted versions that a new version with the same id replaces. Versions that are referenced are
        not replaced.
        """
        return [
            old
            for old in self.state.versions(new.subject, deleted=True)
            if old.deleted and old.id == new.id and old.version < new.version
            if not self.state.referencing(old.subject, old.version, deleted=True)
        ]

    async def _parsed(self, request: StoredSchema, *, normalize: bool) -> tuple[ParsedSchema, StoredSchema]:
        """Parse a schema, and return it with the request as it is stored: with the canonical or normalized text, and
        with the version number in references to a latest version, so that they keep their meaning.
        """
        references = tuple(self._numbered_reference(request, reference) for reference in request.references)
        request = replace(request, references=references)
        parsed = await self._parse(request)
        normalize = normalize or self.state.setting(request.subject, "normalize") is True
        text = parsed.normalized if normalize else parsed.canonical
        try:
            text.encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair
            raise errors.invalid_schema(str(error)) from None
        return parsed, replace(request, schema=text)

    def _numbered_reference(self, request: StoredSchema, reference: Reference) -> Reference:
        if reference.version != -1:
            return reference
        live = self.state.versions(within(context_of(request.subject), reference.subject))
        return reference._replace(version=live[-1].version) if live else reference

    def _numbered(self, new: StoredSchema, *, is_import: bool) -> StoredSchema:
        """Return the new version with its id and version number."""
        context = context_of(new.subject)
        if new.id:
            users = self.state.by_id(context, new.id)
            if any(schema.identity != new.identity for schema in users):
                raise errors.id_does_not_match(new.id)
        schema_id = new.id or self.state.id_of(context, new) or self.state.next_id(context)
        versions = self.state.versions(new.subject, deleted=True)
        next_version = versions[-1].version + 1 if versions else 1
        version = new.version or next_version
        if version != next_version and not is_import:
            raise errors.invalid_schema("Version is not one more than previous version")
        if schema_id > MAX_ID or version > MAX_ID:
            raise errors.not_permitted("The registry has no more ids or versions")
        return replace(new, id=schema_id, version=version)

    async def look_up(self, request: StoredSchema, *, normalize: bool = False, deleted: bool = False) -> StoredSchema:
        """Return the version of a subject that has the schema of a request. If a subject in the default context has no
        such version, the subjects with its name in other contexts are searched. Raises RestError if none is found, or
        if the schema is invalid.
        """
        for subject in self._in_contexts(request.subject):
            versions = self.state.versions(subject, deleted=deleted)
            if not versions:
                continue
            parsed, new = await self._parsed(replace(request, subject=subject), normalize=normalize)
            live = [schema for schema in versions if not schema.deleted]
            # A schema without metadata gets those of the latest version when it is registered.
            complete = _populated(new, live, self.state.config(subject))
            equal = _equal(versions, new) or _equal(versions, complete)
            equal = equal or await self._equivalent(versions, parsed, complete)
            if equal is not None:
                return equal
        if not self.state.versions(request.subject, deleted=deleted):
            raise errors.subject_not_found(request.subject)
        raise errors.schema_not_found()

    async def _equivalent(
        self, versions: Sequence[StoredSchema], parsed: ParsedSchema, new: StoredSchema
    ) -> StoredSchema | None:
        """Return the latest version with references whose resolved text is the canonical text of `new`; None if there
        is none among the last `MAX_RESOLVED`, or if `new` is no Avro schema or has references. Java's serializer looks
        up the schema of a generated class, which contains all types.
        """
        if new.references or not isinstance(parsed, AvroSchema):
            return None
        candidates = [
            schema
            for schema in versions
            if schema.references and schema.schema_type == new.schema_type and schema.identity[-1] == new.identity[-1]
        ]
        for schema in reversed(candidates[-MAX_RESOLVED:]):
            old = await self._parse(schema)
            if isinstance(old, AvroSchema) and await asyncio.to_thread(old.is_resolved_to, parsed.canonical):
                return schema
        return None

    def _in_contexts(self, subject: str) -> Iterator[str]:
        """Yield a subject. If it is in the default context, also yield its name qualified with each other context,
        whether or not that context has such a subject.
        """
        yield subject
        if context_of(subject) == DEFAULT_CONTEXT:  # the contexts are looked for in all subjects, thus only on demand
            yield from (within(context, subject) for context in self.state.contexts() if context != DEFAULT_CONTEXT)

    async def incompatibilities(
        self, request: StoredSchema, version: int | None, *, normalize: bool = False
    ) -> list[str]:
        """Return the reasons why the subject's config does not allow a schema after `version` of the subject; empty if
        it does. `version` may be -1 for the latest version, if there is one, and None for the versions that the
        compatibility level covers.
        """
        subject = request.subject
        versions = self.state.versions(subject)
        if version == -1:
            versions = versions[-1:]
        elif version is not None:
            versions = [schema for schema in versions if schema.version == version]
            if not versions:
                raise errors.version_not_found(version)
        parsed, new = await self._parsed(request, normalize=normalize)
        return await self._differences(parsed, new, versions)

    async def _differences(
        self, parsed: ParsedSchema, new: StoredSchema, versions: Sequence[StoredSchema]
    ) -> list[str]:
        config = self.state.config(new.subject)
        level = Compatibility[config["compatibilityLevel"]]
        group = config.get("compatibilityGroup")
        if group:  # versions with another value of this property need not be compatible
            versions = [
                schema for schema in versions if schema.metadata_property(group) == new.metadata_property(group)
            ]
        if level is Compatibility.NONE or not versions:
            return []
        is_transitive = level.value[2]
        old = [await self._parse(schema) for schema in (versions if is_transitive else versions[-1:])]
        try:
            reasons = await asyncio.to_thread(level.check, parsed, old)
        except (ValueError, RecursionError) as error:
            raise errors.invalid_schema(str(error)) from None
        if reasons:
            reasons.append(f"{{validateFields: 'false', compatibility: '{level.name}'}}")
        return reasons

    async def in_format(self, schema: StoredSchema, name: str) -> StoredSchema:
        """Return a schema in the format of a request. `serialized` is a descriptor in base64 for Protobuf, `resolved`
        an Avro schema with the definitions of the types that it references. A format that does not exist for the type
        of the schema is ignored.
        """
        if (schema.schema_type, name) not in FORMATS:
            return schema
        parsed = await self._parse(schema)
        try:
            return replace(schema, schema=await asyncio.to_thread(getattr, parsed, name))
        except ValueError as error:
            raise errors.invalid_schema(str(error)) from None

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
        """Return the schemas that a schema references, directly or indirectly, each after those that it references."""
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

        try:
            load(schema)
        except RecursionError:
            raise errors.invalid_schema("the references are nested too deeply, or a schema references itself") from None
        return list(loaded.values())

    def version(self, subject: str, version: int, *, deleted: bool = False) -> StoredSchema:
        """Return a version of a subject. With `deleted`, it may be soft-deleted, except that -1 is always the latest
        version that is not deleted. Raises RestError if there is no such version.
        """
        schema = self._find_version(subject, version, deleted=deleted)
        if schema is not None:
            return schema
        if not self.state.versions(subject, deleted=deleted):
            raise errors.subject_not_found(subject)
        raise errors.version_not_found(version)

    def _find_version(self, subject: str, version: int, *, deleted: bool) -> StoredSchema | None:
        if version == -1:
            live = self.state.versions(subject)
            return live[-1] if live else None
        schema = self.state.version(subject, version)
        return None if schema is None or (schema.deleted and not deleted) else schema

    def version_in_contexts(self, subject: str, version: int, *, deleted: bool = False) -> StoredSchema:
        """Return a version as `version` does. If a subject in the default context does not have it, look for it in the
        subjects with this name in other contexts.
        """
        for name in self._in_contexts(subject):
            schema = self._find_version(name, version, deleted=deleted)
            if schema is not None:
                return schema
        return self.version(subject, version, deleted=deleted)

    def latest_with(self, subject: str, properties: Mapping[str, str], *, deleted: bool = False) -> StoredSchema:
        """Return the latest version whose metadata have these properties. Raises RestError if there is none."""
        versions = self.state.versions(subject, deleted=deleted)
        if not versions:
            raise errors.subject_not_found(subject)
        for schema in reversed(versions):
            if schema.properties is not None and properties.items() <= schema.properties.items():
                return schema
        raise errors.schema_not_found()

    def versions(self, subject: str, *, deleted: bool = False, deleted_only: bool = False) -> list[StoredSchema]:
        """Return the versions of a subject. `deleted`: also soft-deleted ones. `deleted_only`: only soft-deleted ones.
        Raises RestError if the subject has no versions, or without either flag if all of them are soft-deleted.
        """
        versions = self.state.versions(subject, deleted=deleted or deleted_only)
        if not versions:
            raise errors.subject_not_found(subject)
        return [schema for schema in versions if schema.deleted or not deleted_only]

    def users(self, schema_id: int, subject: str = "") -> list[StoredSchema]:
        """Return the versions that have a schema id in the context of `subject`, including soft-deleted ones and those
        of other subjects. Raises RestError if there are none.

        If `subject` is in the default context and has no version with the id, but a subject with its name in another
        context has one, the versions in that context are returned.
        """
        for name in self._in_contexts(subject) if subject and not is_context(subject) else ():
            versions = self.state.by_id(context_of(name), schema_id)
            if any(schema.subject == name for schema in versions):
                return versions
        if versions := self.state.by_id(context_of(subject), schema_id):
            return versions
        raise errors.schema_not_found(schema_id)

    # Deletion

    async def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> int:
        """Soft-delete a version (-1: the latest), and return its number. With `permanent`, remove a version that was
        soft-deleted before. If it is the only one left, the config and the mode of the subject are removed, too.
        """

        async def decide() -> tuple[int, list[Record]]:
            schema = self.version(subject, version, deleted=True)
            if not permanent and schema.deleted:
                raise errors.version_soft_deleted(subject, schema.version)
            self._check_writable(subject)
            if self.state.referencing(subject, schema.version, deleted=permanent):
                raise errors.reference_exists(subject, schema.version)
            if permanent and not schema.deleted:
                raise errors.version_not_soft_deleted(subject, schema.version)
            key = records.schema_key(subject, schema.version)
            if not permanent:
                return schema.version, [(key, records.schema_value(schema.with_deleted()))]
            is_last = len(self.state.versions(subject, deleted=True)) == 1
            return schema.version, [(key, None), *(self._settings_deletion(subject) if is_last else ())]

        return await self._change(decide)

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Soft-delete a subject, and return the numbers of the deleted versions. With `permanent`, remove a subject
        that was soft-deleted before, with its config and its mode.
        """

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
            referenced = self.state.referenced_by_others(versions, deleted=permanent)
            if referenced is not None:
                raise errors.reference_exists(subject, referenced.version)
            changes = _deletion(subject, versions, permanent=permanent)
            return [schema.version for schema in versions], [
                *changes,
                *(self._settings_deletion(subject) if permanent else ()),
            ]

        return await self._change(decide)

    def _settings_deletion(self, subject: str) -> list[Record]:
        config = [records.config_key(subject)] if subject in self.state.configs else []
        mode = [records.mode_key(subject)] if subject in self.state.modes else []
        return [(key, None) for key in (*config, *mode)]

    # Configs and modes

    async def set_config(self, subject: str | None, config: Mapping[str, Any] | None) -> dict[str, Any]:
        """Update a subject's config, or the global one (`subject=None`). `config=None` deletes it, and a value of None
        deletes a setting. Return the new config; if it was deleted, return the previous one, or the default if there
        was none or it was empty.
        """

        async def decide() -> tuple[dict[str, Any], list[Record]]:
            self._check_writable(subject)
            old = self.state.configs.get(subject)
            if config is None and old is None and subject is not None:
                raise errors.subject_not_found(subject)
            merged = {**(old or {}), **(config or {})}
            new = None if config is None else {name: value for name, value in merged.items() if value is not None}
            value = None if new is None else records.dumps(new)
            answer = new if new is not None else old or {"compatibilityLevel": "BACKWARD"}
            return answer, [(records.config_key(subject), value)]

        return await self._change(decide)

    async def set_mode(self, subject: str | None, mode: str | None, *, force: bool = False) -> str:
        """Set the mode of a subject, or the global one (`subject=None`); `mode=None` deletes it. Return the new mode,
        or the deleted one (READWRITE if there was none). A change to IMPORT removes soft-deleted versions permanently,
        unless `force` is set. Raises RestError if the mode is unknown, if the subject has no mode to delete, or if
        without `force` a change to IMPORT would affect versions that are not deleted or are referenced by others.
        """
        if mode is not None and mode not in MODES:
            raise errors.invalid_mode()

        async def decide() -> tuple[str, list[Record]]:
            old = self.state.modes.get(subject)
            if mode is None and old is None and subject is not None:
                raise errors.subject_not_found(subject)
            obsolete: list[StoredSchema] = []
            if mode == "IMPORT" and self.state.mode(subject) != mode and not force:
                obsolete = self._deleted_only(subject)
            value = None if mode is None else records.dumps({"mode": mode})
            return mode or old or "READWRITE", [
                *((records.schema_key(schema.subject, schema.version), None) for schema in obsolete),
                (records.mode_key(subject), value),
            ]

        return await self._change(decide)

    def _deleted_only(self, subject: str | None) -> list[StoredSchema]:
        """Return the versions of a subject, of a context or (None) of all subjects, whose ids an import may use again.
        Raises RestError if one of them is not deleted, or is referenced by a version that is not among them.
        """
        is_any = subject is None or is_context(subject)
        subjects = self.state.subjects(subject or "", deleted=True) if is_any else [subject or ""]
        versions = [schema for name in subjects for schema in self.state.versions(name, deleted=True)]
        if any(not schema.deleted for schema in versions):
            raise errors.not_permitted("Cannot import since found existing subjects")
        referenced = self.state.referenced_by_others(versions, deleted=True)
        if referenced is not None:
            raise errors.reference_exists(referenced.subject, referenced.version)
        return versions

    def _check_writable(self, subject: str | None) -> None:
        if self.state.mode(subject).startswith("READONLY"):
            context = context_of(subject or "")
            raise errors.not_permitted(f"Subject {subject or ''} in context {context} is in read-only mode")


def _populated(request: StoredSchema, versions: Sequence[StoredSchema], config: Mapping[str, Any]) -> StoredSchema:
    """Return a schema completed for registration.

    It inherits metadata and rules that it lacks from the latest version, then gets the defaults of the config for those
    that are still missing, and the overrides of the config, which take precedence. An empty text stands for the schema
    of the latest version; raises RestError if there is no version.
    """
    latest = versions[-1] if versions else None
    if not request.schema.strip():
        if latest is None:
            raise errors.invalid_schema("Empty schema")
        schema, kind, references = latest.schema, latest.schema_type, latest.references
        request = replace(request, schema=schema, schema_type=kind, references=references)
    inherited = {} if latest is None else {name: latest.field(name) for name in records.INHERITED_FIELDS}
    own = {name: request.field(name) for name, _ in request.extra}
    fields = {**inherited, **own}
    fields.update((name, completed(name, fields.get(name), config)) for name in DEFAULTS_AND_OVERRIDES)
    return replace(request, extra=records.stored_fields(fields))


def _equal(versions: Sequence[StoredSchema], new: StoredSchema) -> StoredSchema | None:
    """Return the latest version with the same identity as `new`; None if there is none."""
    return next((schema for schema in reversed(versions) if schema.identity == new.identity), None)


def _deletion(subject: str, versions: Sequence[StoredSchema], *, permanent: bool) -> list[Record]:
    """Return the records that delete these versions of a subject: a tombstone for each, or a DELETE_SUBJECT record."""
    if permanent:  # the latest first: they may reference earlier ones
        return [(records.schema_key(subject, schema.version), None) for schema in reversed(versions)]
    value = records.dumps({"subject": subject, "version": versions[-1].version})
    return [(records.delete_subject_key(subject), value)]


def request_schema(subject: str, document: Any) -> StoredSchema:
    """Parse the body of a request that contains a schema. Raises RestError if it is malformed (42201), or a rule is
    invalid (42210).
    """
    try:
        schema = document.get("schema") if isinstance(document, dict) else 0
        if schema is not None and not isinstance(schema, str):
            raise ValueError('the body has no "schema"')
        check_metadata(document)
        return StoredSchema(
            subject,
            _number(document.get("version")),
            _number(document.get("id")),
            schema or "",
            str(document.get("schemaType") or "AVRO"),
            tuple(map(Reference.from_json, document.get("references") or ())),
            extra=records.unused_fields(document, is_request=True),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.invalid_schema(f"{error}") from None


def _number(value: Any) -> int:
    """Return an id or version of a request; 0 if it is missing or -1, which some clients send instead."""
    number = 0 if value is None else int(value)
    if not -1 <= number <= MAX_ID:
        raise ValueError(f"{number} is out of range")
    return max(number, 0)
