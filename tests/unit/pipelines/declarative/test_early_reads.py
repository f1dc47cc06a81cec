"""Tables that a query plan of Spark Connect reads while it is analyzed."""

from typing import Any

import pytest

from ottla_pipelines.declarative.eager_plan_checks import early_reads, tables_read

pytest.importorskip("grpc")
proto: Any = pytest.importorskip("pyspark.sql.connect.proto")


def table(name: str) -> Any:
    relation = proto.Relation()
    relation.read.named_table.unparsed_identifier = name
    return relation


def over(kind: str, *below: Any) -> Any:
    """Return a relation of this kind over one or two others."""
    relation = proto.Relation()
    for name, value in zip(("input",) if len(below) == 1 else ("left", "right"), below, strict=True):
        getattr(getattr(relation, kind), name).CopyFrom(value)
    return relation


def test_table_below_with_columns_is_read_early() -> None:
    plan = over("project", over("join", over("with_columns", over("filter", table("a"))), table("b")))
    assert sorted(tables_read(plan)) == ["a", "b"]
    assert list(early_reads(plan)) == [("with_columns", "a")]


def test_selected_and_joined_tables_are_not_read_early() -> None:
    assert list(early_reads(over("project", over("join", over("hint", table("a")), table("b"))))) == []
