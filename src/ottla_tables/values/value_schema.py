"""The interface of schemas of values: the columns of a subject's latest version, and decoders of all its versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import pyarrow as pa

from ottla.serdes import Schema

VALUE: Final = "value"
"""The column of values that are no records, such as a string."""
MAX_FIELDS: Final = 2000
"""Maximum number of fields of a schema, with those inside others, which may be there many times."""

Decode = Callable[[Any], list[Any]]
"""Decodes an Arrow array of values, with the bytes before them, to an array per field.

Raises an error of any class if one of them is malformed.
"""


class ValueSchema(Protocol):
    """A version of a subject, as the schema of columns."""

    @property
    def fields(self) -> Any:
        """The fields as an Arrow schema."""
        ...

    def decoder(self, writer: Schema) -> Decode:
        """Return a decoder of values with another schema. Raises ValueError if they can never have these fields."""
        ...


class UnsupportedSchemaError(ValueError):
    """A schema has no columns, such as one that contains itself."""


class FieldCount:
    """The number of fields of a schema so far."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, number: int) -> None:
        """Count fields. Raises UnsupportedSchemaError if there are too many."""
        self._count += number
        if self._count > MAX_FIELDS:
            raise UnsupportedSchemaError(f"the schema has more than {MAX_FIELDS} fields")


def arrays(objects: list[Any], fields: Any) -> list[Any]:
    """Return an array per field of dictionaries."""
    columns: list[Any] = pa.array(objects, pa.struct(list(fields))).flatten()
    return columns
