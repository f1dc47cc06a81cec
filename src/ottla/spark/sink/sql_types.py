"""The database types for Spark's types, and a text type that compares keys exactly."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles

from ottla.errors import ConfigurationError

KEY_LENGTH: Final = 255
"""Length in characters of text columns among keyColumns. MySQL cannot index text without a length."""
NO_PAD_SINCE: Final = (8, 0, 17)
"""The first version of MySQL with the collation utf8mb4_0900_bin."""


class ExactText(mysql.VARCHAR):
    """A text type that MySQL and MariaDB compare byte by byte.

    With the default collation, /a and /A would be the same key, so that one row would overwrite the other. With
    utf8mb4_bin, keys that differ only in spaces at the end would be the same. The collation that distinguishes all of
    these has different names in MySQL and MariaDB. MySQL before 8.0.17 does not have it, so utf8mb4_bin is used there.
    """


@compiles(ExactText, "mysql")
@compiles(ExactText, "mariadb")
def _exact(kind: ExactText, compiler: Any, **_: Any) -> str:
    version = compiler.dialect.server_version_info
    collation = "utf8mb4_nopad_bin" if compiler.dialect.is_mariadb else "utf8mb4_0900_bin"
    if not compiler.dialect.is_mariadb and version is not None and version < NO_PAD_SINCE:
        collation = "utf8mb4_bin"
    return f"VARCHAR({kind.length}) CHARACTER SET utf8mb4 COLLATE {collation}"


def exact_text(length: int) -> Any:
    """Return the type of a text column that is part of a key."""
    return sa.String(length).with_variant(ExactText(length), "mysql", "mariadb")


def column_types(schema: StructType, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the SQL type of each column. Raises ConfigurationError for a type that has none, and for a key that is not
    a column.
    """
    missing = [key for key in keys if key not in schema.fieldNames()]
    if missing:
        columns = ", ".join(schema.fieldNames())
        raise ConfigurationError(f"keyColumns: no such column: {', '.join(missing)} (columns: {columns})")
    return {field.name: _sql_type(field.name, field.dataType, field.name in keys) for field in schema.fields}


def _sql_type(name: str, kind: DataType, is_key: bool) -> Any:
    if isinstance(kind, StringType):
        return exact_text(KEY_LENGTH) if is_key else sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
    if isinstance(kind, DecimalType):
        return sa.Numeric(kind.precision, kind.scale)
    for spark, sql in TYPES.items():
        if isinstance(kind, spark):
            return sql
    raise ConfigurationError(f"the column {name} is of type {kind.simpleString()}, which has no SQL type: cast it")


TYPES: Final[dict[type[DataType], Any]] = {
    BooleanType: sa.Boolean(),
    ShortType: sa.SmallInteger(),
    IntegerType: sa.Integer(),
    LongType: sa.BigInteger(),
    FloatType: sa.Float(24),
    DoubleType: sa.Float(53),
    BinaryType: sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb"),
    DateType: sa.Date(),
    TimestampType: sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb"),
    TimestampNTZType: sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb"),
}
"""The SQL types of the supported Spark types, except strings and decimals."""
