"""The archive of packages that is shipped to a Spark cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla.records import COMPILED
from ottla.spark.environment.archive import write_archive

LARGE = ["pyarrow", "pandas", "numpy", "sqlalchemy", "psycopg", "psycopg-binary", "pymysql"]


def test_unpacked_archive_runs_in_a_python_without_packages(tmp_path: Path) -> None:
    packed = tmp_path / "ottla.zip"
    names = write_archive(packed, without=LARGE)
    assert {"ottla", "cramjam", "crc32c", "google-re2"} <= set(names)
    assert not set(LARGE) & set(names)
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "unpacked")
    program = "import ottla.client.consumer.fetch.ranges, ottla.records; print(ottla.__file__, ottla.records.COMPILED)"
    actual = subprocess.run(
        [sys._base_executable, "-S", "-c", program],  # type: ignore[attr-defined]
        env={"PYTHONPATH": str(tmp_path / "unpacked"), "OTTLA_PURE": os.environ.get("OTTLA_PURE", "")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert actual.stdout.split() == [str(tmp_path / "unpacked" / "ottla" / "__init__.py"), str(COMPILED)]


def test_archive_has_the_data_sources_and_no_build_files(tmp_path: Path) -> None:
    write_archive(tmp_path / "ottla.zip", without=LARGE)
    inside = zipfile.ZipFile(tmp_path / "ottla.zip").namelist()
    sources = {
        "pyspark_ottla.py",
        "pyspark_ottla_sql.py",
        "ottla/spark/sink/sql_sink.py",
        "ottla_tables/spark/source.py",
    }
    assert sources <= set(inside)
    assert not [name for name in inside if name.endswith((".pyc", ".c", ".pxd")) or "/tests/" in name]
    assert len(inside) == len(set(inside))


def test_archive_has_database_drivers_with_their_binaries(tmp_path: Path) -> None:
    """psycopg without psycopg-binary requires libpq, which executors may not have."""
    if find_spec("psycopg_binary") is None:
        pytest.skip("no psycopg_binary")
    without = [name for name in LARGE if not name.startswith("psycopg")]
    assert {"psycopg", "psycopg-binary"} <= set(write_archive(tmp_path / "ottla.zip", without=without))


def test_misspelt_package_is_rejected_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="^pyarow would not be packed.*; did you mean pyarrow?"):
        write_archive(tmp_path / "ottla.zip", without=["pandas", "pyarow"])
    assert not list(tmp_path.iterdir())


def test_missing_package_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no-such-package is not installed"):
        write_archive(tmp_path / "ottla.zip", more=["no-such-package"])
    assert not list(tmp_path.iterdir())
