"""Columns of JSON values with a JSON Schema of the registry.

Objects with properties become structs, other objects with a schema in additionalProperties maps, and arrays lists.
Other objects, parts without one type, and recursive ones become JSON in a string.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from ottla.serdes import Schema, SchemaRegistryClient
from ottla.serdes.framing import HEADER_BYTES
from ottla_registry.schemas.json_documents import JsonDocuments
from ottla_tables.columns import MICROS
from ottla_tables.values.arrow_types import conformed
from ottla_tables.values.value_schema import VALUE, Decode, FieldCount, arrays

SCALARS: Final = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64(), "string": pa.string()}
FORMATS: Final = {"date-time": MICROS, "date": pa.date32()}
Prepare = Callable[[Any], Any]


class JsonSchemaValues:
    """The columns of the latest version of a JSON Schema subject, and decoders of all its versions."""

    def __init__(self, registry: SchemaRegistryClient, latest: Schema) -> None:
        references = {name: json.loads(schema.text) for name, schema in registry.references(latest).items()}
        document = json.loads(latest.text)
        types = _Types(JsonDocuments(document, references))
        kind, decoded, self._prepare = types.parts(document)
        self._is_record = pa.types.is_struct(kind)
        wrap: Callable[[Any], Any] = list if self._is_record else lambda one: [(VALUE, one)]
        self.fields: Any = pa.schema(wrap(kind))
        self._decoded = pa.schema(wrap(decoded))

    def decoder(self, writer: Schema) -> Decode:
        """Return the decoder. It does not use the writer's schema, because JSON needs none. Raises ValueError if that
        schema is not a JSON Schema.
        """
        if writer.schema_type != "JSON":
            raise ValueError(f"the value is {writer.schema_type}, and the latest schema is JSON")
        return self._decode

    def _decode(self, values: Any) -> list[Any]:
        objects = [json.loads(value[HEADER_BYTES:]) for value in values.to_pylist()]
        if self._prepare is not None:
            objects = [self._prepare(value) for value in objects]
        columns = arrays(objects if self._is_record else [{VALUE: value} for value in objects], self._decoded)
        return [conformed(column, field.type) for column, field in zip(columns, self.fields, strict=True)]


class _Types:
    """Finds the types of the columns of a JSON Schema, and the preparation of decoded values for Arrow."""

    def __init__(self, documents: JsonDocuments) -> None:
        self._documents = documents
        self._inside: list[int] = []
        self._count = FieldCount()

    def parts(self, schema: Any) -> tuple[Any, Any, Prepare | None]:
        """Return three things for a schema: the type of its column, the type of the decoded values (in which times are
        strings), and the function that prepares these values for Arrow; None if they need no preparation.

        Raises UnsupportedSchemaError if there are too many fields, and ValueError for a reference that cannot be
        resolved.
        """
        schema = self._only(self._documents.resolved(schema))
        kind = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(kind, list):
            others = [name for name in kind if name != "null"]
            kind = others[0] if len(others) == 1 else None
        has_type = kind is not None or (isinstance(schema, dict) and "properties" in schema)
        if id(schema) in self._inside or not has_type:
            return _text()
        self._inside.append(id(schema))
        try:
            if kind in (None, "object"):
                return self._object(schema)
            if kind == "array":
                return self._array(schema)
        finally:
            self._inside.pop()
        if kind == "string":
            return FORMATS.get(schema.get("format"), pa.string()), pa.string(), None
        return (SCALARS[kind], SCALARS[kind], CHECKS.get(kind)) if kind in SCALARS else _text()

    def _only(self, schema: Any) -> Any:
        """Return the branch of `oneOf` or `anyOf` that is not null, or an empty schema unless there is exactly one.

        Other schemas are returned as they are.
        """
        for keyword in ("oneOf", "anyOf"):
            if isinstance(schema, dict) and "type" not in schema and isinstance(schema.get(keyword), list):
                branches = [self._documents.resolved(branch) for branch in schema[keyword]]
                others = [b for b in branches if not (isinstance(b, dict) and b.get("type") == "null")]
                return self._only(others[0]) if len(others) == 1 else {}
        return schema

    def _object(self, schema: Mapping[str, Any]) -> tuple[Any, Any, Prepare | None]:
        properties = schema.get("properties")
        if not properties:
            values = schema.get("additionalProperties")
            if not isinstance(values, dict) or not values:
                return _text()
            kind, decoded, prepare = self.parts(values)
            return pa.map_(pa.string(), kind), pa.map_(pa.string(), decoded), _map(prepare or _unchanged)
        self._count.add(len(properties))
        parts = {name: self.parts(part) for name, part in properties.items()}
        prepares = {name: prepare for name, (_, _, prepare) in parts.items() if prepare is not None}
        return (
            pa.struct([(name, kind) for name, (kind, _, _) in parts.items()]),
            pa.struct([(name, decoded) for name, (_, decoded, _) in parts.items()]),
            _struct(prepares),
        )

    def _array(self, schema: Mapping[str, Any]) -> tuple[Any, Any, Prepare | None]:
        kind, decoded, prepare = self.parts(schema.get("items"))
        return pa.list_(kind), pa.list_(decoded), _list(prepare or _unchanged)


def _unchanged(value: Any) -> Any:
    return value


def _text() -> tuple[Any, Any, Prepare]:
    """Return what `parts` returns for a schema without a column type: its values become JSON in a string."""
    return pa.string(), pa.string(), lambda value: None if value is None else json.dumps(value, ensure_ascii=False)


def _map(prepare: Prepare) -> Prepare:
    return lambda value: None if value is None else [(key, prepare(part)) for key, part in value.items()]


def _list(prepare: Prepare) -> Prepare:
    def prepare_list(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not list:  # Arrow would take a string for a list of characters
            raise ValueError(f"{value!r:.100} is not an array")
        return [prepare(part) for part in value]

    return prepare_list


def _integer(value: Any) -> Any:
    """Return an integer as an int, also if it is a float such as 1.0. Raises ValueError for other values except
    None: Arrow would cut off fractions.
    """
    if value is None or type(value) is int:
        return value
    if type(value) is not float or not value.is_integer():
        raise ValueError(f"{value!r:.100} is not an integer")
    return int(value)


def _number(value: Any) -> Any:
    if value is None or type(value) is float:
        return value
    if type(value) is not int:  # Arrow would take true for 1
        raise ValueError(f"{value!r:.100} is not a number")
    return float(value)


CHECKS: Final[Mapping[str, Prepare]] = {"integer": _integer, "number": _number}


def _struct(prepares: Mapping[str, Prepare]) -> Prepare:
    def prepare(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:  # Arrow would take an empty array for an object
            raise ValueError(f"{value!r:.100} is not an object")
        for name, change in prepares.items():
            if name in value:
                value[name] = change(value[name])
        return value

    return prepare
