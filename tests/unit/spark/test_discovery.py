"""Spark looks for top-level modules named pyspark_*, and takes the DefaultSource of each."""

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest

from ottla.spark.sink.sql_sink import SqlSource

FORMATS = [("pyspark_ottla", "ottla"), ("pyspark_ottla_sql", "ottla.sql")]


@pytest.mark.parametrize(("module", "name"), FORMATS)
def test_spark_finds_the_formats_without_registration(module: str, name: str) -> None:
    assert module in [batch.name for batch in iter_modules()]
    assert import_module(module).DefaultSource.name() == name


def test_what_is_found_becomes_the_source_itself() -> None:
    source = import_module("pyspark_ottla_sql").DefaultSource({"url": "sqlite:///x.db"})
    assert type(source) is SqlSource


@pytest.mark.parametrize(("module", "missing"), [("pyspark_ottla", "pyarrow"), ("pyspark_ottla_sql", "sqlalchemy")])
def test_without_an_extra_the_look_up_works_and_the_use_names_it(module: str, missing: str) -> None:
    program = f"""
import sys
sys.modules[{missing!r}] = None
from {module} import DefaultSource
print(DefaultSource.name())
try:
    DefaultSource({{}})
except Exception as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.startswith("ottla")
    assert missing in out
    assert "pip install" in out
    assert "ottla[" in out


def test_the_class_is_there_for_those_who_register_it_themselves() -> None:
    program = """if True:
        import sys
        import ottla.spark
        assert "pyspark" not in sys.modules
        assert ottla.spark.OttlaDataSource.name() == "ottla"
        assert not hasattr(ottla.spark, "Source")
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
