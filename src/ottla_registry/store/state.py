"""The schemas, configs and modes of the registry, built from the records of `_schemas` in order. Without I/O."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ottla_registry.store.records import StoredSchema, parse_schema
from ottla_registry.subjects import DEFAULT_CONTEXT, context_of, name_in_context, within

ANY_CONTEXT: Final = ":*:"
log = logging.getLogger("ottla.schema_registry")


class RegistryState:
    """All versions by subject, including soft-deleted ones, with the configs and modes. Not thread-safe: event loop
    only.
    """

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, StoredSchema]] = {}
        self._ids: dict[tuple[str, int], dict[tuple[str, int], StoredSchema]] = {}
        self._guids: dict[str, dict[tuple[str, int], StoredSchema]] = {}
        self._identities: dict[tuple[str, tuple[object, ...]], dict[int, int]] = {}
        """By context and identity: the ids, the first one first, and the number of versions that have each. An import
        may give a schema several ids.
        """
        self._highest_id: dict[str, int] = {}
        self.configs: dict[str | None, dict[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.stored_contexts: set[str] = set()
        """The contexts that have a record."""

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record. Records that are malformed or of an unknown type are logged and ignored."""
        try:
            fields = json.loads(key or b"")
            document = None if value is None else json.loads(value)
            self._apply(fields, document)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            log.warning("Ignoring a malformed record of the schemas topic with key %r: %r", (key or b"")[:200], error)

    def _apply(self, key: Mapping[str, Any], document: dict[str, Any] | None) -> None:
        subject = key.get("subject") or None
        match key["keytype"]:
            case "SCHEMA":
                replaced = key["subject"], int(key["version"])
                if document is None:
                    self._remove(*replaced)
                else:
                    self._add(parse_schema(document), replaced)
            case "CONFIG":
                _replace(self.configs, subject, None if document is None else _settings(document))
            case "MODE":
                _replace(self.modes, subject, None if document is None else str(document["mode"]))
            case "DELETE_SUBJECT" if document is not None:
                for schema in self.versions(document["subject"], deleted=False):
                    if schema.version <= int(document["version"]):
                        self._remove(schema.subject, schema.version)
                        self._add(schema.with_deleted())
            case "CLEAR_SUBJECT" if document is not None:
                for schema in self.versions(document["subject"], deleted=True):
                    if schema.deleted:
                        self._remove(schema.subject, schema.version)
            case "CONTEXT":
                (self.stored_contexts.discard if document is None else self.stored_contexts.add)(str(key["context"]))
            case "DELETE_SUBJECT" | "CLEAR_SUBJECT" | "NOOP":
                pass
            case other:
                log.warning("Ignoring a record of the schemas topic with unknown keytype=%s: %s", other, key)

    def _add(self, schema: StoredSchema, replaced: tuple[str, int] | None = None) -> None:
        """Remove the `replaced` version, and add a new one. If the new one is malformed, raise and change nothing."""
        context, guid = context_of(schema.subject), schema.guid  # which raises if the metadata are malformed
        if replaced is not None:
            self._remove(*replaced)
        self._subjects.setdefault(schema.subject, {})[schema.version] = schema
        self._ids.setdefault((context, schema.id), {})[schema.subject, schema.version] = schema
        self._guids.setdefault(guid, {})[schema.subject, schema.version] = schema
        ids = self._identities.setdefault((context, schema.identity), {})
        ids[schema.id] = ids.get(schema.id, 0) + 1
        self._highest_id[context] = max(self._highest_id.get(context, 0), schema.id)

    def _remove(self, subject: str, version: int) -> None:
        """Remove a version. `next_id` still returns a higher id than the version's, as in Confluent's registry."""
        versions = self._subjects.get(subject, {})
        schema = versions.pop(version, None)
        if schema is None:
            return
        if not versions:
            del self._subjects[subject]
        same_guid = self._guids[schema.guid]
        del same_guid[subject, version]
        if not same_guid:
            del self._guids[schema.guid]
        context = context_of(subject)
        users = self._ids[context, schema.id]
        del users[subject, version]
        if not users:
            del self._ids[context, schema.id]
        ids = self._identities[context, schema.identity]
        ids[schema.id] -= 1
        if not ids[schema.id]:
            del ids[schema.id]
        if not ids:
            del self._identities[context, schema.identity]

    # Queries

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """Return the sorted subjects with a prefix. `deleted`: include subjects all of whose versions are deleted."""
        return sorted(
            subject
            for subject, versions in self._subjects.items()
            if subject.startswith(prefix) and (deleted or not all(schema.deleted for schema in versions.values()))
        )

    def versions(self, subject: str, *, deleted: bool = False) -> list[StoredSchema]:
        """Return the versions of a subject, the oldest first; none for an unknown subject. `deleted`: include
        soft-deleted ones.
        """
        versions = self._subjects.get(subject, {})
        return [versions[number] for number in sorted(versions) if deleted or not versions[number].deleted]

    def version(self, subject: str, version: int) -> StoredSchema | None:
        """Return a version, even if it is soft-deleted; None if it does not exist."""
        return self._subjects.get(subject, {}).get(version)

    def by_id(self, context: str, schema_id: int) -> list[StoredSchema]:
        """Return the versions with an id in a context, including soft-deleted ones."""
        return list(self._ids.get((context, schema_id), {}).values())

    def by_guid(self, guid: str) -> list[StoredSchema]:
        """Return the versions with a GUID in all contexts, including soft-deleted ones."""
        return list(self._guids.get(guid, {}).values())

    def contexts(self) -> list[str]:
        """Return the default context, and those that have schemas or a record in the topic, sorted."""
        return sorted({".", *self.stored_contexts, *map(context_of, self._subjects)})

    def id_of(self, context: str, schema: StoredSchema) -> int | None:
        """Return the id of an equal schema in the context, possibly of another subject, or None."""
        return next(iter(self._identities.get((context, schema.identity), ())), None)

    def highest_id(self, context: str) -> int:
        """Return the highest id of a context in the applied records, including removed versions; 0 if there is none."""
        return self._highest_id.get(context, 0)

    def next_id(self, context: str) -> int:
        """Return the id for the next new schema."""
        return self.highest_id(context) + 1

    def all_versions(self) -> Iterator[StoredSchema]:
        """Yield every version of every subject."""
        for versions in self._subjects.values():
            yield from versions.values()

    def referencing(self, subject: str, version: int, *, deleted: bool = False) -> list[StoredSchema]:
        """Return the versions that reference a version. `deleted`: also those that are deleted."""
        return [
            schema
            for schema in self.all_versions()
            if (deleted or not schema.deleted)
            and any((_qualify(schema, r.subject), r.version) == (subject, version) for r in schema.references)
        ]

    def referenced_by_others(self, versions: Sequence[StoredSchema], *, deleted: bool = False) -> StoredSchema | None:
        """Return one of `versions` that is referenced by a version outside `versions`; None if no such version exists.
        `deleted`: whether references from deleted versions count.
        """
        by_key = {(schema.subject, schema.version): schema for schema in versions}
        for user in self.all_versions():
            if (user.subject, user.version) in by_key or (user.deleted and not deleted):
                continue
            for reference in user.references:
                referenced = by_key.get((_qualify(user, reference.subject), reference.version))
                if referenced is not None:
                    return referenced
        return None

    def config(self, subject: str | None) -> dict[str, Any]:
        """Return the config that applies to a subject. Each setting comes from the subject, or else from its context,
        or else from the global config. The default of compatibilityLevel is BACKWARD.
        """
        config = {"compatibilityLevel": "BACKWARD"}
        for scope in reversed(_scopes(subject)):
            config.update(self.configs.get(scope, {}))
        return config

    def resolved(self, subject: str) -> str:
        """Return the subject that `subject` is an alias of; `subject` if it is no alias."""
        alias = self.configs.get(subject, {}).get("alias")
        return within(context_of(subject), alias) if alias else subject

    def setting(self, subject: str, name: str) -> Any:
        """Return a setting of the config that applies to a subject; None if it is not set."""
        return self.config(subject).get(name)

    def prefixed(self, prefix: str, *, deleted: bool = False) -> list[str]:
        """Return the subjects whose names begin with the prefix of a request. A plain prefix selects subjects in the
        default context, `:.context:` those of a context, and `:*:` those of all contexts.
        """
        if prefix.startswith(ANY_CONTEXT):
            names = self.subjects(deleted=deleted)
            return [name for name in names if name_in_context(name).startswith(prefix[len(ANY_CONTEXT) :])]
        prefix = prefix.removeprefix(":.:")
        is_qualified = prefix.startswith(":.")
        return [s for s in self.subjects(prefix, deleted=deleted) if is_qualified or context_of(s) == DEFAULT_CONTEXT]

    def mode(self, subject: str | None) -> str:
        """Return the mode that applies to a subject: READONLY_OVERRIDE if it is the global mode, or else the mode of
        the subject, of its context, or the global one. The default is READWRITE.
        """
        if self.modes.get(None) == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return next((self.modes[scope] for scope in _scopes(subject) if scope in self.modes), "READWRITE")


def _settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in the value of a config's record, without null values and without `subject`, which
    Confluent's registry adds.
    """
    return {name: value for name, value in document.items() if name != "subject" and value is not None}


def _scopes(subject: str | None) -> tuple[str | None, ...]:
    context = context_of(subject or "")
    return (subject, None) if context == "." else (subject, f":{context}:", None)


def _qualify(schema: StoredSchema, name: str) -> str:
    return within(context_of(schema.subject), name)


def _replace(values: dict[str | None, Any], subject: str | None, value: Any) -> None:
    if value is None:
        values.pop(subject, None)
    else:
        values[subject] = value
