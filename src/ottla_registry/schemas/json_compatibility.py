"""Compatibility of JSON Schemas: compares what a reader's schema accepts with what a writer's schema accepts.

The names of most differences, and the rules for properties, are those of Confluent's `SchemaDiff`: an optional property
may be added to a closed content model (`additionalProperties: false`), but to an open one only if the property may have
any value, because earlier data may have it with another type.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import re2

from ottla_registry.schemas.json_documents import JsonDocuments

MAX_COMPARISONS: Final = 100_000
MAX_BRANCHES: Final = 1_000
TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
LIMITS: Final = (
    # keyword, whether it is an upper limit, its name in errors
    ("maxLength", True, "MAX_LENGTH"),
    ("minLength", False, "MIN_LENGTH"),
    ("maximum", True, "MAXIMUM"),
    ("minimum", False, "MINIMUM"),
    ("exclusiveMaximum", True, "EXCLUSIVE_MAXIMUM"),
    ("exclusiveMinimum", False, "EXCLUSIVE_MINIMUM"),
    ("maxProperties", True, "MAX_PROPERTIES"),
    ("minProperties", False, "MIN_PROPERTIES"),
    ("maxItems", True, "MAX_ITEMS"),
    ("minItems", False, "MIN_ITEMS"),
)

Schema = Mapping[str, Any]


class JsonReader:
    """Compares a reader's schema with a writer's.

    Args:
        readers: the documents of the reader's schema.
        writers: the documents of the writer's schema.
    """

    def __init__(self, readers: JsonDocuments, writers: JsonDocuments) -> None:
        self._readers = readers
        self._writers = writers
        self._results: dict[tuple[int, int], list[str]] = {}
        self._compared: list[Any] = []
        """References to the compared schemas, so that their identities are not reused."""
        self._open: set[tuple[int, int]] = set()
        """Pairs that are being compared. If a recursive schema leads to one again, it counts as compatible."""
        self._assumed: set[tuple[int, int]] = set()
        """The open pairs that have counted as compatible."""
        self._is_refuted = False
        """Whether a pair that has counted as compatible is incompatible, so that results may be wrong."""
        self._comparisons = 0

    def differences(self, writer: Any, reader: Any, path: str = "#") -> list[str]:
        """Return the incompatible differences between the writer's and the reader's schema; empty if there are none.
        Raises ValueError if the schemas are too complex.
        """
        writer, reader = self._writers.resolved(writer), self._readers.resolved(reader)
        if reader is True or reader == {} or writer is False:
            return []
        if reader is False:
            return [_error("SCHEMA_ADDED", path)]
        pair = (id(writer), id(reader))
        if pair in self._open:
            self._assumed.add(pair)
            return []
        if pair in self._results:
            return self._results[pair]
        self._compared += (writer, reader)
        is_first = not self._open
        while True:
            self._open.add(pair)
            errors = self._results[pair] = self._compare({} if writer is True else writer, reader, path)
            self._open.discard(pair)
            self._is_refuted |= bool(errors) and pair in self._assumed
            self._assumed.discard(pair)
            if is_first and self._is_refuted:
                # What is incompatible with the assumptions is so without them. The rest has to be compared again.
                self._is_refuted = False
                self._results = {compared: reasons for compared, reasons in self._results.items() if reasons}
                if not errors:
                    continue
            return errors

    def _compare(self, writer: Schema, reader: Schema, path: str) -> list[str]:
        """Compare each alternative of the writer's anyOf or oneOf with those of the reader."""
        readers = list(_alternatives(reader, self._readers))
        errors: list[str] = []
        if len(writer.get("anyOf", ())) > 1 and len(reader.get("oneOf", ())) > 1:
            errors.append(_error("COMBINED_TYPE_CHANGED", path))  # data that matches two of them is not valid any more
        for alternative in _alternatives(writer, self._writers):
            self._comparisons += len(readers)
            if self._comparisons > MAX_COMPARISONS:
                raise ValueError("the schema is too complex to be compared")
            if len(readers) == 1:
                errors += self._compare_plain(alternative, readers[0], path)
            elif all(self._compare_plain(alternative, other, path) for other in readers):
                errors.append(_error("SUM_TYPE_NARROWED", path))
        return errors

    def _compare_plain(self, writer: Schema, reader: Schema, path: str) -> list[str]:
        """Compare schemas without anyOf and oneOf."""
        if reader.get("$ref") != writer.get("$ref"):
            return [_error("SCHEMA_CHANGED", path)]
        if any(not self.differences(part, reader, path) for part in writer.get("allOf", ())):
            return []  # what has to match all parts matches this one
        types = _types(writer)
        if missing := types - _types(reader):
            narrowed = "TYPE_NARROWED" if len(types) > len(missing) else "TYPE_CHANGED"
            return [_error(narrowed, path)]
        errors = [*_enum(writer, reader, path), *_limits(writer, reader, path)]
        errors += self._combined(writer, reader, path)
        if "object" in types:
            errors += self._objects(writer, reader, path)
        if "array" in types:
            errors += self._arrays(writer, reader, path)
        return errors

    def _combined(self, writer: Schema, reader: Schema, path: str) -> Iterator[str]:
        """Compare allOf and not."""
        parts = [*writer.get("allOf", ()), {name: value for name, value in writer.items() if name != "allOf"}]
        for index, part in enumerate(reader.get("allOf", ())):
            if all(self.differences(other, part, f"{path}/allOf/{index}") for other in parts):
                yield _error("PRODUCT_TYPE_EXTENDED", f"{path}/allOf/{index}")
        if "not" in reader:
            swapped = JsonReader(self._writers, self._readers)
            if "not" not in writer or swapped.differences(reader["not"], writer["not"]):
                yield _error("NOT_TYPE_EXTENDED", f"{path}/not")

    def _objects(self, writer: Schema, reader: Schema, path: str) -> Iterator[str]:
        old, new = writer.get("properties", {}), reader.get("properties", {})
        for name in sorted({*old, *new}):
            at = f"{path}/properties/{name}"
            if name in old and name in new:
                yield from self.differences(old[name], new[name], at)
            elif name in new:
                yield from self._added(name, writer, reader, at)
            else:
                yield from self._removed(name, writer, reader, at)
        for name in reader.get("required", ()):
            if name in old and name not in writer.get("required", ()) and not _has_default(new.get(name)):
                yield _error("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}")
        yield from self._rest(_rest(writer), _rest(reader), "ADDITIONAL_PROPERTIES", f"{path}/additionalProperties")
        yield from self._dependencies(writer, reader, path)

    def _added(self, name: str, writer: Schema, reader: Schema, path: str) -> list[str]:
        schema = reader["properties"][name]
        rest = _undeclared(writer, name)
        if rest is True or rest == {}:
            is_empty = self._readers.resolved(schema) in (True, {})
            return [] if is_empty else [_error("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path)]
        if rest is not False and self.differences(rest, schema, path):
            return [_error("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)]
        if name in reader.get("required", ()) and not _has_default(schema):
            return [_error("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path)]
        return []

    def _removed(self, name: str, writer: Schema, reader: Schema, path: str) -> list[str]:
        schema, rest = writer["properties"][name], _undeclared(reader, name)
        if rest is True or rest == {} or schema is False:
            return []
        if rest is False:
            return [_error("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)]
        if self.differences(schema, rest, path):
            return [_error("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)]
        return []

    def _rest(self, old: Any, new: Any, name: str, path: str) -> list[str]:
        """Compare the schemas for undeclared properties."""
        if new is False:
            return [] if old is False else [_error(f"{name}_REMOVED", path)]
        if old is True and new not in (True, {}):
            return [_error(f"{name}_NARROWED", path)]
        return self.differences(old, new, path)

    def _dependencies(self, writer: Schema, reader: Schema, path: str) -> Iterator[str]:
        old, new = _dependencies(writer), _dependencies(reader)
        for name, (required, schema) in new.items():
            old_required, old_schema = old.get(name, (frozenset(), True))
            if not required <= old_required:
                yield _error("DEPENDENCY_ARRAY_EXTENDED", f"{path}/dependencies/{name}")
            if self.differences(old_schema, schema):
                yield _error("DEPENDENCY_SCHEMA_ADDED", f"{path}/dependencies/{name}")

    def _arrays(self, writer: Schema, reader: Schema, path: str) -> Iterator[str]:
        if reader.get("uniqueItems") and not writer.get("uniqueItems"):
            yield _error("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems")
        (old, old_rest), (new, new_rest) = _items(writer), _items(reader)
        for index in range(max(len(old), len(new))):
            item = old[index] if index < len(old) else old_rest
            at = f"{path}/items/{index}"
            if index < len(new):
                yield from self.differences(item, new[index], at)
            elif self.differences(item, new_rest, at):
                yield _error("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", at)
        yield from self.differences(old_rest, new_rest, f"{path}/items")
        if "contains" in reader:
            if "contains" not in writer or self.differences(writer["contains"], reader["contains"]):
                yield _error("SCHEMA_CHANGED", f"{path}/contains")
            if reader.get("minContains", 1) > writer.get("minContains", 1):
                yield _error("MIN_CONTAINS_INCREASED", f"{path}/minContains")
            if reader.get("maxContains", math.inf) < writer.get("maxContains", math.inf):
                yield _error("MAX_CONTAINS_DECREASED", f"{path}/maxContains")


def _alternatives(schema: Schema, documents: JsonDocuments) -> Iterator[Schema]:
    """Yield the schemas of which one has to match: the branches of anyOf and oneOf except those that are `false`,
    merged with the keywords beside them; the schema itself if it has neither.
    """
    pending: list[Schema] = [schema]
    count = 0
    while pending:
        current = pending.pop()
        keyword = next((name for name in ("anyOf", "oneOf") if name in current), None)
        if keyword is None:
            yield current
            continue
        siblings = {name: value for name, value in current.items() if name != keyword}
        for branch in current[keyword]:
            count += 1
            if count > MAX_BRANCHES:
                raise ValueError(f"a schema has more than {MAX_BRANCHES} alternatives")
            resolved = documents.resolved(branch)
            if isinstance(resolved, dict):
                parts = [*siblings.get("allOf", ()), *resolved.get("allOf", ())]
                pending.append({**siblings, **resolved, **({"allOf": parts} if parts else {})})
            elif resolved:
                pending.append(siblings)


def _types(schema: Schema) -> set[str]:
    kinds = schema.get("type", TYPES)
    types = {kinds} if isinstance(kinds, str) else set(kinds)
    return types | {"integer"} if "number" in types else types


def _values(schema: Schema) -> list[Any] | None:
    """Return the values that const or enum allows; None if there is neither."""
    if "const" in schema:
        return [schema["const"]]
    values: list[Any] | None = schema.get("enum")
    return values


def _enum(writer: Schema, reader: Schema, path: str) -> Iterator[str]:
    old, new = _values(writer), _values(reader)
    if new is not None and (old is None or any(value not in new for value in old)):
        yield _error("ENUM_ARRAY_NARROWED" if old is not None else "ENUM_ARRAY_CHANGED", f"{path}/enum")


def _limits(writer: Schema, reader: Schema, path: str) -> Iterator[str]:
    for keyword, is_upper, name in LIMITS:
        old, new = writer.get(keyword), reader.get(keyword)
        if new is None or new is False:
            continue
        if old is None or old is False:
            yield _error(f"{name}_ADDED", f"{path}/{keyword}")
        elif new < old if is_upper else new > old:
            yield _error(f"{name}_{'DECREASED' if is_upper else 'INCREASED'}", f"{path}/{keyword}")
    if "pattern" in reader and reader["pattern"] != writer.get("pattern"):
        yield _error("PATTERN_CHANGED" if "pattern" in writer else "PATTERN_ADDED", f"{path}/pattern")
    if (new := reader.get("multipleOf")) and not ((old := writer.get("multipleOf")) and old % new == 0):
        yield _error("MULTIPLE_OF_CHANGED" if old else "MULTIPLE_OF_ADDED", f"{path}/multipleOf")


def _undeclared(schema: Schema, name: str) -> Any:
    """Return the schema for a property that `properties` does not have."""
    for pattern, part in schema.get("patternProperties", {}).items():
        if _matches(pattern, name):
            return part
    return _rest(schema)


def _rest(schema: Schema) -> Any:
    """Return the schema for properties that neither `properties` nor `patternProperties` has."""
    return schema.get("additionalProperties", schema.get("unevaluatedProperties", True))


def _matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches, in linear time. A pattern that RE2 does not support never matches."""
    try:
        return re2.search(pattern, name) is not None
    except re2.error:
        return False


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _dependencies(schema: Schema) -> dict[str, tuple[frozenset[str], Any]]:
    """Return, for each property with dependencies, the properties that it requires and the schema that it applies."""
    merged: dict[str, tuple[frozenset[str], Any]] = {}
    for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
        for name, value in schema.get(keyword, {}).items():
            required, part = merged.get(name, (frozenset(), True))
            merged[name] = (frozenset(value), part) if isinstance(value, list) else (required, value)
    return merged


def _items(schema: Schema) -> tuple[list[Any], Any]:
    """Return the schemas of a tuple's items, and the schema of the items after them."""
    rest = schema.get("unevaluatedItems", True)
    if "prefixItems" in schema:
        return schema["prefixItems"], schema.get("items", rest)
    if isinstance(schema.get("items"), list):
        return schema["items"], schema.get("additionalItems", rest)
    # additionalItems has no effect without items, but Confluent compares it
    return [], schema.get("items", schema.get("additionalItems", rest))


def _error(kind: str, path: str) -> str:
    return f"{{errorType:'{kind}', path:'{path}'}}"
