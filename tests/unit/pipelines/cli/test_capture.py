"""`ottla capture`: rejected options, and retries after failures."""

from __future__ import annotations

import contextlib
import signal
import threading
from pathlib import Path

import pytest

pytest.importorskip("psycopg")

import psycopg

from ottla.cli.main import main
from ottla.errors import ConfigurationError
from ottla_pipelines.capture import local_postgresql, service

RUN = ("capture", "run", "--bootstrap-server", "127.0.0.1:1", "--database", "postgresql://127.0.0.1:1/x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "Shop", "--table", "t"], "'Shop' is not allowed"),
        (["--name", "shop"], "--table"),
        (["--name", "shop", "--table", "t", "--table-format", "orc"], "--table-format"),
        (["--name", "shop", "--table", "t", "--topic-config", "x"], "--topic-config 'x': expected KEY=VALUE"),
    ],
)
def test_invalid_capture_options_are_rejected(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):  # raised by argparse
        assert main([*RUN, *arguments]) != 0
    assert message in capsys.readouterr().err


def test_unreachable_database_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--name", "shop", "--table", "t", "--once"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("ottla capture: connection failed: ")


def test_capture_is_retried_unless_the_error_is_permanent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = [psycopg.OperationalError("the server\nwent away"), ConfigurationError("no such table")]

    def opened(_options: service.CaptureOptions) -> None:
        raise outcomes.pop(0)

    monkeypatch.setattr(service, "opened", opened)
    monkeypatch.setattr(service, "RETRY_SECONDS", (0.001, 0.001))
    with pytest.raises(ConfigurationError, match="no such table"):
        service.run(service.CaptureOptions("", "x", [], {}), threading.Event())
    assert "retrying in 0 s: the server went away" in caplog.text


def test_capture_demo_keeps_other_files_and_requires_postgresql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()
    monkeypatch.setattr(local_postgresql, "programs", lambda: tmp_path)
    assert main(["capture", "demo", "--data", str(tmp_path)]) == 1
    assert "contains other files, so it is not changed" in capsys.readouterr().err
    monkeypatch.setattr(local_postgresql, "programs", lambda: None)
    assert main(["capture", "demo", "--data", str(tmp_path)]) == 1
    assert "apt install postgresql" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_exit_code_of_the_capture_demo_is_that_of_the_signal(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, exit_code: int
) -> None:
    monkeypatch.setattr(local_postgresql, "programs", lambda: signal.raise_signal(number))
    assert main(["capture", "demo"]) == exit_code
