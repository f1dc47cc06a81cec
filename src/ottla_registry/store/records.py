"""The records of the topic `_schemas`, in the JSON of Confluent's schema registry.

Keys have the same bytes as Confluent's, because the topic is compacted by key. The fields `metadata`, `ruleSet` and
`schemaTags` of values are kept as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from ottla_registry.store.guid import guid

TENANT: Final = "default"
"""The only tenant outside of Confluent's cloud."""


class Reference(NamedTuple):
    """A reference from one schema to another: the name by which it is used, and the subject and version of the other
    schema.
    """

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the REST API and of records."""
        return self._asdict()

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Reference:
        """Parse a reference. Raises KeyError, TypeError, ValueError or OverflowError if it is malformed."""
        return cls(str(document["name"]), str(document["subject"]), int(document["version"]))


UNUSED_FIELDS: Final = ("metadata", "ruleSet", "schemaTags")
EMPTY: Final = ("null", "{}", "[]")
INHERITED_FIELDS: Final = ("metadata", "ruleSet")
"""The fields that a new version inherits from the latest one if it lacks them."""


@dataclass(frozen=True)
class StoredSchema:
    """A version of a subject, with the schema's text, id and references, as the topic stores it. In a request,
    `version` and `id` are 0 if they are missing.
    """

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    deleted: bool = False
    extra: tuple[tuple[str, str], ...] = ()
    """The fields of UNUSED_FIELDS that the version has, as pairs of a name and JSON."""

    @property
    def identity(self) -> tuple[object, ...]:
        """The parts that two versions with the same id in a context have in common."""
        return self.schema_type, self.schema, self.references, merged((), self.extra)

    @cached_property
    def guid(self) -> str:
        """The GUID of the schema, which is the same in all registries."""
        return guid(self.schema, self.references, {name: json.loads(text) for name, text in self.extra})

    def field(self, name: str) -> Any:
        """Return the value of one of UNUSED_FIELDS; None if the version does not have it."""
        return json.loads(dict(self.extra).get(name, "null"))

    @property
    def properties(self) -> dict[str, Any] | None:
        """The properties in the metadata; None if there are no metadata, or if they have no `properties`."""
        metadata = self.field("metadata")
        properties = metadata.get("properties") if isinstance(metadata, dict) else None
        return properties if isinstance(properties, dict) else None

    def metadata_property(self, name: str) -> Any:
        """Return the value of a property in the metadata; None if there is no such property."""
        return (self.properties or {}).get(name)

    def with_deleted(self) -> StoredSchema:
        """Return a copy that is marked as soft-deleted."""
        return replace(self, deleted=True)

    def to_json(self) -> dict[str, Any]:
        """Return the version as the REST API shows it."""
        document: dict[str, Any] = {"subject": self.subject, "version": self.version, "id": self.id}
        return {**document, **self.content()}

    def content(self) -> dict[str, Any]:
        """Return the schema as the REST API shows it, without the subject, the version and the id."""
        document: dict[str, Any] = {}
        if self.schema_type != "AVRO":
            document["schemaType"] = self.schema_type
        if self.references:
            document["references"] = [reference.to_json() for reference in self.references]
        document.update((name, json.loads(text)) for name, text in self.extra)
        document["schema"] = self.schema
        return document


def dumps(document: Any) -> bytes:
    """Return compact JSON, as Jackson writes it."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def schema_key(subject: str, version: int) -> bytes:
    return dumps({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def schema_value(schema: StoredSchema) -> bytes:
    document: dict[str, Any] = {"subject": schema.subject, "version": schema.version, "id": schema.id}
    return dumps({**document, **schema.content(), "deleted": schema.deleted})


def parse_schema(document: Mapping[str, Any]) -> StoredSchema:
    """Parse the value of a schema's record. Raises KeyError, TypeError, ValueError or OverflowError if malformed."""
    return StoredSchema(
        str(document["subject"]),
        int(document["version"]),
        int(document["id"]),
        str(document["schema"]),
        str(document.get("schemaType") or "AVRO"),
        tuple(map(Reference.from_json, document.get("references") or ())),
        bool(document.get("deleted")),
        unused_fields(document),
    )


def unused_fields(document: Mapping[str, Any], *, is_request: bool = False) -> tuple[tuple[str, str], ...]:
    """Return those of UNUSED_FIELDS that a record or request has, as pairs of a name and JSON. Empty fields of a
    request are included, because they replace those of the previous version.
    """
    present = [name for name in UNUSED_FIELDS if document.get(name) or (is_request and document.get(name) is not None)]
    return tuple((name, dumps(document[name]).decode()) for name in present)


def stored_fields(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return fields of a version as JSON, without those that are empty."""
    return merged((), ((name, dumps(value).decode()) for name, value in fields.items()))


def merged(fields: Iterable[tuple[str, str]], newer: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the fields, updated with newer ones; those that are then empty are left out."""
    values = {**dict(fields), **dict(newer)}
    return tuple((name, values[name]) for name in UNUSED_FIELDS if values.get(name, "null") not in EMPTY)


def config_key(subject: str | None) -> bytes:
    return dumps({"keytype": "CONFIG", "subject": subject, "magic": 0})


def mode_key(subject: str | None) -> bytes:
    return dumps({"keytype": "MODE", "subject": subject, "magic": 0})


def context(name: str) -> Record:
    """Return the record that lists a context in the topic."""
    document = {"tenant": TENANT, "context": name}
    return dumps({"keytype": "CONTEXT", **document, "magic": 0}), dumps(document)


def delete_subject_key(subject: str) -> bytes:
    return dumps({"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0})


Record = tuple[bytes, bytes | None]
"""The key and the value of a record. A value of None is a tombstone."""
