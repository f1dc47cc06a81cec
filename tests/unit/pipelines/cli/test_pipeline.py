"""`ottla pipeline` without Spark: projects, and errors that are reported before Spark starts."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla_pipelines.cli.pipeline import reads_topics
from ottla_pipelines.run import locked


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["pipeline", "init", str(tmp_path / "mine"), "--template", "page-visits"]) == 0
    capsys.readouterr()
    return tmp_path / "mine"


def test_init_prints_written_files_and_next_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "init", str(tmp_path / "mine"), "--template", "page-visits"]) == 0
    *files, _, hint = capsys.readouterr().out.splitlines()
    assert all(Path(name).is_file() for name in files)
    assert hint == f"cd {tmp_path / 'mine'} && ottla pipeline run --demo"


def test_init_rejects_a_directory_with_files(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "init", str(project)]) == 1
    assert capsys.readouterr().err == f"ottla pipeline: {project} already exists and is not empty; use another name\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--full-refresh-all", "--refresh", "a"], "--full-refresh-all refreshes all tables"),
        (["--demo", "--bootstrap-server", "h:1"], "--demo starts a broker"),
        (["--master", "local", "--remote", "sc://h"], "--remote uses the master"),
    ],
)
def test_contradictory_options_are_rejected(
    project: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "run", "--spec", str(project), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_directory_without_project_names_the_init_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "run", "--spec", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        "no spark-pipeline.yml in this directory or its parents; create a project with `ottla pipeline init NAME`"
        in line
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "spark-pipeline.yml: while parsing"),
        ("name: x\n", "PIPELINE_SPEC_MISSING_REQUIRED_FIELD"),
        ("name: x\nstorage: y\nwhat: 1\n", "PIPELINE_SPEC_UNEXPECTED_FIELD"),
        ("", "spark-pipeline.yml: "),
        ("name: x\nstorage: y\nlibraries: 7\n", "spark-pipeline.yml: "),
    ],
)
def test_malformed_specification_is_reported_in_one_line(
    project: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("pyspark", "grpc", "yaml"):
        pytest.importorskip(module)
    (project / "spark-pipeline.yml").write_text(text)
    assert main(["pipeline", "dry-run", "--spec", str(project)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_spark_without_declarative_pipelines_is_reported_with_the_required_version(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("yaml")
    monkeypatch.setitem(sys.modules, "pyspark.pipelines.cli", None)  # as in Spark 4.0
    assert main(["pipeline", "dry-run", "--spec", str(project)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "need Spark 4.1 or later" in line
    assert "'pyspark>=4.1'" in line


def test_demo_requires_its_input_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "demo_input.py").unlink()
    assert main(["pipeline", "run", "--spec", str(project), "--demo"]) == 1
    assert "demo_input.py does not exist" in capsys.readouterr().err
    assert not (project / "broker").exists()


def test_second_demo_in_one_directory_is_rejected(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the project and not the broker's directory, which is locked as well."""
    for module in ("pyspark", "grpc", "yaml"):
        pytest.importorskip(module)
    with locked(project, ""):
        assert main(["pipeline", "run", "--spec", str(project), "--demo"]) == 1
    assert capsys.readouterr().err == f"ottla pipeline: {project}: another `ottla pipeline` is running there\n"


def test_unreachable_brokers_are_reported_before_spark_starts(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla_pipelines.cli.pipeline.REACH_MS", 300)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # without a listener
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert main(["pipeline", "run", "--spec", str(project), "--bootstrap-server", address]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ottla pipeline: --bootstrap-server {address}: no broker responds (")


def test_unreachable_brokers_of_the_environment_are_reported_before_spark_starts(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would try each flow ten times, a minute each, before it fails."""
    monkeypatch.setattr("ottla_pipelines.cli.pipeline.REACH_MS", 300)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # without a listener
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", address)
        assert reads_topics(project)
        assert main(["pipeline", "run", "--spec", str(project)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ottla pipeline: --bootstrap-server {address}: no broker responds (")
    (project / "transformations" / "visits.py").write_text("brokers = 'of my own'")
    assert not reads_topics(project)


@pytest.mark.parametrize(
    ("line", "is_used"),
    [
        ("import ottla_pipelines.declarative.topics as t", True),
        ("from ottla_pipelines.declarative.topics import events", True),
        ("from ottla_pipelines.declarative import topics", True),
        ("from ottla_pipelines.declarative import (\n    tables,\n    topics,\n)", True),
        ("from ottla_pipelines.declarative import tables\ntopics = 3", False),
        ("from ottla_pipelines.declarative.topics_of_mine import x", False),
    ],
)
def test_import_of_the_topics_module_is_recognized(tmp_path: Path, line: str, is_used: bool) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "mine.py").write_text(f"from pyspark import pipelines\n{line}\n")
    assert reads_topics(tmp_path) == is_used


def test_conf_without_a_value_is_rejected(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "run", "--spec", str(project), "--conf", "spark.x"]) == 1
    assert "--conf 'spark.x': expected KEY=VALUE" in capsys.readouterr().err
