from collections import Counter

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc")
pytest.importorskip("yaml")

from pyspark.pipelines.output import Sink
from pyspark.pipelines.source_code_location import SourceCodeLocation

from ottla.errors import ConfigurationError
from ottla_pipelines.declarative.graph import check_sink, last_part, tables_with_several_flows


def test_two_flows_into_a_table_of_files_are_too_many() -> None:
    flows = Counter({"both": 2, "one": 1, "sink": 3})
    assert tables_with_several_flows({"both", "one"}, flows) == ["both"]


@pytest.mark.parametrize(
    ("form", "options", "said"),
    [
        ("ottla", {"topic": "t"}, "kafka.bootstrap.servers"),
        ("ottla.sql", {"url": "oracle://h/d", "dbtable": "t"}, "url: oracle is not supported"),
    ],
)
def test_invalid_sink_is_reported_at_its_definition(form: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        check_sink(sink(form, options))


def test_other_sinks_are_left_to_spark() -> None:
    check_sink(sink("ottla", {"kafka.bootstrap.servers": "h:1", "topic": "t"}))
    check_sink(sink("kafka", {}))


def sink(form: str, options: dict[str, str]) -> Sink:
    return Sink(
        name="s", comment=None, source_code_location=SourceCodeLocation("s.py", 1), format=form, options=options
    )


@pytest.mark.parametrize("name", ["t", "default.t", "spark_catalog.default.T", "`default`.`t`"])
def test_a_table_is_the_same_under_all_its_names(name: str) -> None:
    assert last_part(name) == "t"
