"""`ottla console-producer`: line readers and their configs, options for producer configs, and failed records."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla import Broker, KafkaConsumer
from ottla.cli.console import console_producer
from ottla.cli.main import main


class Reversed:
    """A custom line reader that reverses each line."""

    def __init__(self, values: dict[str, str]) -> None:
        self.key = values["key"].encode()

    def parse(self, line: bytes, number: int) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        return self.key, line[::-1], [("line", b"%d" % number)]


def send(monkeypatch: pytest.MonkeyPatch, broker: Broker, topic: str, lines: bytes, *more: str) -> int:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(lines), isatty=lambda: False))
    return main(["console-producer", "--bootstrap-server", broker.bootstrap_servers, "--topic", topic, *more])


def test_custom_line_reader_receives_its_properties_and_each_line(
    ottla_broker: Broker, ottla_topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_producer, "Reversed", Reversed, raising=False)
    config = tmp_path / "reader.properties"
    config.write_text("key=from-file\n")
    reader = ("--line-reader", "ottla.cli.console.console_producer.Reversed", "--reader-config", str(config))
    assert send(monkeypatch, ottla_broker, ottla_topic, b"abc\n", *reader) == 0
    assert send(monkeypatch, ottla_broker, ottla_topic, b"def\n", *reader, "--reader-property", "key=given") == 0
    with KafkaConsumer(
        ottla_topic, bootstrap_servers=ottla_broker.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        records = [next(consumer), next(consumer)]
    assert [(r.key, r.value, r.headers) for r in records] == [
        (b"from-file", b"cba", [("line", b"1")]),
        (b"given", b"fed", [("line", b"1")]),
    ]


def test_missing_line_reader_is_rejected(
    ottla_broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert send(monkeypatch, ottla_broker, "t", b"", "--line-reader", "missing.Reader") == 1
    assert "--line-reader: missing.Reader cannot be created" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "properties", "words"),
    [
        (b"\xff:v\tx\n", ("parse.headers=true",), "The name of a header on line number 1 is not UTF-8"),
        (b"a\n", ("parse.key=true", "key.separator="), "key.separator: an empty separator is not allowed"),
        (b"a\n", ("headers.separator=",), "headers.separator: an empty separator is not allowed"),
    ],
)
def test_unusable_lines_and_separators_are_rejected(
    ottla_broker: Broker,
    ottla_topic: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: bytes,
    properties: tuple[str, ...],
    words: str,
) -> None:
    options = [part for value in properties for part in ("--property", value)]
    assert send(monkeypatch, ottla_broker, ottla_topic, line, *options) == 1
    assert words in capsys.readouterr().err


def test_options_are_mapped_to_producer_configs() -> None:
    options = "--max-block-ms 1 --max-memory-bytes 2 --request-timeout-ms 3 --retry-backoff-ms 4 "
    options += "--message-send-max-retries 5 --metadata-expiry-ms 6 --socket-buffer-size 7"
    line = ["--bootstrap-server", "127.0.0.1:1", "--topic", "t", *options.split()]
    configs = console_producer._options(console_producer.COMMAND.parser().parse_args(line))
    assert {key: value for key, value in configs.items() if key not in ("linger.ms", "bootstrap.servers")} == {
        "max.block.ms": 1,
        "buffer.memory": 2,
        "request.timeout.ms": 3,
        "retry.backoff.ms": 4,
        "retries": 5,
        "metadata.max.age.ms": 6,
        "send.buffer.bytes": 7,
    }


def test_send_errors_are_printed_before_the_input_ends(
    ottla_broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[str] = []

    class Input:
        """Input that captures what the tool has printed before the last line."""

        def __iter__(self) -> Iterator[bytes]:
            yield from [b"x" * 2_000_000 + b"\n"] * (console_producer.MAX_ERRORS + 2)
            printed.append(capsys.readouterr().err)
            yield b"a record\n"

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Input(), isatty=lambda: False))
    arguments = ["--bootstrap-server", ottla_broker.bootstrap_servers, "--topic", "errors", "--sync"]
    assert main(["console-producer", *arguments]) == 1
    assert (
        printed[0].count("Error when sending message to topic errors: the record takes") == console_producer.MAX_ERRORS
    )
    assert "ERROR 2 more messages could not be sent" in capsys.readouterr().err
