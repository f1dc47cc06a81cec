"""`ottla demo`: options, new and resumed runs."""

import argparse
import signal
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("sqlalchemy")

from rich.console import Console

from ottla.cli.main import main
from ottla.errors import ConfigurationError
from ottla.model import TopicPartition
from ottla_pipelines import demo
from ottla_pipelines.cli import demo as command
from ottla_pipelines.demo import finished_rates, prepare, record_counts, resume_hint
from ottla_pipelines.refine.store import Store
from ottla_pipelines.run import Run


def arguments(*options: str) -> argparse.Namespace:
    return command.COMMAND.parser().parse_args(options)


def prepared(tmp_path: Path, *options: str) -> Run:
    return prepare(arguments("--data", str(tmp_path / "run"), *options), Console(quiet=True))


def test_prepared_run_has_its_settings_and_empty_tables(tmp_path: Path) -> None:
    run = prepared(tmp_path, "--limit", "7", "--table-format", "delta")
    assert Run.load(tmp_path / "run") == run
    with Store.open(run.database_url) as store:
        assert store.totals() == (0, 0, 0)
    assert finished_rates(run) is None


def test_record_counts_are_those_of_each_topic_of_the_run(tmp_path: Path) -> None:
    run = prepared(tmp_path, "--limit", "7")
    run.save_end_offsets(
        {TopicPartition("flights", 0): 3, TopicPartition("flights", 1): 4, TopicPartition("weather", 0): 5}
    )
    assert record_counts(run) == "7 records in flights, 5 in weather"


def test_resume_uses_the_settings_of_the_run(tmp_path: Path) -> None:
    run = prepared(tmp_path, "--limit", "7")
    assert prepared(tmp_path, "--resume") == prepared(tmp_path, "--resume", "--limit", "7") == run


@pytest.mark.parametrize("options", [("--limit", "9"), ("--by", "x"), ("--table-format", "delta")])
def test_resume_rejects_settings_that_differ_from_the_run(tmp_path: Path, options: tuple[str, str]) -> None:
    run = prepared(tmp_path, "--limit", "7")
    with pytest.raises(ConfigurationError, match=f"--resume: .* with another {options[0]}, which cannot be changed"):
        prepared(tmp_path, "--resume", *options)
    assert prepared(tmp_path, "--resume") == run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "x"], "--by: requires --input"),
        (["--input", "nope"], "--input nope: no such file"),
        (["--database", "mysql://h/x"], "--database: mysql is not supported"),
    ],
)
def test_invalid_options_do_not_clear_an_earlier_run(tmp_path: Path, options: list[str], message: str) -> None:
    prepared(tmp_path, "--limit", "7")
    with pytest.raises(ConfigurationError, match=message):
        prepared(tmp_path, *options)
    assert Run.load(tmp_path / "run").limit == 7


@pytest.mark.parametrize(
    "options", [["--rate", "0"], ["--seconds", "-1"], ["--limit", "1.5"], ["--rate", "1", "--seconds", "2"]]
)
def test_numbers_must_be_positive_and_rate_excludes_seconds(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        arguments(*options)
    assert options[0] in capsys.readouterr().err


def test_resume_hint_names_a_non_default_directory() -> None:
    assert resume_hint(Path("demo-data")).startswith("`ottla demo --resume`")
    assert "--resume --data x`" in resume_hint(Path("x"))
    assert "--resume --data 'a b'`" in resume_hint(Path("a b"))


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_exit_code_of_the_demo_is_that_of_the_signal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals, exit_code: int
) -> None:
    monkeypatch.setattr(demo, "prepare", lambda *_: signal.raise_signal(number))
    assert main(["demo"]) == exit_code
    assert "Interrupted. `ottla demo --resume`" in capsys.readouterr().out
