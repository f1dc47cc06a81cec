"""Avro's schema resolution for batches: makes the fields of the latest schema from the decoded fields of the writer's
schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla_tables.values.avro_batches import COMPLEX, PRIMITIVES, UnsupportedTypeError, arrow_array

PROMOTIONS: Final = (["int", "long"], ["int", "double"], ["float", "double"])
"""The promotions of Avro's numbers that are exact."""
Resolve = Callable[[Mapping[str, Any], int], Any]


class Resolution:
    """Makes the fields of the latest schema of a record from those of the writer's schema.

    Neither schema has references to named types: `expanded` replaces them. `kinds` are the Arrow types of the latest
    fields. Raises UnsupportedTypeError if a field has aliases, the names of the records differ, or the resolution needs
    more than leaving out fields, adding fields with simple defaults, exact promotions, and allowing null.
    """

    def __init__(self, writer: Any, latest: Any, kinds: Mapping[str, Any]) -> None:
        if not isinstance(latest, dict):
            raise UnsupportedTypeError("the latest schema is a union")
        if writer["name"] != latest["name"]:
            raise UnsupportedTypeError("the records have different names")
        fields = {field["name"]: field for field in writer["fields"]}
        self._resolves = [
            _resolve(fields.get(field["name"]), field, kinds[field["name"]])
            for field in latest["fields"]
            if field["name"] in kinds
        ]

    def arrays(self, fields: Mapping[str, Any], rows: int) -> list[Any]:
        """Return an array per column of the latest schema. `fields` are the decoded arrays by the names of the writer's
        fields.
        """
        return [resolve(fields, rows) for resolve in self._resolves]


def _resolve(writer: Any, latest: Any, kind: Any) -> Resolve:
    name = latest["name"]
    if "aliases" in latest:
        raise UnsupportedTypeError(f"{name} has aliases")
    if writer is None:
        default = latest.get("default", ...)
        is_scalar = default is None or isinstance(default, (bool, int, float, str))
        if not is_scalar or not (pa.types.is_primitive(kind) or pa.types.is_string(kind)):
            raise UnsupportedTypeError(f"the default of {name} is left to fastavro")
        try:
            value = pa.array([default], kind)
        except (ValueError, TypeError, OverflowError) as error:  # fastavro does not check all defaults
            raise UnsupportedTypeError(f"the default of {name}: {error}") from error
        return lambda fields, rows: value.take(arrow_array(np.zeros(rows, np.int64), pa.int64()))
    (is_nullable, base), (may_be_null, latest_base) = _base(writer["type"]), _base(latest["type"])
    if is_nullable and not may_be_null:
        raise UnsupportedTypeError(f"{name} may not be null any more")
    if base == latest_base:
        return lambda fields, rows: fields[name]
    if not any([base, latest_base] == promotion for promotion in PROMOTIONS):
        raise UnsupportedTypeError(f"{name} has another type")
    return lambda fields, rows: fields[name].cast(kind)


def _base(schema: Any) -> tuple[bool, Any]:
    """For a union with one type besides null, return whether it has null, and this type. For any other schema, return
    False and the schema.
    """
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        if len(others) == 1:
            return len(schema) > 1, others[0]
    return False, schema


def expanded(schema: Any, named: Mapping[str, Any]) -> Any:
    """Return a schema with definitions in place of the names of types. It must not contain itself."""
    if isinstance(schema, str):
        return schema if schema in PRIMITIVES else expanded(named[schema], named)
    if isinstance(schema, list):
        return [expanded(branch, named) for branch in schema]
    changed = dict(schema)
    for part in ("type", "items", "values"):
        if part in changed and changed[part] not in COMPLEX:
            changed[part] = expanded(changed[part], named)
    if "fields" in changed:
        changed["fields"] = [{**field, "type": expanded(field["type"], named)} for field in changed["fields"]]
    # {"type": "long"} is "long"
    return changed["type"] if changed.keys() == {"type"} else changed
