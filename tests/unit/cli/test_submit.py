"""`ottla spark-submit`: the arguments and the environment of spark-submit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from ottla.cli.main import main
from ottla.cli.spark import submit


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake spark-submit that writes its arguments and its environment to files."""
    home, arguments_file = tmp_path / "pyspark", tmp_path / "seen"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "spark-submit"
    script.write_text(f'#!/bin/sh\nenv > {arguments_file}.env\nfor a do echo "$a"; done > {arguments_file}\nexit 3\n')
    script.chmod(0o755)
    monkeypatch.setattr("pyspark.__file__", str(home / "__init__.py"))
    monkeypatch.setattr("ottla.java.java_home", lambda _: Path("/a/java"))
    monkeypatch.setenv(submit.ARCHIVE, "hdfs:///made/before.zip")
    return arguments_file


def test_arguments_are_passed_to_spark_submit_with_the_archive(submitted: Path) -> None:
    assert main(["spark-submit", "--master", "spark://h:7077", "--help", "job.py", "-x"]) == 3
    arguments = submitted.read_text().splitlines()
    assert arguments[-5:] == ["--master", "spark://h:7077", "--help", "job.py", "-x"]
    assert "spark.archives=hdfs:///made/before.zip#ottla-env" in arguments
    assert "spark.executorEnv.PYTHONPATH=./ottla-env" in arguments


@pytest.mark.parametrize("arguments", [["spark-submit", "job.py"], ["spark-warm-up"]])
def test_missing_pyspark_is_reported_in_one_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert main(arguments) == 1
    assert capsys.readouterr().err == (
        f"ottla {arguments[0]}: pyspark is not installed; run `pip install 'ottla[spark]'`\n"
    )


def test_driver_and_executors_have_their_own_python(submitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.99")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    main(["spark-submit", "job.py"])
    lines = submitted.with_suffix(".env").read_text().splitlines()
    assert {"JAVA_HOME=/a/java", "PYSPARK_PYTHON=python3.99", f"PYSPARK_DRIVER_PYTHON={sys.executable}"} <= set(lines)
    [paths] = [line for line in lines if line.startswith("PYTHONPATH=")]
    assert str(Path(submit.__file__).parents[3]) in paths


def test_driver_in_cluster_mode_has_no_local_python_path(submitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    main(["spark-submit", "--deploy-mode", "cluster", "job.py"])
    assert "PYSPARK_DRIVER_PYTHON" not in submitted.with_suffix(".env").read_text()


def test_spark_submit_without_a_job_prints_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark-submit"]) == 2
    assert "name a job" in capsys.readouterr().err
