"""Spark discovers the formats by their top-level modules pyspark_*, each with a DefaultSource."""

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest

from ottla.spark.sink.sql_sink import SqlSource

FORMATS = [("pyspark_ottla", "ottla"), ("pyspark_ottla_sql", "ottla.sql")]


@pytest.mark.parametrize(("module", "name"), FORMATS)
def test_formats_are_discovered_without_registration(module: str, name: str) -> None:
    assert module in [batch.name for batch in iter_modules()]
    assert import_module(module).DefaultSource.name() == name


def test_default_source_is_an_instance_of_the_data_source() -> None:
    source = import_module("pyspark_ottla_sql").DefaultSource({"url": "sqlite:///x.db"})
    assert type(source) is SqlSource


@pytest.mark.parametrize(("module", "missing"), [("pyspark_ottla", "pyarrow"), ("pyspark_ottla_sql", "sqlalchemy")])
def test_missing_extra_is_named_on_use_and_not_on_discovery(module: str, missing: str) -> None:
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


def test_data_source_class_can_be_registered_explicitly() -> None:
    program = """if True:
        import sys
        import ottla.spark
        assert "pyspark" not in sys.modules
        assert ottla.spark.OttlaDataSource.name() == "ottla"
        assert not hasattr(ottla.spark, "Source")
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
