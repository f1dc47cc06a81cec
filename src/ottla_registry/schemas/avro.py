"""Avro schemas: parsing with fastavro, and the JSON text that Avro's Java library writes for a schema.

fastavro accepts a few schemas that Java's parser rejects, for example with invalid names, duplicate field names, or
unions in unions. `AvroSchema` rejects these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla_registry import strict_json
from ottla_registry.schemas.avro_compatibility import AvroReader
from ottla_registry.schemas.parsed import ReferencedSchema

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
NAMED: Final = ("record", "error", "enum", "fixed")
COMPLEX: Final = frozenset({*NAMED, "array", "map"})
ORDERS: Final = ("ascending", "descending", "ignore")
ATTRIBUTES: Final = frozenset(
    {"type", "name", "namespace", "doc", "aliases", "fields", "symbols", "items", "values", "size"}
)
"""The attributes of types, except the default of an enum. Java drops those that a type does not have, and keeps all
other attributes as properties.
"""
ENUM_ATTRIBUTES: Final = ATTRIBUTES | {"default"}
FIELD_ATTRIBUTES: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})


class AvroSchema:
    """A parsed Avro schema. Raises ValueError if the schema is invalid.

    Args:
        text: the schema in JSON.
        references: the schemas that it uses by name.
    """

    def __init__(self, text: str, references: Sequence[ReferencedSchema] = ()) -> None:
        import fastavro

        self.named: dict[str, Any] = {}
        self._references = references
        names: set[str] = set()
        try:
            for reference in references:
                document = _load(reference.schema)
                _Writer(names).write(document, "")
                fastavro.parse_schema(document, named_schemas=self.named, _write_hint=False)
            document = _load(text)
            self._document = document
            self.canonical: str = _dumps(_Writer(set(names)).write(document, ""))
            self.parsed: Any = fastavro.parse_schema(document, named_schemas=self.named, _write_hint=False)
        except RecursionError:
            raise ValueError("the schema is nested too deeply") from None
        except ValueError:
            raise
        except Exception as error:  # fastavro raises KeyError, TypeError and AttributeError for malformed schemas, too
            raise ValueError(f"{type(error).__name__}: {error}") from error
        self._names = names

    @property
    def normalized(self) -> str:
        """The canonical text with properties in alphabetical order."""
        return _dumps(_Writer(set(self._names), sort=True).write(self._document, ""))

    def is_resolved_to(self, canonical: str) -> bool:
        """Return whether `canonical` is the resolved text of this schema; False if the schema cannot be resolved."""
        try:
            return self.resolved == canonical
        except ValueError:  # with definitions that nothing uses
            return False

    @property
    def resolved(self) -> str:
        """The canonical text after the first use of each referenced type is replaced by its definition.

        Raises ValueError if the schema cannot be resolved.
        """
        types: dict[str, Any] = {}
        try:
            for reference in self._references:
                _define(_load(reference.schema), "", types)
            return _dumps(_Writer(set()).write(_inlined(self._document, "", types, set()), ""))
        except RecursionError:
            raise ValueError("the schema is nested too deeply") from None

    def cannot_read(self, writer: AvroSchema) -> list[str]:
        """Return the reasons why data of `writer` cannot be read with this schema; empty if it can."""
        return AvroReader(self.named, writer.named).differences(self.parsed, writer.parsed)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _namespace_of(schema: Mapping[str, Any], enclosing: str) -> str:
    """Return the namespace inside a named type."""
    name, declared = str(schema["name"]), schema.get("namespace")
    if "." in name:
        return name.rpartition(".")[0]
    return declared if isinstance(declared, str) else enclosing


def _define(schema: Any, namespace: str, types: dict[str, Any]) -> None:
    """Add the named types in a schema to `types`, with their full names."""
    if isinstance(schema, list):
        for branch in schema:
            _define(branch, namespace, types)
    elif isinstance(schema, dict):
        if "name" in schema and schema.get("type") in NAMED:
            namespace = _namespace_of(schema, namespace)
            full = _full_name(str(schema["name"]), namespace)
            types.setdefault(full, {**schema, "name": full})
        for part in ("type", "items", "values"):
            _define(schema.get(part), namespace, types)
        for field in schema.get("fields", ()):
            _define(field["type"], namespace, types)


def _inlined(schema: Any, namespace: str, types: Mapping[str, Any], defined: set[str]) -> Any:
    """Return a schema in which the first use of each of `types` is replaced by its definition, and each later
    definition of a type by the type's name. The names of the types that the returned schema defines are added to
    `defined`.
    """
    if isinstance(schema, str):
        name = _full_name(schema, namespace)
        name = name if name in types else schema
        return _inlined(types[name], "", types, defined) if name in types and name not in defined else schema
    if isinstance(schema, list):
        return [_inlined(branch, namespace, types, defined) for branch in schema]
    kind = schema.get("type")
    if kind in NAMED:
        namespace = _namespace_of(schema, namespace)
        full = _full_name(str(schema["name"]), namespace)
        if full in defined:
            return full
        defined.add(full)
        if "fields" not in schema:
            return schema
        fields = [{**field, "type": _inlined(field["type"], namespace, types, defined)} for field in schema["fields"]]
        return {**schema, "fields": fields}
    part = {"array": "items", "map": "values"}.get(kind, "type") if isinstance(kind, str) else "type"
    return {**schema, part: _inlined(schema[part], namespace, types, defined)}


def _load(text: str) -> Any:
    return strict_json.loads(text)


def _dumps(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


class _Writer:
    """Writes schemas with their attributes in the order of Avro's Java library."""

    def __init__(self, names: set[str], *, sort: bool = False) -> None:
        self._names = names
        self._sort = sort

    def write(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return schema if schema in PRIMITIVES else self._reference(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if not isinstance(schema, dict):
            raise ValueError(f"a schema must be a name, an object or a list, not {schema!r:.100}")
        kind = schema.get("type")
        if isinstance(kind, (dict, list)):  # {"type": {"type": …}}
            return self.write(kind, namespace)
        if kind is None:
            raise ValueError(f'no "type" in {_dumps(schema):.100}')
        if kind not in COMPLEX:
            if kind not in PRIMITIVES:
                return self._reference(str(kind), namespace)
            properties = self._properties(schema, ATTRIBUTES)
            return {"type": kind, **properties} if properties else kind
        return self._complex(kind, schema, namespace)

    def _reference(self, name: str, namespace: str) -> str:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self._names and name not in self._names:
            raise ValueError(f"undefined name: {name!r:.200}")
        shown = full if full in self._names else name
        package, _, simple = shown.rpartition(".")
        return simple if package == namespace else shown

    def _union(self, schema: list[Any], namespace: str) -> list[Any]:
        branches = [self.write(branch, namespace) for branch in schema]
        if any(isinstance(branch, list) for branch in branches):
            raise ValueError("a union must not contain a union immediately")
        names = [_branch_name(branch) for branch in branches]
        if len(set(names)) < len(names):
            raise ValueError(f"duplicate in union: {', '.join(names):.200}")
        return branches

    def _complex(self, kind: str, schema: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        written: dict[str, Any] = {"type": kind}
        if kind in NAMED:
            namespace = self._declare(schema, namespace, written)
        if kind in ("record", "error"):
            written["fields"] = self._fields(schema["fields"], namespace)
        elif kind == "enum":
            symbols = schema["symbols"]
            _check_distinct("symbol", symbols)
            if "default" in schema and schema["default"] not in symbols:
                raise ValueError(f"the default {schema['default']!r:.100} is not a symbol of the enum")
            written["symbols"] = symbols
            if "default" in schema:
                written["default"] = schema["default"]
        elif kind == "fixed":
            if not isinstance(schema["size"], int) or schema["size"] < 0:
                raise ValueError(f"invalid size of {schema['name']!r:.100}: {schema['size']!r:.100}")
            written["size"] = schema["size"]
        else:
            part = "items" if kind == "array" else "values"
            written[part] = self.write(schema[part], namespace)
        written.update(self._properties(schema, ENUM_ATTRIBUTES if kind == "enum" else ATTRIBUTES))
        if kind in NAMED and schema.get("aliases"):
            written["aliases"] = schema["aliases"]
        return written

    def _declare(self, schema: Mapping[str, Any], enclosing: str, written: dict[str, Any]) -> str:
        """Write the name and the doc of a named type, and return its namespace."""
        name = schema["name"]
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            raise ValueError(f"illegal name: {name!r:.200}")
        if "." in name:
            namespace, _, name = name.rpartition(".")
        else:
            declared = schema.get("namespace")
            namespace = declared if isinstance(declared, str) else enclosing
        full = f"{namespace}.{name}" if namespace else name
        if full in self._names or full in PRIMITIVES:
            raise ValueError(f"can't redefine: {full:.200}")
        self._names.add(full)
        written["name"] = name
        if namespace != enclosing:
            written["namespace"] = namespace
        if isinstance(schema.get("doc"), str):
            written["doc"] = schema["doc"]
        return namespace

    def _fields(self, fields: Iterable[Mapping[str, Any]], namespace: str) -> list[dict[str, Any]]:
        written = [self._field(field, namespace) for field in fields]
        _check_distinct("field", [field["name"] for field in written])
        return written

    def _field(self, field: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        if not isinstance(field, dict) or "type" not in field:
            raise ValueError(f"not a field with a type: {field!r:.200}")
        written: dict[str, Any] = {"name": field["name"], "type": self.write(field["type"], namespace)}
        if isinstance(field.get("doc"), str):
            written["doc"] = field["doc"]
        if "default" in field:
            written["default"] = field["default"]
        order = field.get("order", "ascending")
        if order not in ORDERS:
            raise ValueError(f"invalid order: {order!r:.100}")
        if order != "ascending":
            written["order"] = order
        if field.get("aliases"):
            written["aliases"] = field["aliases"]
        written.update(self._properties(field, FIELD_ATTRIBUTES))
        return written

    def _properties(self, schema: Mapping[str, Any], attributes: frozenset[str]) -> dict[str, Any]:
        properties = {name: value for name, value in schema.items() if name not in attributes}
        return dict(sorted(properties.items())) if self._sort else properties


def _branch_name(branch: Any) -> str:
    if isinstance(branch, str):
        return branch
    return ".".join(filter(None, (branch.get("namespace"), branch.get("name")))) or str(branch["type"])


def _check_distinct(what: str, names: Any) -> None:
    if not isinstance(names, list):
        raise ValueError(f"the {what}s are not a list")
    for name in names:
        if not isinstance(name, str) or NAME.fullmatch(name) is None or "." in name:
            raise ValueError(f"illegal {what} name: {name!r:.200}")
    if len(set(names)) < len(names):
        raise ValueError(f"duplicate {what} in {', '.join(names):.200}")
