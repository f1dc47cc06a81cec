"""Checks ottla.table.partition.by, and splits batches by the values of the partition columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import ConfigurationError
from ottla.table_fields import floating_partition
from ottla_tables.formats.table import PartitionField


def _days(values: Any) -> Any:
    return values.cast(pa.date32()).cast(pa.int32())


def _years(values: Any) -> Any:
    return pc.cast(pc.subtract(pc.year(values), 1970), pa.int32())


def _months(values: Any) -> Any:
    return pc.cast(pc.add(pc.multiply(_years(values), 12), pc.subtract(pc.month(values), 1)), pa.int32())


def _hours(values: Any) -> Any:
    hour = pc.floor_temporal(values, unit="hour").cast(pa.timestamp("s", tz="UTC")).cast(pa.int64())
    return pc.cast(pc.divide(hour, 3600), pa.int32())


TRANSFORMS: Final[dict[str, Callable[[Any], Any]]] = {
    "identity": lambda values: values,
    "year": _years,
    "month": _months,
    "day": _days,
    "hour": _hours,
}
"""The transforms of Iceberg that the writer supports. Years, months, days and hours count from 1970."""


PARTITION: Final = re.compile(r"(?P<transform>[^()]+)\((?P<source>[^()]+)\)")
"""A column of ottla.table.partition.by with a transform, such as `day(timestamp)`."""


def source_column(text: str) -> str:
    """Return the column that a part of ottla.table.partition.by is computed from."""
    match = PARTITION.fullmatch(text)
    return match["source"] if match else text


def check_partition_by(schema: Any, partition_by: Sequence[str]) -> None:
    """Raise ConfigurationError for columns that cannot partition a table of any format: those with floating-point
    numbers, and nested ones. Columns that `schema` lacks are not checked.
    """
    for text in partition_by:
        source = source_column(text)
        kind = schema.field(source).type if source in schema.names else pa.null()
        if pa.types.is_floating(kind):
            raise ConfigurationError(floating_partition(source, str(kind)))
        if pa.types.is_nested(kind):
            raise ConfigurationError(f"ottla.table.partition.by: {source} is a {kind}; use a column with one value")


def check_columns(schema: Any, partition_by: Sequence[str]) -> None:
    """Raise ConfigurationError for columns that a new table does not have."""
    for source in map(source_column, partition_by):
        if source not in schema.names:
            raise ConfigurationError(
                f"ottla.table.partition.by: {source} is not a column of the new table ({', '.join(schema.names)}); "
                f"declare a field of JSON values in ottla.table.schema, such as json:{source} string"
            )


def identity_fields(schema: Any, partition_by: Sequence[str]) -> tuple[PartitionField, ...]:
    """Return the partition columns of formats without transforms. Raises ConfigurationError for anything that is not a
    column of the table, such as a transform.
    """
    check_columns(schema, partition_by)
    for column in partition_by:
        if column not in schema.names:
            raise ConfigurationError(f"ottla.table.partition.by: {column}: only Iceberg tables have transforms")
    return tuple(PartitionField(column, column, TRANSFORMS["identity"]) for column in partition_by)


def split(batch: Any, fields: Sequence[PartitionField]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Split a batch by its partition values. Yield each combination of values, with the rows that have it, in their
    original order.
    """
    if not fields:
        yield (), batch
        return
    columns = [field.transform(batch.column(field.source)) for field in fields]
    names = [str(i) for i in range(len(columns))]
    keys = pa.table(columns, names=names)
    groups = keys.group_by(names).aggregate([]).to_pylist()
    if len(groups) == 1:
        yield tuple(groups[0].values()), batch
        return
    for group in groups:
        mask: Any = None
        for name, value in group.items():
            column = keys.column(name)
            equal = pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value, column.type))
            equal = pc.fill_null(equal, False)
            mask = equal if mask is None else pc.and_(mask, equal)
        yield tuple(group.values()), batch.filter(mask.combine_chunks())
