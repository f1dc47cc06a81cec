"""Chooses the conversion of a topic's records by ottla.table.schema."""

from __future__ import annotations

from typing import Any

from ottla.errors import ConfigurationError
from ottla_tables.columns import RECORD
from ottla_tables.values.rows import BytesConverter, RowConverter, TextConverter


def initial_schema(schema: str) -> Any:
    """Return the columns of a new table."""
    return converter(schema, None).schema


def converter(schema: str, table: Any | None) -> RowConverter:
    """Return the converter. `table`: the current schema of the table; None if there is none yet. Raises
    ConfigurationError.
    """
    kind, _, fields = schema.partition(":")
    if kind.strip() == "bytes":
        return BytesConverter()
    if kind.strip() == "text":
        return TextConverter()
    if kind.strip() == "json":
        from ottla_tables.values.json_fields import JsonConverter, declared_fields

        return JsonConverter(declared_fields(fields) if fields.strip() else None, table or RECORD)
    raise ConfigurationError(f"ottla.table.schema={schema} is not supported")
