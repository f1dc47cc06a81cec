from collections import Counter

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc")
pytest.importorskip("yaml")

from ottla.pipelines.declarative.graph import crowded_tables, last_part


def test_two_flows_into_a_table_of_files_are_too_many() -> None:
    flows = Counter({"both": 2, "one": 1, "sink": 3})
    assert crowded_tables({"both", "one"}, flows) == ["both"]


@pytest.mark.parametrize("name", ["t", "default.t", "spark_catalog.default.T", "`default`.`t`"])
def test_a_table_is_the_same_under_all_its_names(name: str) -> None:
    assert last_part(name) == "t"
