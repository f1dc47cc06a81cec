"""Features of every command: `--version`, no abbreviations, suggestions for mistyped names, shell completion."""

from __future__ import annotations

import importlib
from importlib.metadata import version

import pytest

from ottla.cli.main import COMMANDS, CommandEntry, main


def usage_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the last line of the error for a wrong command line."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("entry", [e for e in COMMANDS if e.name != "spark-submit"], ids=lambda entry: entry.name)
def test_every_command_prints_its_version_and_has_help(entry: CommandEntry, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--version", "--help"):
        with pytest.raises(SystemExit) as ended:
            main([entry.name, option])
        assert ended.value.code == 0
    output = capsys.readouterr().out
    assert output.startswith(f"{version('ottla')}\nusage: ottla {entry.name} ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topics", "--bootstrap-servr", "x", "--list"), "--bootstrap-servr; did you mean --bootstrap-server?"),
        (("topics", "--boot=x", "--list"), "unrecognized arguments: --boot; did you mean --bootstrap-server?"),
        (("topics", "--bootstrap-server", "x:1", "--list", "--exclude-int"), "; did you mean --exclude-internal?"),
        (("cluster", "up", "--base-prt", "1"), "--base-prt; did you mean --base-port?"),
        (("cluster", "statuz"), "; did you mean status?"),
        (("broker", "--port", "9093"), "--port; use --override listeners=PLAINTEXT://127.0.0.1:PORT"),
        (("leader-election", "--nothing-like-it"), "unrecognized arguments: --nothing-like-it"),
    ],
)
def test_mistyped_and_abbreviated_names_are_rejected_with_a_suggestion(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert usage_error(capsys, *arguments).endswith(words)


def test_missing_required_option_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert "required" in usage_error(capsys, "topics", "--list")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_script_has_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "consumer-groups" in script
    assert "--under-replicated-partitions" in script


def test_completion_without_shtab_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(importlib.import_module("sys").modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert capsys.readouterr().err == "ottla completion needs the package shtab: pip install 'ottla[completion]'\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("mirror-maker", "missing.properties"),
        ("console-producer", "--bootstrap-server", "h:x", "--topic", "t"),
        ("log-dirs", "--describe", "--bootstrap-server", "h:x"),
        ("tables", "run", "--bootstrap-server", "h:x"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_error_of_a_command_begins_with_its_name(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert capsys.readouterr().err.startswith(f"ottla {arguments[0]}: ")


def test_unsupported_kafka_tool_prints_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metadata-quorum", "--bootstrap-server", "h:1", "describe", "--status"]) == 2
    assert capsys.readouterr().err == (
        "ottla: metadata-quorum is left out: there is no KRaft quorum; ottla metadata dump prints the metadata of a "
        "standalone broker\n"
    )
