"""Spark's Python workers: choice of the interpreter, garbage collection and quick acknowledgements."""

import pickle
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla.spark.environment.python_workers import SentToWorkers, acknowledge, check_workers


def python(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_own_python_is_accepted_without_being_started() -> None:
    check_workers(sys.executable)


def test_another_python_with_ottla_is_accepted(tmp_path: Path) -> None:
    check_workers(python(tmp_path / "python", f'exec {sys.executable} "$@"'))


@pytest.mark.parametrize(
    ("script", "reason"),
    [("exit 1", "cannot import ottla"), ("echo 3.9", r"is Python 3\.9, and this is 3\.")],
)
def test_unsuitable_python_is_rejected_with_the_reason_and_the_remedy(tmp_path: Path, script: str, reason: str) -> None:
    other = python(tmp_path / "python", script)
    with pytest.raises(ConfigurationError, match=rf"{other}.*{reason}.*PYSPARK_PYTHON={sys.executable}"):
        check_workers(other)


def test_missing_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="none.*is not there.*PYSPARK_PYTHON="):
        check_workers(str(tmp_path / "none"))


def run(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_loaded_objects_are_frozen_for_gc_once() -> None:
    run("""if True:
        import gc
        from ottla.spark.environment.python_workers import freeze_loaded_modules
        freeze_loaded_modules()
        frozen = gc.get_freeze_count()
        later = [[]]
        freeze_loaded_modules()
        assert gc.get_freeze_count() == frozen > 1000, (frozen, gc.get_freeze_count())
    """)


def test_objects_imported_by_a_task_are_frozen_for_gc_at_the_next_task() -> None:
    run("""if True:
        import gc
        from ottla.spark.environment.python_workers import freeze_loaded_modules
        freeze_loaded_modules()
        frozen = gc.get_freeze_count()
        import sqlite3
        freeze_loaded_modules()
        assert gc.get_freeze_count() > frozen + 100, (frozen, gc.get_freeze_count())
    """)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="TCP_QUICKACK exists on Linux only")
def test_unpickled_reader_enables_quick_acknowledgement_on_worker_sockets() -> None:
    reader = SentToWorkers()
    vars(reader)["options"] = "of some kind"
    sent = pickle.dumps(reader)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as worker:
        # The state of a connection after a response: acknowledgements are delayed.
        worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        assert not worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
        assert vars(pickle.loads(sent)) == vars(reader)
        assert worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
        worker.getpeername()  # still open


def test_all_readers_and_writers_enable_quick_acknowledgement() -> None:
    pytest.importorskip("pyspark")
    from ottla.spark.sink.writer import BatchWriter, StreamWriter
    from ottla.spark.source.ranges import RangeReader

    assert all(issubclass(kind, SentToWorkers) for kind in (RangeReader, BatchWriter, StreamWriter))


def test_acknowledge_without_tcp_quickack_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("socket.TCP_QUICKACK", raising=False)
    acknowledge()


def test_acknowledge_without_proc_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_proc(path: str) -> list[str]:
        raise FileNotFoundError(path)

    monkeypatch.setattr("os.listdir", no_proc)
    acknowledge()
