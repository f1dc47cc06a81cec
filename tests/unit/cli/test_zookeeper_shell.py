"""`ottla zookeeper-shell`, with znodes in memory."""

from __future__ import annotations

import io
from types import TracebackType
from typing import Self

import pytest

from ottla.cli.main import main
from ottla.cli.storage import zookeeper_shell


class Znodes:
    """The methods of ZkClient that the command needs, on a dictionary."""

    def __init__(self) -> None:
        self.nodes: dict[str, bytes] = {
            "/": b"",
            "/brokers": b"",
            "/brokers/ids": b"",
            "/controller": b'{"brokerid":1}',
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def get(self, path: str) -> bytes | None:
        return self.nodes.get(path)

    def children(self, path: str) -> list[str]:
        below = path.rstrip("/") + "/"
        return [name[len(below) :] for name in self.nodes if name.startswith(below) and "/" not in name[len(below) :]]

    def update_persistent(self, path: str, value: bytes) -> None:
        self.nodes[path] = value

    def delete_tree(self, path: str) -> None:
        self.nodes = {p: v for p, v in self.nodes.items() if p != path and not p.startswith(f"{path}/")}


@pytest.fixture
def znodes(monkeypatch: pytest.MonkeyPatch) -> Znodes:
    znodes = Znodes()
    monkeypatch.setattr(zookeeper_shell, "zookeeper", lambda _: znodes)
    return znodes


@pytest.mark.usefixtures("znodes")
def test_zookeeper_shell_runs_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zookeeper-shell", "localhost:2181", "ls", "/brokers"]) == 0
    assert capsys.readouterr().out == "[ids]\n"
    assert main(["zookeeper-shell", "localhost:2181", "get", "/controller"]) == 0
    assert capsys.readouterr().out == '{"brokerid":1}\n'
    assert main(["zookeeper-shell", "localhost:2181", "get", "/nothing"]) == 1
    assert capsys.readouterr().err == "Node does not exist: /nothing\n"
    assert main(["zookeeper-shell", "localhost:2181", "quit"]) == 0
    assert capsys.readouterr().err == ""


def test_zookeeper_shell_runs_the_commands_of_standard_input(
    znodes: Znodes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = (
        "create /a 'some data'\nset /a b\ncreate /a/b\ndelete /a\ndelete /a/b\ndeleteall /brokers\nquit\nset /a c\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(commands))
    assert main(["zookeeper-shell", "localhost:2181"]) == 1
    output = capsys.readouterr()
    assert output.out == "Created /a\nCreated /a/b\n"
    assert output.err.startswith("Node not empty: /a; ")
    assert set(znodes.nodes) == {"/", "/a", "/controller"}
    assert znodes.nodes["/a"] == b"b"


@pytest.mark.usefixtures("znodes")
def test_zookeeper_shell_goes_on_after_a_quote_that_is_not_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("get '/x\nls /brokers\n"))
    assert main(["zookeeper-shell", "localhost:2181"]) == 1
    output = capsys.readouterr()
    assert (output.out, output.err) == ("[ids]\n", "get '/x: No closing quotation\n")


@pytest.mark.usefixtures("znodes")
def test_zookeeper_shell_rejects_unknown_commands_and_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zookeeper-shell", "localhost:2181", "rmr", "/"]) == 1
    assert "expected one of ls PATH" in capsys.readouterr().err
    assert main(["zookeeper-shell", "localhost:x"]) == 1
