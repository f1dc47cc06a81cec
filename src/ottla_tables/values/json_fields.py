"""A column per field of JSON objects, declared or inferred.

Arrow parses a batch of values in one call. A record whose value is not one JSON object, or does not have the types of
the columns, becomes a dead letter. A tombstone is a row whose fields are null.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ottla import table_fields
from ottla.errors import ConfigurationError
from ottla.table_fields import DeclaredField
from ottla_tables.columns import MICROS, RECORD
from ottla_tables.values.arrow_types import grown
from ottla_tables.values.column_names import column_of, field_of
from ottla_tables.values.rows import Rows, by_halves

RECORD_COLUMNS: Final = ("offset", "partition", "timestamp", "key")
TYPES: Final = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "string": pa.string(),
    "text": pa.string(),
    "varchar": pa.string(),
    "timestamp": MICROS,
    "date": pa.date32(),
}
MAX_DEPTH: Final = 32
"""Maximum nesting of objects and arrays. Arrow processes types recursively, so a very deep value would exhaust the
stack.
"""
MAX_FIELDS: Final = 2000
"""Maximum number of fields if they are inferred, including those inside objects and the items of arrays."""
_STRINGS: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS: Final = re.compile(r"[\[\]{}]")


def declared_schema(text: str) -> Any:
    """Return the columns that a text such as `id bigint, name string` declares. Raises ConfigurationError for an
    invalid text.
    """
    try:
        fields = table_fields.declared_fields(text)
    except ValueError as error:
        raise ConfigurationError(f"ottla.table.schema: {error}") from None
    return pa.schema([pa.field(field.name, _arrow_type(field)) for field in fields])


def _arrow_type(field: DeclaredField) -> Any:
    return pa.decimal128(field.digits, field.scale) if field.type == table_fields.DECIMAL else TYPES[field.type]


class JsonConverter:
    """Converts records to rows with a column per field.

    Args:
        fields: the declared fields; None to infer them.
        table: the current schema of the table, whose columns keep their types.
        widens: whether columns of numbers may get wider types nevertheless.
    """

    def __init__(self, fields: Any | None, table: Any, *, widens: bool = True) -> None:
        self._infers = fields is None
        self._own = [field for field in RECORD if field.name in RECORD_COLUMNS]
        stored = {field_of(f.name): f.type for f in table if f.name not in RECORD.names}
        if fields is None:
            self._fields = pa.schema(stored)
        else:
            types = {f.name: grown(stored.get(f.name, f.type), f.type, widens=widens) for f in fields}
            self._fields = pa.schema(types)

    @property
    def schema(self) -> Any:
        """The columns of the rows."""
        return pa.schema([*self._own, *(pa.field(column_of(field.name), field.type) for field in self._fields)])

    def convert(self, records: Any) -> Rows:
        """Return rows with the fields of the values. If fields are inferred, new fields get columns as soon
        as their types are known.
        """
        if not self._infers:
            return by_halves(records, self._convert, self.schema)
        parsed = self._infer(records)
        rows = by_halves(parsed.batch, self._convert, self.schema)
        dead = [batch for batch in (parsed.dead, rows.dead) if batch is not None]
        if len(dead) < 2:
            return Rows(rows.batch, dead[0] if dead else None)
        return Rows(rows.batch, pa.Table.from_batches(dead).combine_chunks().to_batches()[0])

    def _infer(self, records: Any) -> Rows:
        """Add columns for new fields of the values if their types are known. Return the records whose fields can have
        columns, and the others as dead letters.
        """

        def parse(part: Any) -> Any:
            inferred = self._parse(part, "infer")
            if sum(map(_field_count, inferred.schema.types)) > MAX_FIELDS:
                raise pa.ArrowInvalid(f"the values have more than {MAX_FIELDS} fields")
            new = [_stable(field) for field in inferred.schema if field.name not in self._fields.names]
            fields = pa.schema([*self._fields, *(field for field in new if field is not None)])
            if new:
                _check_names(fields)
            self._fields = fields
            return part

        return by_halves(records, parse, RECORD)

    def _convert(self, records: Any) -> Any:
        parsed = self._parse(records, "ignore").combine_chunks()
        arrays = [records.column(field.name) for field in self._own]
        for field in self._fields:
            column = parsed.column(field.name)
            arrays.append(column.chunk(0) if column.num_chunks else pa.nulls(records.num_rows, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _parse(self, records: Any, unexpected: str) -> Any:
        """Return the values as a table, with nulls for tombstones. Raises ArrowInvalid if a value is not one JSON
        object, is nested too deeply, or does not fit the columns.
        """
        values = records.column("value")
        if values.null_count:
            present = values.is_valid()
            parsed = self._parse(records.filter(present), unexpected)
            # Row numbers of the values that are there, null for the others.
            places = pc.cumulative_sum(present.cast(pa.int64()))
            indices = pc.if_else(present, pc.subtract(places, 1), pa.nulls(len(values), pa.int64()))
            return parsed.take(indices)
        if not len(values):
            return self._fields.empty_table()
        text = values.cast(pa.string())
        trimmed = pc.utf8_trim_whitespace(text)
        if not pc.all(pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))).as_py():
            raise pa.ArrowInvalid("the value is not a JSON object")
        _check_depth(trimmed)
        # Each value begins and ends with a brace, and line breaks are not allowed in strings: if there are as many
        # objects as values, each value is one object.
        lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(trimmed)], pa.int32()), trimmed), "\n")
        data = lines[0].as_buffer()
        parsed = _read_json(data, self._fields, unexpected)
        if parsed.num_rows != len(values):
            raise pa.ArrowInvalid("the value is not one JSON object")
        return parsed


def _read_json(data: Any, fields: Any, unexpected: str) -> Any:
    """Parse JSON objects to columns of these types. Raises ArrowInvalid if one is malformed or does not fit them."""
    dates = [field.name for field in fields if pa.types.is_date32(field.type)]
    texts = pa.schema([pa.field(f.name, pa.string()) if f.name in dates else f for f in fields])

    def read(types: Any) -> Any:
        return pj.read_json(
            io.BytesIO(data),
            pj.ReadOptions(use_threads=False, block_size=max(data.size + 1, 1 << 16)),
            pj.ParseOptions(types, newlines_in_values=True, unexpected_field_behavior=unexpected),
        )

    try:
        parsed = read(texts)
    except pa.ArrowInvalid:
        if not dates:
            raise
        return read(fields)  # dates may also be days since 1970, as in Kafka Connect
    for name in dates:
        index = parsed.schema.get_field_index(name)
        parsed = parsed.set_column(index, name, parsed.column(index).cast(pa.date32()))
    return parsed


def _check_depth(texts: Any) -> None:
    """Raise ArrowInvalid if a value is nested more than MAX_DEPTH levels deep."""
    opening = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    for text in texts.filter(pc.greater(opening, MAX_DEPTH)).to_pylist():
        depth = 0
        for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
            depth += 1 if bracket in "[{" else -1
            if depth > MAX_DEPTH:
                raise pa.ArrowInvalid(f"the value is nested more than {MAX_DEPTH} levels deep")


def _check_names(fields: Any) -> None:
    """Raise ArrowInvalid for names that not all table formats support."""
    paths: dict[str, str] = {}
    for path in _paths(fields):
        # delta-rs cuts names at a NUL character.
        if "\0" in path:
            raise pa.ArrowInvalid(f"the name of the field {path!r} has a NUL character")
        # SQL does not distinguish upper and lower case, and Delta does not have such columns. Iceberg finds fields by
        # their paths.
        other = paths.get(path.lower())
        if other is not None:
            problem = "have the same path" if other == path else "differ in case only"
            raise pa.ArrowInvalid(f"the fields {other} and {path} {problem}")
        paths[path.lower()] = path


def _paths(fields: Any, prefix: str = "") -> Iterator[str]:
    """Yield the names of fields, including nested ones in structs and lists, as in Iceberg: `a.b`, `a.element`."""
    for field in fields:
        path, kind = f"{prefix}{field.name}", field.type
        yield path
        while pa.types.is_list(kind):
            path, kind = f"{path}.element", kind.value_type
            yield path
        if pa.types.is_struct(kind):
            yield from _paths(kind, f"{path}.")


def _field_count(kind: Any) -> int:
    return 1 + sum(_field_count(kind.field(i).type) for i in range(kind.num_fields))


def _stable(field: Any) -> Any:
    """Return a field with the type that its column gets, or None if its type is not known yet.

    Text that looks like a time stays text: the next value may look different.
    """
    kind = _stable_type(field.type)
    return None if kind is None else pa.field(field.name, kind)


def _stable_type(kind: Any) -> Any:
    if pa.types.is_null(kind):
        return None
    if pa.types.is_temporal(kind):
        return pa.string()
    if pa.types.is_list(kind):
        value = _stable_type(kind.value_type)
        return None if value is None else pa.list_(value)
    if pa.types.is_struct(kind):
        fields = [_stable(field) for field in kind]
        return pa.struct([field for field in fields if field is not None]) if any(fields) else None
    return kind
