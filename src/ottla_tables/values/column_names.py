"""Names of the columns of fields, beside those of the record.

A field with the name of a column of the record gets the prefix `value_`, in any case, because DuckDB and Spark do not
distinguish it. So does a field that has the name with the prefix already: each column has one field, whichever fields
come first.
"""

from __future__ import annotations

import re
from typing import Final

from ottla_tables.columns import RECORD

PREFIX: Final = "value_"
_RESERVED: Final = re.compile(f"({PREFIX})*({'|'.join(RECORD.names)})", re.IGNORECASE)


def column_of(field: str) -> str:
    """Return the name of a field's column."""
    return PREFIX + field if _RESERVED.fullmatch(field) else field


def field_of(column: str) -> str:
    """Return the name of the field in a column."""
    return column[len(PREFIX) :] if column.startswith(PREFIX) and _RESERVED.fullmatch(column) else column
