"""Rows of PostgreSQL as JSON: keys, values, and the columns of the table in `ottla.table.schema`.

Keys and values have the form that Debezium's ExtractNewRecordState gives them: an object of the primary key's columns,
and an object of all columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ottla_pipelines.capture.pgoutput import Column

BOOL: Final = 16
NUMERIC: Final = 1700
INTEGERS: Final = frozenset((20, 21, 23))
FLOATS: Final = frozenset((700, 701))
NOT_JSON: Final = ("NaN", "Infinity", "-Infinity")
"""The floating-point values that are strings, because JSON does not have them."""
STRINGS: Final = frozenset((25, 1043))
"""The OIDs of text and varchar. char is not one of them, because its values are padded."""
MAX_DIGITS: Final = 38
"""Maximum number of digits of a decimal column in the tables."""
TYPES: Final[Mapping[int, str]] = {
    BOOL: "boolean",
    20: "bigint",
    21: "int",  # smallint
    23: "int",
    700: "float",  # real
    701: "double",
    1082: "date",
    1114: "timestamp",  # without a time zone: as if it were UTC
    1184: "timestamp",
}
"""The types of columns by the OID of PostgreSQL's type. All others are strings, except numeric with a precision and a
scale that the tables support.
"""
# Not json.dumps, which makes an encoder for each value.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_COLUMN_NAME: Final = re.compile(r"[^\s,()]+")
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(\+00)?")


def table_schema(columns: Sequence[Column]) -> str:
    """Return the config `ottla.table.schema` for rows with these columns, except the unsupported ones."""
    unnamed = unsupported(columns)
    return "json:" + ",".join(f"{column.name} {_type(column)}" for column in columns if column.name not in unnamed)


def unsupported(columns: Sequence[Column]) -> dict[str, str]:
    """Return the names of the columns that the topic's table cannot have, each with the reason."""
    problems: dict[str, str] = {}
    by_lower: dict[str, str] = {}
    for column in columns:
        other = by_lower.setdefault(column.name.lower(), column.name)
        if not _COLUMN_NAME.fullmatch(column.name):
            problems[column.name] = "has a blank, comma or bracket"
        elif other != column.name:
            problems[column.name] = f"differs from {other!r} in case only"
    return problems


def _type(column: Column) -> str:
    if column.type_oid == NUMERIC and column.modifier >= 4:
        precision, scale = (column.modifier - 4) >> 16, (column.modifier - 4) & 0x7FF
        if precision <= MAX_DIGITS and scale <= precision:  # a negative scale is above 1000 here
            return f"decimal({precision},{scale})"
    return TYPES.get(column.type_oid, "string")


def as_json(columns: Sequence[Column], texts: Sequence[str | None]) -> bytes:
    """Return values, in PostgreSQL's text format, as a JSON object."""
    pairs = zip(columns, texts, strict=True)
    fields = {column.name: None if text is None else _value(column.type_oid, text) for column, text in pairs}
    return _ENCODER.encode(fields).encode()


def has_fields(key: bytes, columns: Sequence[Column]) -> bool:
    """Return whether a record's key is a JSON object with exactly these columns in this order, and strings exactly for
    the columns that require them. NaN and infinity count as numbers in columns of floats.
    """
    try:
        fields = json.loads(key)
    except ValueError:  # a record of another producer
        return False
    if not isinstance(fields, dict) or list(fields) != [column.name for column in columns]:
        return False
    return all(_is_text(fields[c.name], c.type_oid) is (c.type_oid not in _NOT_TEXTS) for c in columns)


def _is_text(value: Any, type_oid: int) -> bool:
    return isinstance(value, str) and not (type_oid in FLOATS and value in NOT_JSON)


def have_same_form(one: Column, other: Column) -> bool:
    """Return whether two columns are equal, both integers, or both text or varchar: equal values are the same JSON."""
    return one == other or any({one.type_oid, other.type_oid} <= types for types in (INTEGERS, STRINGS))


def _value(type_oid: int, text: str) -> Any:
    convert = _CONVERSIONS.get(type_oid)
    return text if convert is None else convert(text)


def _float(text: str) -> float | str:
    return text if text in NOT_JSON else float(text)


def _timestamp(text: str) -> str:
    """Return a time in ISO 8601. Infinity, and years before 1 or after 9999, are returned unchanged."""
    match = _TIME.fullmatch(text)
    return text if match is None else f"{match[1]}T{match[2]}{'Z' if match[3] else ''}"


_CONVERSIONS: Final[Mapping[int, Callable[[str], Any]]] = {
    BOOL: lambda text: text == "t",
    **dict.fromkeys(INTEGERS, int),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys((1114, 1184), _timestamp),
}
_NOT_TEXTS: Final = frozenset((BOOL, *FLOATS, *INTEGERS))
"""The OIDs of the types whose values, except NOT_JSON, are not strings in JSON."""
