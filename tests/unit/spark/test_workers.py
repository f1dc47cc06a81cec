import subprocess
import sys
from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla.spark.workers import check_workers


def python(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_our_own_python_is_not_even_started() -> None:
    check_workers(sys.executable)


def test_another_python_with_ottla_will_do(tmp_path: Path) -> None:
    check_workers(python(tmp_path / "python", f'exec {sys.executable} "$@"'))


@pytest.mark.parametrize(
    ("script", "reason"),
    [("exit 1", "cannot import ottla"), ("echo 3.9", r"is Python 3\.9, and this is 3\.")],
)
def test_a_python_that_could_not_run_the_workers_is_named_with_the_remedy(
    tmp_path: Path, script: str, reason: str
) -> None:
    other = python(tmp_path / "python", script)
    with pytest.raises(ConfigurationError, match=rf"{other}.*{reason}.*PYSPARK_PYTHON={sys.executable}"):
        check_workers(other)


def test_a_python_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="none.*is not there.*PYSPARK_PYTHON="):
        check_workers(str(tmp_path / "none"))


def run(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_what_a_worker_has_loaded_is_left_to_itself_once() -> None:
    run("""if True:
        import gc
        from ottla.spark.workers import keep_what_is_loaded
        keep_what_is_loaded()
        frozen = gc.get_freeze_count()
        later = [[]]
        keep_what_is_loaded()
        assert gc.get_freeze_count() == frozen > 1000, (frozen, gc.get_freeze_count())
    """)


def test_what_a_task_has_imported_is_left_to_itself_from_the_next_one_on() -> None:
    run("""if True:
        import gc
        from ottla.spark.workers import keep_what_is_loaded
        keep_what_is_loaded()
        frozen = gc.get_freeze_count()
        import sqlite3
        keep_what_is_loaded()
        assert gc.get_freeze_count() > frozen + 100, (frozen, gc.get_freeze_count())
    """)
