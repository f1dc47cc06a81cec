"""The fields of JSON values that `ottla.table.schema=json:NAME TYPE,…` declares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

TYPES: Final = (
    "boolean",
    "bigint",
    "long",
    "int",
    "integer",
    "double",
    "float",
    "string",
    "text",
    "varchar",
    "timestamp",
    "date",
)
FLOATING: Final = ("double", "float")
DECIMAL: Final = "decimal"
MAX_DIGITS: Final = 38
_FIELD: Final = re.compile(r"\s*(\S+)\s+(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)\s*)?")
_COMMAS: Final = re.compile(r",(?![^()]*\))")
"""Commas outside of parentheses."""


class DeclaredField(NamedTuple):
    """A field, and its type in lower case. A decimal also has its precision (`digits`) and its scale."""

    name: str
    type: str
    digits: int = 0
    scale: int = 0


def declared_fields(text: str) -> list[DeclaredField]:
    """Parse fields such as `id bigint, price decimal(10, 2)`. Raises ValueError for another form, an unknown type, an
    invalid precision or scale, or names that are equal or differ in case only.
    """
    fields: dict[str, DeclaredField] = {}
    for part in _COMMAS.split(text):
        field = _field(part)
        if field is None:
            types = ", ".join([*TYPES, "decimal(DIGITS,SCALE)"])
            raise ValueError(f"{part.strip()!r} is not NAME TYPE, with one of {types}")
        other = fields.setdefault(field.name.lower(), field)
        if other is not field:
            raise ValueError(f"the field {field.name} is declared twice; names are compared without case")
    return list(fields.values())


def _field(part: str) -> DeclaredField | None:
    match = _FIELD.fullmatch(part)
    if match is None:
        return None
    name, kind = match[1], match[2].lower()
    if match[3] is None:
        return DeclaredField(name, kind) if kind in TYPES else None
    digits, scale = int(match[3]), int(match[4] or 0)
    if kind != DECIMAL or not 1 <= digits <= MAX_DIGITS or scale > digits:
        return None
    return DeclaredField(name, kind, digits, scale)


def check_partition_by(schema: str, partition_by: Sequence[str]) -> None:
    """Raise ValueError if `ottla.table.partition.by` names a field that `ottla.table.schema` declares as float or
    double, or if these declarations are invalid.
    """
    kind, _, declared = schema.partition(":")
    types = {f.name: f.type for f in declared_fields(declared)} if kind.strip() == "json" and declared.strip() else {}
    for column in partition_by:
        if types.get(column) in FLOATING:
            raise ValueError(floating_partition(column, types[column]))


def floating_partition(column: str, kind: str) -> str:
    """Return the error message for a partition column with floating-point values.

    Such values are not exact in partitions: pyiceberg reads them with only 32 bits, and 0 and -0, or two NaN, may get
    the same directory or different ones.
    """
    return (
        f"ottla.table.partition.by: {column} is a {kind}, whose values are not exact in partitions; partition by a"
        " column of another type, such as decimal, int, string or date"
    )
