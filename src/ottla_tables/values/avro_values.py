"""Columns of Avro values. The schema determines their types; `avro_batches` decodes the values, or fastavro if
`avro_batches` does not support a schema or a value.

Numbers with a logical type, such as times, are decoded as plain numbers, which Arrow interprets, unless a writer's
schema has another unit. Creating Python objects for them would take half of the time.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from ottla.serdes import Schema, SchemaRegistryClient
from ottla.serdes.framing import HEADER_BYTES
from ottla_tables.values.avro_batches import MAX_DECIMAL_BYTES, BatchDecoder, MalformedBatchError, UnsupportedTypeError
from ottla_tables.values.avro_defaults import convert_defaults
from ottla_tables.values.avro_resolution import Resolution, expanded
from ottla_tables.values.rows import InvalidRowsError
from ottla_tables.values.value_schema import VALUE, Decode, FieldCount, UnsupportedSchemaError, arrays

MAX_PRECISION: Final = 38
DECIMALS: Final = Context(prec=200)
"""The context for decimals, with enough digits for all numbers of MAX_DECIMAL_BYTES."""
PRIMITIVES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    **{
        ("long", f"{prefix}timestamp-{name}"): pa.timestamp(unit, zone)
        for prefix, zone in (("", "UTC"), ("local-", None))
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
"""The Arrow types of numbers with a logical type. Times of the day stay numbers, because Delta has no type for them."""
PYTHON_TYPES: Final = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "string": str,
    "enum": str,
    "fixed": bytes,
    "array": list,
    "map": dict,
}
UNCHECKED: Final = ("boolean", "float", "double", "fixed")
"""Types that fastavro skips without noticing the end of the data."""
NAMED_RECORDS: Final = {"return_record_name": True, "return_record_name_override": True}
Prepare = Callable[[Any], Any]


class AvroValues:
    """The columns of the latest version of an Avro subject, and decoders of all its versions."""

    def __init__(self, registry: SchemaRegistryClient, latest: Schema) -> None:
        self._registry = registry
        self._latest = latest
        schema, self._named = self._parsed(latest, _unchanged)
        self._schema = schema
        kind = _Types(self._named).type(schema)
        if kind is None:
            raise UnsupportedSchemaError("values of the type null have no columns")
        self._is_record = pa.types.is_struct(kind)
        self.fields: Any = pa.schema(list(kind) if self._is_record else [(VALUE, kind)])
        preparation = _Preparation(self._named)
        self._prepare, self._has_unions = preparation.for_schema(schema), preparation.has_unions
        self._logical_types = dict(_logical_types(schema, self._named))

    def _parsed(self, schema: Schema, change: Callable[[Any], Any]) -> tuple[Any, dict[str, Any]]:
        from fastavro import parse_schema

        named: dict[str, Any] = {}
        texts = [reference.text for reference in self._registry.references(schema).values()]
        try:
            for text in texts:
                parse_schema(change(json.loads(text)), named_schemas=named)
            parsed = parse_schema(change(json.loads(schema.text)), named_schemas=named)
            for part in (*named.values(), parsed):
                convert_defaults(part, named)
            return parsed, named
        except Exception as error:  # fastavro raises KeyError and TypeError for malformed schemas, too
            raise UnsupportedSchemaError(f"invalid Avro schema: {error!r}") from error

    def decoder(self, writer: Schema) -> Decode:
        """Return a decoder that resolves the writer's schema into the latest one. Raises ValueError if the writer's
        schema is not a supported Avro schema, or has other decimals.
        """
        from fastavro import schemaless_reader

        if writer.schema_type != "AVRO":
            raise ValueError(f"the value is {writer.schema_type}, and the latest schema is AVRO")
        original, named = self._parsed(writer, _unchanged)
        _Types(named).type(original)  # data of recursive types could exhaust the stack
        # Of a time in other units than the latest, fastavro makes an object.
        has_other_units = self._differs(_logical_types(original, named))
        change = _logical if has_other_units else _physical
        decode_batch = None if has_other_units else self._batch_decoder(original, named)
        own, latest = self._parsed(writer, change), self._parsed(self._latest, change)
        schema, reader = own[0], None if own == latest else latest[0]
        is_bytes = _kind(schema) == "bytes"
        # A malformed value could claim any number of items, which fastavro would skip for years.
        is_checked = reader is not None and _has_unchecked_items(schema, own[1])
        prepare, is_record = self._prepare, self._is_record
        # Records of a union need their names, which take time.
        options: dict[str, Any] = NAMED_RECORDS if self._has_unions else {}

        def decode(values: Any) -> list[Any]:
            if decode_batch is not None:
                try:
                    return decode_batch(values)
                except MalformedBatchError as error:
                    if error.rows is not None and len(values) > 1:  # of each one, fastavro says why
                        raise InvalidRowsError(str(error), pa.array(error.rows.tolist(), pa.int64())) from error
            _, offsets, data = values.buffers()
            ends = memoryview(offsets).cast("i")[values.offset : values.offset + len(values) + 1]
            first = ends[0]
            # Without the values after these: a malformed one would read all of them.
            stream = _Values(memoryview(data)[first : ends[-1]] if data is not None else b"")
            objects: list[Any] = []
            for start, end in pairwise(end - first for end in ends):
                if is_bytes:  # without its length, as Confluent's serializers write it
                    objects.append(bytes(stream.getbuffer()[start + HEADER_BYTES : end]))
                    continue
                if is_checked:
                    stream.seek(start + HEADER_BYTES)
                    schemaless_reader(stream, schema, None)
                stream.seek(start + HEADER_BYTES)
                objects.append(schemaless_reader(stream, schema, reader, **options))
                if stream.seek(0, io.SEEK_CUR) != end:
                    raise ValueError("the value is longer or shorter than its schema says")
            if prepare is not None:
                objects = [prepare(value) for value in objects]
            return arrays(objects if is_record else [{VALUE: value} for value in objects], self.fields)

        return decode

    def _batch_decoder(self, writer: Any, named: Mapping[str, Any]) -> Decode | None:
        """Return a decoder of all rows at once. Return None if values are not records, or only fastavro can decode the
        schema or resolve its changes.
        """
        if not self._is_record:
            return None
        try:
            decoder = BatchDecoder(writer, named, lambda schema: _Types(named).type(schema), _branch_name)
            kinds = {field.name: field.type for field in self.fields}
            resolution = Resolution(expanded(writer, named), expanded(self._schema, self._named), kinds)
        except UnsupportedTypeError:
            return None
        return lambda values: resolution.arrays(decoder.decode(values), len(values))

    def _differs(self, logical_types: Iterable[tuple[str, Any]]) -> bool:
        """Return whether the latest schema has other logical types than `logical_types`, such as times in other units.
        A part that has no logical type in one of the schemas does not count: its number stays as it is.

        Raises ValueError if the scale of a decimal differs, or a part is a decimal in only one of the schemas.
        """
        differs = False
        for path, kind in logical_types:
            latest = self._logical_types.get(path, kind)
            if latest != kind:
                # If one of them has none, the number stays as it is.
                differs |= latest is not None and kind is not None
                for name in (latest, kind):
                    if str(name).startswith("decimal"):
                        raise ValueError(f"{path} is {kind}, and in the latest schema {latest}")
        return differs


class _Values(io.BytesIO):
    """A stream of the values of a batch. fastavro's errors contain its repr, and dead letters contain these errors."""

    def __repr__(self) -> str:
        return "the value"


def _unchanged(schema: Any) -> Any:
    return schema


def _physical(schema: Any) -> Any:
    """Return a schema without logical types."""
    return _with_logical_types(schema, lambda part: False)


def _logical(schema: Any) -> Any:
    """Return a schema with only those logical types that LOGICAL has: dates and timestamps."""
    return _with_logical_types(schema, lambda part: (part.get("type"), part["logicalType"]) in LOGICAL)


def _with_logical_types(schema: Any, has: Callable[[Any], bool]) -> Any:
    """Return a schema that has only those logical types for which `has` returns true."""
    if isinstance(schema, list):
        return [_with_logical_types(branch, has) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {
        name: _with_logical_types(part, has) if name in ("type", "items", "values") else part
        for name, part in schema.items()
    }
    if "logicalType" in changed and not has(changed):
        del changed["logicalType"]
    if "fields" in changed:
        changed["fields"] = [_with_logical_types(field, has) for field in changed["fields"]]
    return changed


def _logical_types(schema: Any, named: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the logical type (of a decimal with its scale; None if there is none) of each part of a schema
    other than records, arrays, maps, unions and their nulls.
    """
    if isinstance(schema, str):
        schema = named.get(schema, schema)
    if isinstance(schema, list):
        present = [branch for branch in schema if _kind(branch) != "null"]
        for branch in present:
            yield from _logical_types(branch, named, path if len(present) == 1 else f"{path}|{_branch_name(branch)}")
    elif not isinstance(schema, dict):
        yield path, None
    elif schema["type"] in ("record", "error"):
        for field in schema["fields"]:
            yield from _logical_types(field["type"], named, f"{path}/{field['name']}")
    elif schema["type"] in ("array", "map"):
        yield from _logical_types(schema["items" if schema["type"] == "array" else "values"], named, f"{path}[]")
    elif isinstance(schema["type"], (dict, list)) or schema["type"] in named:
        yield from _logical_types(schema["type"], named, path)
    else:
        decimal = _decimal(schema)
        yield path, f"decimal with scale {decimal.scale}" if decimal else schema.get("logicalType")


def _has_unchecked_items(schema: Any, named: Mapping[str, Any]) -> bool:
    """Return whether a schema has arrays whose items fastavro may skip without noticing the end of the data."""
    if isinstance(schema, str):
        schema = named.get(schema, schema)
    if isinstance(schema, list):
        return any(_has_unchecked_items(branch, named) for branch in schema)
    if not isinstance(schema, dict):
        return False
    kind = schema["type"]
    if kind in ("record", "error"):
        return any(_has_unchecked_items(field["type"], named) for field in schema["fields"])
    if kind == "array":
        items = schema["items"]
        items = named.get(items, items) if isinstance(items, str) else items
        is_record = isinstance(items, dict) and items["type"] in ("record", "error")
        return is_record or _kind(items) in UNCHECKED or _has_unchecked_items(items, named)
    if kind == "map":
        return _has_unchecked_items(schema["values"], named)
    return isinstance(kind, (dict, list)) and _has_unchecked_items(kind, named)


def _decimal(schema: Mapping[str, Any]) -> Any:
    """Return the Arrow type of a decimal; None if the schema is not a decimal, or its precision or scale is not
    supported.
    """
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or schema.get("type") not in ("bytes", "fixed"):
        return None
    if not isinstance(precision, int) or not 0 <= scale <= precision <= MAX_PRECISION:
        return None
    return pa.decimal128(precision, scale)


def _kind(schema: Any) -> Any:
    """Return the type of a schema, such as `long` or `enum`; for a record, or a reference to a named type, its name;
    for a union, its branches.
    """
    while isinstance(schema, dict):
        if schema["type"] in ("record", "error"):
            return schema["name"]
        schema = schema["type"]
    return schema


class _Types:
    """Arrow types of parsed schemas. `named`: the named types."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._inside: list[str] = []
        self._count = FieldCount()

    def type(self, schema: Any) -> Any:
        """Return the Arrow type of a schema; None for null. Raises UnsupportedSchemaError if there is none, for
        example for a recursive type.
        """
        if isinstance(schema, list):
            branches = [(_branch_name(branch), self.type(branch)) for branch in schema]
            present = [(name, kind) for name, kind in branches if kind is not None]
            if len(present) > 1:
                return pa.struct(present)
            return present[0][1] if present else None
        if isinstance(schema, str):
            if schema == "null":
                return None
            return PRIMITIVES[schema] if schema in PRIMITIVES else self.type(self._named[schema])
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "array":
            return pa.list_(self._part("an array", schema["items"]))
        if kind == "map":
            return pa.map_(pa.string(), self._part("a map", schema["values"]))
        if isinstance(kind, (dict, list)) or kind not in PRIMITIVES:
            return self.type(kind)
        if kind == "fixed" and not schema["size"]:
            # A few bytes could claim billions of them in an array; the same goes for nulls and empty records.
            raise UnsupportedSchemaError("a fixed of no bytes cannot be a column")
        return _decimal(schema) or LOGICAL.get((kind, schema.get("logicalType")), PRIMITIVES[kind])

    def _part(self, whole: str, schema: Any) -> Any:
        kind = self.type(schema)
        if kind is None:
            raise UnsupportedSchemaError(f"{whole} of nulls cannot be a column")
        return kind

    def _record(self, schema: Mapping[str, Any]) -> Any:
        name = str(schema["name"])
        if name in self._inside:
            raise UnsupportedSchemaError(f"the record {name} contains itself: it cannot be a column")
        self._inside.append(name)
        self._count.add(len(schema["fields"]))
        fields = [(field["name"], self.type(field["type"])) for field in schema["fields"]]
        self._inside.pop()
        present = [(field, kind) for field, kind in fields if kind is not None]
        if not present:
            raise UnsupportedSchemaError(f"the record {name} has no fields: it cannot be a column")
        return pa.struct(present)


def _branch_name(schema: Any) -> str:
    name = schema.get("name", schema["type"]) if isinstance(schema, dict) else schema
    return str(name).rpartition(".")[2]


class _Preparation:
    """Builds functions that convert decoded values to the form that Arrow accepts for their type. For example, a value
    of a union of several types becomes a dictionary.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self.has_unions = False

    def for_schema(self, schema: Any) -> Prepare | None:
        """Return the function for values of a schema; None if the values need no conversion."""
        if isinstance(schema, str):
            schema = self._named.get(schema, schema)
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return None
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "array":
            item = self.for_schema(schema["items"])
            return item and (lambda value: [item(part) for part in value])
        if kind == "map":
            of_value = self.for_schema(schema["values"]) or _unchanged
            return lambda value: [(key, of_value(part)) for key, part in value.items()]
        decimal = _decimal(schema)
        if decimal is not None:
            return _decimals(decimal.scale)
        return self.for_schema(kind) if isinstance(kind, (dict, list)) else None

    def _record(self, schema: Mapping[str, Any]) -> Prepare | None:
        prepared = {field["name"]: self.for_schema(field["type"]) for field in schema["fields"]}
        changes = {name: prepare for name, prepare in prepared.items() if prepare is not None}
        if not changes:
            return None
        return lambda value: {**value, **{name: prepare(value[name]) for name, prepare in changes.items()}}

    def _union(self, branches: list[Any]) -> Prepare | None:
        present = [branch for branch in branches if _kind(branch) != "null"]
        if len(present) == 1:
            prepare = self.for_schema(present[0])
            return prepare and (lambda value: None if value is None else prepare(value))
        self.has_unions = True
        prepares = [
            (_branch_name(branch), self._matches(branch), self.for_schema(branch) or _unchanged) for branch in present
        ]

        def prepare_union(value: Any) -> Any:
            if value is None:
                return None
            for name, matches, prepare in prepares:
                if matches(value):
                    return {name: prepare(value[1] if isinstance(value, tuple) else value)}
            raise ValueError("the value is of no branch of its union")

        return prepare_union

    def _matches(self, branch: Any) -> Callable[[Any], bool]:
        schema = self._named.get(branch, branch) if isinstance(branch, str) else branch
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in ("record", "error"):
            full = schema["name"]
            # fastavro names the record if the union has several of them
            return lambda value: value[0] == full if isinstance(value, tuple) else isinstance(value, dict)
        python_type = PYTHON_TYPES[kind]
        return lambda value: type(value) is python_type


def _decimals(scale: int) -> Prepare:
    def prepare(value: bytes) -> Decimal:
        if len(value) > MAX_DECIMAL_BYTES:
            raise ValueError(f"the decimal has {len(value)} bytes")
        return DECIMALS.scaleb(Decimal(int.from_bytes(value, "big", signed=True)), -scale)

    return prepare
