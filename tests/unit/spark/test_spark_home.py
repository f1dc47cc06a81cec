"""SPARK_HOME: links to the installed PySpark, and checks of its version."""

from importlib.metadata import version
from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla.spark.environment.spark_home import local_home, use_installed_pyspark


@pytest.fixture
def pyspark(tmp_path: Path) -> Path:
    package = tmp_path / "site-packages" / "pyspark"
    for name in ("bin/spark-submit", "jars/a.jar", "python/lib/pyspark.zip", "python/lib/py4j-1-src.zip"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(name)
    return package


def test_local_home_links_pyspark_and_replaces_its_zip(pyspark: Path, tmp_path: Path) -> None:
    home = local_home(pyspark, tmp_path / "cache")
    assert (home / "bin" / "spark-submit").read_text() == "bin/spark-submit"
    assert (home / "jars" / "a.jar").is_file()
    assert (home / "python/lib/pyspark.zip").resolve() == pyspark.parent
    assert (home / "python/lib/py4j-1-src.zip").is_file()


def test_local_home_is_created_once(pyspark: Path, tmp_path: Path) -> None:
    assert local_home(pyspark, tmp_path / "cache") == local_home(pyspark, tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 1


def spark_home(folder: Path, version: str) -> Path:
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / f"spark-core_2.13-{version}.jar").touch()
    return folder


def test_spark_home_of_the_same_version_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    home = str(spark_home(tmp_path / "spark", version("pyspark")))
    environ = {"SPARK_HOME": home, "OTTLA_CACHE": str(tmp_path)}
    use_installed_pyspark(environ)
    assert environ["SPARK_HOME"] == home


def test_spark_home_of_another_version_is_rejected(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    home = spark_home(tmp_path / "spark", "3.5.1")
    with pytest.raises(ConfigurationError, match=r"SPARK_HOME .* is Spark 3\.5\.1, .*pyspark==3\.5\.1"):
        use_installed_pyspark({"SPARK_HOME": str(home)})
    with pytest.raises(ConfigurationError, match=r"SPARK_HOME \(/absent\) has no Spark"):
        use_installed_pyspark({"SPARK_HOME": "/absent"})


def test_spark_home_stays_unset_if_links_cannot_be_created(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "file").write_text("")
    environ = {"OTTLA_CACHE": str(tmp_path / "file" / "cache")}
    use_installed_pyspark(environ)
    assert "SPARK_HOME" not in environ
