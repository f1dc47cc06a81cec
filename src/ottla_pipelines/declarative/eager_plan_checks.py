"""Detection of tables that a flow reads with an operation that Spark 4.3 analyses too early.

For some operations Spark Connect's server analyses the input when the flow is defined. A table of the same pipeline
that exists from an earlier run is then treated as an external table: the flow does not wait for the flow that updates
it, and reads the rows of the last run. The first run is correct, so the error is easily overlooked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

EARLY: Final = {
    "with_columns": 'withColumn(): use select("*", column.alias("name"))',
    "with_columns_renamed": "withColumnRenamed(): use select with aliases",
    "to_schema": "to(): use select with casts",
    "with_watermark": "withWatermark(): read the topic instead, or set the watermark in the query of the table",
}
"""Operations by their names in Spark Connect's protocol, with alternatives. The error was observed with `with_columns`;
the others are implemented in the same way.
"""


def early_reads(relation: Any) -> Iterator[tuple[str, str]]:
    """Yield the outermost operations of EARLY in a plan, once for each table that they read, with the name of the
    table.

    A plan is a Relation of Spark Connect's protocol.
    """
    kind = relation.WhichOneof("rel_type")
    if kind in EARLY:
        for name in tables_read(relation):
            yield kind, name
        return
    for below in inputs(relation):
        yield from early_reads(below)


def tables_read(relation: Any) -> Iterator[str]:
    """Yield the names of the tables that a plan reads."""
    if relation.WhichOneof("rel_type") == "read" and relation.read.HasField("named_table"):
        yield relation.read.named_table.unparsed_identifier
    for below in inputs(relation):
        yield from tables_read(below)


def inputs(relation: Any) -> Iterator[Any]:
    """Yield the plans that are inputs of a plan."""
    kind = relation.WhichOneof("rel_type")
    node = getattr(relation, kind) if kind else None
    if node is None or not hasattr(node, "ListFields"):
        return
    for field, value in node.ListFields():
        if field.message_type is not None and field.message_type.full_name == relation.DESCRIPTOR.full_name:
            repeated = not hasattr(value, "WhichOneof")
            yield from value if repeated else (value,)
