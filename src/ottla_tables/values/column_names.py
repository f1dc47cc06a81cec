"""Names of the columns that fields get, in addition to the columns of the record.

A field with the name of a column of the record gets the prefix `value_`. Upper and lower case make no difference,
because DuckDB and Spark do not distinguish them. A field whose name is already such a name with the prefix gets the
prefix once more. Thus no two fields have the same column, in whichever order they appear.
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
