"""Conversion of the defaults of Avro's fields. fastavro uses them as they are in the JSON of a schema.

In that JSON, bytes are text with the characters U+0000 to U+00FF, and a `float` may be any number, which Avro rounds.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from ottla_tables.values.avro_batches import PRIMITIVES


def convert_defaults(schema: Any, named: Mapping[str, Any]) -> None:
    """Replace the defaults in a parsed schema, in place, with the values that they mean."""
    if isinstance(schema, list):
        for branch in schema:
            convert_defaults(branch, named)
    elif isinstance(schema, dict):
        for part in ("type", "items", "values"):
            convert_defaults(schema.get(part), named)
        for field in schema.get("fields", ()):
            convert_defaults(field["type"], named)
            if "default" in field:
                field["default"] = _value(field["default"], field["type"], named)


def _value(default: Any, schema: Any, named: Mapping[str, Any]) -> Any:
    """Return the value that a default in JSON stands for. A default that does not fit its type is returned unchanged,
    so that fastavro reports it.
    """
    if isinstance(schema, list):
        return next((_value(default, branch, named) for branch in schema if _fits(default, branch, named)), default)
    if isinstance(schema, str) and schema not in PRIMITIVES:
        return _value(default, named[schema], named)
    kind = schema if isinstance(schema, str) else schema["type"]
    if not _fits(default, kind, named):
        return default
    if kind in ("bytes", "fixed"):
        return default.encode("latin-1")
    if kind == "float":
        return _rounded(default)
    if kind == "double":
        return float(default)
    if kind == "array":
        return [_value(item, schema["items"], named) for item in default]
    if kind == "map":
        return {key: _value(item, schema["values"], named) for key, item in default.items()}
    if kind in ("record", "error"):
        types = {field["name"]: field["type"] for field in schema["fields"]}
        return {name: _value(item, types[name], named) if name in types else item for name, item in default.items()}
    return default


def _fits(default: Any, schema: Any, named: Mapping[str, Any]) -> bool:
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in ("bytes", "fixed"):
        return isinstance(default, str) and all(character <= "\xff" for character in default)
    if kind in ("float", "double"):
        return isinstance(default, (int, float)) and not isinstance(default, bool)
    if kind in _JSON_TYPES:
        return isinstance(default, _JSON_TYPES[kind]) and (kind == "boolean" or not isinstance(default, bool))
    return kind in named and _fits(default, named[kind], named)


def _rounded(number: float) -> float:
    """Round a number to the nearest 32-bit float."""
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:  # it is infinite in Java
        return float("inf") if number > 0 else float("-inf")
    return float(rounded)


_JSON_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "null": type(None),
    "boolean": bool,
    "int": int,
    "long": int,
    "string": str,
    "enum": str,
    "array": list,
    "map": dict,
    "record": dict,
    "error": dict,
}
