"""The interface to schemas of values: the columns of a subject's latest version, and decoders of values of all its
versions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import pyarrow as pa

from ottla.serdes import Schema

VALUE: Final = "value"
"""The column of values that are not records, such as strings."""
MAX_FIELDS: Final = 2000
"""Maximum number of fields of a schema, including nested ones. The fields of a type that is used several times count
each time.
"""

Decode = Callable[[Any], list[Any]]
"""Decodes an Arrow array of values to an Arrow array per field. Each value begins with the header that has its schema
id.

Raises an error of any class if one of the values is malformed.
"""


class ValueSchema(Protocol):
    """The columns that a version of a subject defines, and decoders of values to these columns."""

    @property
    def fields(self) -> Any:
        """The fields as an Arrow schema."""
        ...

    def decoder(self, writer: Schema) -> Decode:
        """Return a decoder of values that were written with the schema `writer`. Raises ValueError if such values can
        never have these fields.
        """
        ...


class UnsupportedSchemaError(ValueError):
    """A schema cannot have columns, for example because it contains itself or has too many fields."""


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
    """Return an Arrow array per field, with the values of the dictionaries `objects`."""
    columns: list[Any] = pa.array(objects, pa.struct(list(fields))).flatten()
    return columns
