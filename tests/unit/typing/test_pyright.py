"""Pyright checks the options of clients, and its language server completes them in an editor."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

pytest.importorskip("basedpyright")

from tests.unit.typing.mistakes import MISTAKES

BIN = Path(sys.executable).parent
SOURCE = Path(__file__).parents[3] / "src"
PROJECT = json.dumps({"typeCheckingMode": "strict", "extraPaths": [str(SOURCE)]})


def test_pyright_rejects_misspelled_and_mistyped_options(tmp_path: Path) -> None:
    (tmp_path / "pyrightconfig.json").write_text(PROJECT)
    (tmp_path / "wrong.py").write_text(MISTAKES + '\nKafkaProducer(linger_ms="a")\n')
    command = [str(BIN / "basedpyright"), "--pythonpath", sys.executable, "wrong.py"]
    errors = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False).stdout
    assert 'Argument of type "Literal[\'a\']" cannot be assigned to parameter "linger_ms"' in errors
    for name in ("foo", "group", "ack", "offset"):
        assert f'No parameter named "{name}"' in errors


def send(pipe: IO[bytes], **message: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    pipe.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    pipe.flush()


def receive(pipe: IO[bytes], number: int) -> Any:
    """Return the result of a request, and skip what the server sends in between."""
    while True:
        size = 0
        while line := pipe.readline().strip():
            if line.startswith(b"Content-Length:"):
                size = int(line.partition(b":")[2])
        message = json.loads(pipe.read(size))
        if message.get("id") == number and "result" in message:
            return message["result"]


def test_language_server_completes_the_options_of_a_client(tmp_path: Path) -> None:
    (tmp_path / "pyrightconfig.json").write_text(PROJECT)
    program = tmp_path / "program.py"
    text = 'from ottla import KafkaProducer\n\nKafkaProducer(bootstrap_servers="localhost:9092", lin)\n'
    with subprocess.Popen(
        [str(BIN / "basedpyright-langserver"), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as server:
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            folders = [{"uri": tmp_path.as_uri(), "name": "project"}]
            initialize: dict[str, Any] = {
                "processId": None,
                "rootUri": tmp_path.as_uri(),
                "capabilities": {},
                "workspaceFolders": folders,
            }
            send(server.stdin, id=1, method="initialize", params=initialize)
            receive(server.stdout, 1)
            send(server.stdin, method="initialized", params={})
            document = {"uri": program.as_uri(), "languageId": "python", "version": 1, "text": text}
            send(server.stdin, method="textDocument/didOpen", params={"textDocument": document})
            position = {"line": 2, "character": len(text.splitlines()[2]) - 1}
            completion = {"textDocument": {"uri": program.as_uri()}, "position": position}
            send(server.stdin, id=2, method="textDocument/completion", params=completion)
            result = receive(server.stdout, 2)
        finally:
            server.kill()
    labels = {item["label"] for item in (result["items"] if isinstance(result, dict) else result)}
    assert "linger_ms=" in labels
