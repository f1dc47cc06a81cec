"""Columns of Protobuf messages, parsed by Google's library with the descriptor that protoc generates from the latest
schema.

The columns are the fields of the first message type in that schema. Fields are identified by their numbers, so messages
of other versions can be parsed with it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from ottla.serdes import Schema, SchemaRegistryClient
from ottla.serdes.framing import HEADER_BYTES, message_path
from ottla_registry.schemas.parsed import ReferencedSchema
from ottla_registry.schemas.protobuf import ProtobufSchema
from ottla_tables.columns import MICROS
from ottla_tables.values.value_schema import Decode, FieldCount, UnsupportedSchemaError

UNSIGNED_64: Final = pa.decimal128(20)
"""The type of columns for unsigned numbers of 64 bits, because tables have no unsigned types."""
SCALARS: Final = {
    1: pa.float64(),
    2: pa.float32(),
    3: pa.int64(),
    4: UNSIGNED_64,
    5: pa.int32(),
    6: UNSIGNED_64,
    7: pa.int64(),
    8: pa.bool_(),
    9: pa.string(),
    12: pa.binary(),
    13: pa.int64(),
    14: pa.string(),
    15: pa.int32(),
    16: pa.int64(),
    17: pa.int32(),
    18: pa.int64(),
}
"""The types of columns by FieldDescriptor.type. Values of enums are stored as their names, or as the number in
text if it has no name.
"""
ENUM: Final = 14
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages with one field `value`, which stand for a scalar that may be missing."""
DYNAMIC: Final = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
TIMESTAMP: Final = "google.protobuf.Timestamp"
DATE: Final = "google.type.Date"
DATE_PARTS: Final = pa.struct([("date", pa.date32()), ("year", pa.int32()), ("month", pa.int32()), ("day", pa.int32())])
"""The type of dates, which may be without a year, a month or a day: `date` is null then, and a missing part is 0."""
LEAP_YEAR: Final = 2000
Extract = Callable[[Any], Any]


class ProtobufValues:
    """The columns of the latest version of a Protobuf subject, and decoders of all its versions."""

    def __init__(self, registry: SchemaRegistryClient, latest: Schema) -> None:
        from google.protobuf.message_factory import GetMessageClass

        self._registry = registry
        file = self._file(latest)
        if not file.message_types_by_name:
            raise UnsupportedSchemaError("the Protobuf schema has no message type")
        self._message = next(iter(file.message_types_by_name.values()))
        self._class = GetMessageClass(self._message)
        self._columns = _Columns().for_message(self._message)
        self.fields: Any = pa.schema([(name, kind) for name, kind, _ in self._columns])

    def _file(self, schema: Schema) -> Any:
        """Return the descriptor of a schema's file."""
        from google.protobuf.descriptor_pool import DescriptorPool

        references = self._registry.references(schema)
        files = ProtobufSchema(
            schema.text, [ReferencedSchema(name, part.text) for name, part in references.items()]
        ).files
        pool = DescriptorPool()
        for file in files:
            pool.Add(file)
        return pool.FindFileByName(files[-1].name)

    def decoder(self, writer: Schema) -> Decode:
        """Return a decoder of messages that were written with a schema. Raises ValueError if it is not a Protobuf
        schema with a message type. The decoder raises ValueError for a message whose type is not that of the table.
        """
        if writer.schema_type != "PROTOBUF":
            raise ValueError(f"the value is {writer.schema_type}, and the latest schema is PROTOBUF")
        file = self._file(writer)
        if not file.message_types_by_name:
            raise ValueError("the Protobuf schema has no message type")

        def start_of(value: bytes) -> int:
            path, size = message_path(memoryview(value)[HEADER_BYTES:])
            name = _message_type(file, path).full_name
            if name != self._message.full_name:
                raise ValueError(f"the message is a {name}, and the table has {self._message.full_name}")
            return HEADER_BYTES + size

        is_first = _message_type(file, [0]).full_name == self._message.full_name

        def decode(values: Any) -> list[Any]:
            parse, messages = self._class.FromString, []
            for value in values.to_pylist():
                # A zero byte is the first message type of the file, nearly always.
                start = HEADER_BYTES + 1 if is_first and value[HEADER_BYTES] == 0 else start_of(value)
                messages.append(parse(value[start:]))
            return [pa.array(list(map(extract, messages)), kind) for _, kind, extract in self._columns]

        return decode


def _message_type(file: Any, path: Sequence[int]) -> Any:
    """Return the message type with the indexes that precede a message. Raises IndexError if there is none."""
    message = list(file.message_types_by_name.values())[path[0]]
    for index in path[1:]:
        message = message.nested_types[index]
    return message


class _Columns:
    """The names, types and values of a message's fields."""

    def __init__(self) -> None:
        self._inside: list[str] = []
        self._count = FieldCount()

    def for_message(self, message: Any) -> list[tuple[str, Any, Extract]]:
        """Return the name, the type, and the function that extracts the value, for each field. Raises
        UnsupportedSchemaError for a message without fields, or with too many of them.
        """
        self._inside.append(message.full_name)
        self._count.add(len(message.fields))
        columns = [(field.name, *self._column(field)) for field in message.fields]
        self._inside.pop()
        if not columns:
            raise UnsupportedSchemaError(f"the message {message.full_name} has no fields: it cannot be a column")
        return columns

    def _column(self, field: Any) -> tuple[Any, Extract]:
        name = field.name
        value_of = attrgetter(name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
            (key_type, _), (item_type, item) = self._value(key), self._value(value)
            of_item = item or _unchanged
            return pa.map_(key_type, item_type), lambda m: [(k, of_item(v)) for k, v in value_of(m).items()]
        kind, convert = self._value(field)
        of_value = convert or _unchanged
        if _is_repeated(field):
            return pa.list_(kind), lambda m: [of_value(part) for part in value_of(m)]
        if not field.has_presence:
            return kind, value_of if convert is None else lambda m: of_value(value_of(m))
        return kind, lambda m: of_value(value_of(m)) if m.HasField(name) else None

    def _value(self, field: Any) -> tuple[Any, Extract | None]:
        """Return the type of a field's values, and the function that converts them for Arrow, if necessary."""
        if field.type == ENUM:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return pa.string(), lambda number: names.get(number) or str(number)
        if field.message_type is None:
            return SCALARS[field.type], None
        message = field.message_type
        name = message.full_name
        if name == TIMESTAMP:
            return MICROS, lambda value: value.seconds * 1_000_000 + value.nanos // 1000
        if name == DATE:
            return DATE_PARTS, _date
        if name in WRAPPERS:
            return SCALARS[message.fields[0].type], attrgetter("value")
        if name in DYNAMIC or name in self._inside or not message.fields:
            return pa.string(), _json
        parts = self.for_message(message)
        return pa.struct([(part, kind) for part, kind, _ in parts]), lambda value: {
            part: extract(value) for part, _, extract in parts
        }


def _is_repeated(field: Any) -> bool:
    # Protobuf 7 has no labels, 5 has only labels.
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _unchanged(value: Any) -> Any:
    return value


def _date(value: Any) -> Any:
    """Return the date and its parts. Raises ValueError if the date does not exist, or has a day but no month."""
    year, month, day = value.year, value.month, value.day
    # A year with 366 days stands for one that is missing, and January, with 31 days, for a month that is.
    full = date(year or LEAP_YEAR, month or 1, day or 1)
    if day and not month:
        raise ValueError(f"google.type.Date: day {day} without a month")
    return {"date": full if year and month and day else None, "year": year, "month": month, "day": day}


def _json(message: Any) -> str:
    from google.protobuf.json_format import MessageToJson

    text: str = MessageToJson(message, indent=None, preserving_proto_field_name=True)
    return text
