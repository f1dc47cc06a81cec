"""Checks of the tables and sinks in a pipeline's graph."""

from collections import Counter

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc")
pytest.importorskip("yaml")

from pyspark.pipelines.output import Sink
from pyspark.pipelines.source_code_location import SourceCodeLocation

from ottla.errors import ConfigurationError
from ottla_pipelines.declarative.graph import check_sink, last_part, tables_with_several_flows


def test_tables_with_several_flows_are_listed_without_sinks() -> None:
    flows = Counter({"both": 2, "one": 1, "sink": 3})
    assert tables_with_several_flows({"both", "one"}, flows) == ["both"]


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        ("ottla", {"topic": "t"}, "kafka.bootstrap.servers"),
        ("ottla.sql", {"url": "oracle://h/d", "dbtable": "t"}, "url: oracle is not supported"),
    ],
)
def test_invalid_sink_is_reported_at_its_definition(form: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_sink(sink(form, options))


def test_sinks_of_other_formats_are_not_checked() -> None:
    check_sink(sink("ottla", {"kafka.bootstrap.servers": "h:1", "topic": "t"}))
    check_sink(sink("kafka", {}))


def sink(form: str, options: dict[str, str]) -> Sink:
    return Sink(
        name="s", comment=None, source_code_location=SourceCodeLocation("s.py", 1), format=form, options=options
    )


@pytest.mark.parametrize("name", ["t", "default.t", "spark_catalog.default.T", "`default`.`t`"])
def test_last_part_is_the_table_name_without_catalog_and_quotes(name: str) -> None:
    assert last_part(name) == "t"
