"""JSON Schema documents with their references: `$ref` inside a document, and to other ones by name or `$id`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

MAX_HOPS: Final = 50
DATA: Final = frozenset({"enum", "const", "default", "examples"})
"""Keywords with values that are not schemas."""
SCHEMAS_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "definitions", "$defs", "dependencies", "dependentSchemas"}
)
"""Keywords whose values are objects with arbitrary names, such as those of properties, instead of keywords."""
REF_WITH_SIBLINGS: Final = ("2019-09", "2020-12")
"""Drafts in which the keywords beside a `$ref` apply, too. Earlier ones ignore them."""
NOT_APPLIED: Final = frozenset(
    {"$ref", "$schema", "$id", "$anchor", "$defs", "definitions", "$comment", "title", "description"}
)
"""`$ref`, and keywords beside it that neither allow nor forbid anything."""


class JsonDocuments:
    """Resolves references of one schema. Raises ValueError if one cannot be resolved, unless it is the URL of an
    unknown document.

    Args:
        main: the schema.
        others: the schemas that it references, by name.
    """

    def __init__(self, main: Any, others: Mapping[str, Any]) -> None:
        self._documents: dict[str, Any] = {"": main, **others}
        self._bases: dict[int, str] = {}
        """The name of the document of each subschema with a `$ref`, by the identity of the subschema."""
        self._with_siblings: dict[int, dict[str, Any]] = {}
        """The schemas that `resolved` returns for a `$ref` with siblings, by the identity of the subschema."""
        for name, document in list(self._documents.items()):
            base = _id(document) or name
            self._documents.setdefault(base.removesuffix("#"), document)
            for schema in _subschemas(document):
                self._add(schema, document, name, base)
        for document in (main, *others.values()):
            for schema in _subschemas(document):
                if "$ref" in schema:
                    self.resolved(schema)

    def _add(self, schema: dict[str, Any], document: Any, name: str, base: str) -> None:
        if "$ref" in schema:
            self._bases[id(schema)] = name
        if isinstance(anchor := schema.get("$anchor"), str):
            self._documents.setdefault(f"{name}#{anchor}", schema)
        if schema is not document and (identifier := _id(schema)):
            self._documents.setdefault(urljoin(base, identifier).removesuffix("#"), schema)

    def resolved(self, schema: Any) -> Any:
        """Return the schema that a `$ref` leads to. If keywords beside the `$ref` apply, return them with the `$ref` in
        allOf. Return a schema without `$ref` unchanged, and for the URL of an unknown document only the `$ref`.
        """
        for _ in range(MAX_HOPS):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            name = self._bases.get(id(schema), "")
            target = self._target(schema["$ref"], name)
            if not schema.keys() <= NOT_APPLIED and self._applies_siblings(name):
                return self._combined(schema, name)
            if target is None:  # a schema on the web, which is equal to itself only
                return {"$ref": schema["$ref"]} if set(schema) != {"$ref"} else schema
            schema = target
        raise ValueError(f"the references of {schema.get('$ref')!r:.200} form a circle")

    def _applies_siblings(self, name: str) -> bool:
        drafts = (
            document.get("$schema") for document in map(self._documents.get, (name, "")) if isinstance(document, dict)
        )
        draft = next((draft for draft in drafts if isinstance(draft, str)), "")
        return any(version in draft for version in REF_WITH_SIBLINGS)

    def _combined(self, schema: dict[str, Any], name: str) -> dict[str, Any]:
        """Return a schema with its `$ref` as a part of allOf; the same object for each call."""
        combined = self._with_siblings.get(id(schema))
        if combined is None:
            reference = {"$ref": schema["$ref"]}
            self._bases[id(reference)] = name
            siblings = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
            combined = {**siblings, "allOf": [reference, *siblings.get("allOf", ())]}
            self._with_siblings[id(schema)] = combined
        return combined

    def _target(self, reference: str, name: str) -> Any:
        address, _, fragment = reference.partition("#")
        base = _id(self._documents[name]) or name
        for candidate in (address, urljoin(base, address)) if address else (name,):
            if candidate in self._documents:
                if fragment and not fragment.startswith("/"):
                    return self._existing(f"{candidate}#{fragment}", reference)
                return _at(self._documents[candidate], fragment, reference)
        if urlsplit(reference).scheme:
            return None
        raise ValueError(f"{reference!r:.200} is not in the references of the schema")

    def _existing(self, name: str, reference: str) -> Any:
        if name not in self._documents:
            raise ValueError(f"{reference!r:.200} leads to no schema")
        return self._documents[name]


def _id(document: Any) -> str:
    identifier = document.get("$id", document.get("id")) if isinstance(document, dict) else None
    return identifier if isinstance(identifier, str) and not identifier.startswith("#") else ""


def _subschemas(document: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a document that may be a schema: not those below a keyword in DATA."""
    pending = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield value
            for keyword, part in value.items():
                if keyword in SCHEMAS_BY_NAME and isinstance(part, dict):
                    pending.extend(part.values())
                elif keyword not in DATA:
                    pending.append(part)
        elif isinstance(value, list):
            pending.extend(value)


def _at(document: Any, pointer: str, reference: str) -> Any:
    """Return the part of a document at a JSON pointer (RFC 6901)."""
    value = document
    for part in unquote(pointer).split("/")[1:]:
        step = part.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (KeyError, IndexError, ValueError, TypeError):
            raise ValueError(f"{reference!r:.200} leads to no schema") from None
    return value
