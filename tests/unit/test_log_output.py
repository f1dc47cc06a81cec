"""The log of a server process: JSON lines, rotated files, and the background thread that writes them."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import log_output, logs
from ottla.log_output import BackgroundHandler, LogOptions

log = logging.getLogger("ottla.cluster")


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    """Restore the handlers that the tests replace."""
    logs.protect()
    before = logging.root.handlers[:], logging.root.level
    logging.root.handlers = []
    yield
    for handler in logging.root.handlers:
        handler.close()
    logging.root.handlers, logging.root.level = before


def close() -> None:
    for handler in logging.root.handlers:
        handler.close()


def test_json_line_has_fields_and_the_exception_as_one_string(tmp_path: Path) -> None:
    file = tmp_path / "broker.log"
    log_output.configure(LogOptions("info", "json", str(file)), 7)
    log.info("Created topic %s", "a\nb")
    try:
        raise ValueError("x")
    except ValueError:
        log.exception("It failed")
    close()
    first, second = map(json.loads, file.read_text().splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {"level": "INFO", "logger": "ottla.cluster", "broker": 7, "message": r"Created topic a\nb"}
    assert second["exception"].startswith("    Traceback")
    assert second["exception"].endswith("ValueError: x")


def test_brokers_of_a_node_write_separate_log_files(tmp_path: Path) -> None:
    log_output.configure(LogOptions("info", "text", str(tmp_path / "broker.log")), 2, of_node=True)
    log.warning("Late")
    log.debug("Not logged")
    close()
    (line,) = (tmp_path / "broker-2.log").read_text().splitlines()
    assert line.startswith("[broker 2] ")
    assert line.endswith(" WARNING Late (ottla.cluster)")


def test_log_file_is_rotated_at_its_size(tmp_path: Path) -> None:
    log_output.configure(LogOptions("info", "text", str(tmp_path / "broker.log"), 1000, 2))
    for number in range(60):
        log.info("Line %d", number)
    close()
    assert {path.name for path in tmp_path.iterdir()} == {"broker.log", "broker.log.1", "broker.log.2"}
    assert "Line 59" in (tmp_path / "broker.log").read_text()


def test_log_file_moved_by_logrotate_is_reopened(tmp_path: Path) -> None:
    file = tmp_path / "broker.log"
    log_output.configure(LogOptions("info", "text", str(file)))
    log.info("Before")
    handler = logging.root.handlers[0]
    assert isinstance(handler, BackgroundHandler)
    handler.flush()
    file.rename(tmp_path / "broker.log.1")
    log.info("After")
    close()
    assert "After" in file.read_text()
    assert "Before" in (tmp_path / "broker.log.1").read_text()


class BlockedHandler(logging.Handler):
    """A handler that blocks until it is released, like a stopped terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.started, self.released = threading.Event(), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.started.set()
        self.released.wait(10)
        self.lines.append(record.getMessage())


def test_log_records_beyond_the_queue_limit_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_output, "MAX_QUEUED", 2)
    target = BlockedHandler()
    handler = BackgroundHandler(target)
    logging.root.handlers = [handler]
    log.error("1")
    assert target.started.wait(10)
    for number in range(2, 7):
        log.error("%d", number)
    target.released.set()
    handler.flush()
    log.error("last")
    handler.close()
    assert [line for line in target.lines if len(line) < 5] == ["1", "2", "3", "last"]
    assert "3 log lines were dropped, because they could not be written fast enough" in target.lines


def test_close_flushes_the_log_and_removes_its_handler(capsys: pytest.CaptureFixture[str]) -> None:
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        log_output.configure(LogOptions())
        logging.getLogger("ottla.test").warning("first")
        log_output.close()
        assert not [h for h in logging.root.handlers if isinstance(h, BackgroundHandler)]
        assert "first" in capsys.readouterr().err
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
