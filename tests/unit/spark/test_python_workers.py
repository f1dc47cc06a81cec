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


def test_our_own_python_is_not_even_started() -> None:
    check_workers(sys.executable)


def test_another_python_with_ottla_will_do(tmp_path: Path) -> None:
    check_workers(python(tmp_path / "python", f'exec {sys.executable} "$@"'))


@pytest.mark.parametrize(
    ("script", "reason"),
    [("exit 1", "cannot import ottla"), ("echo 3.9", r"is Python 3\.9, and this is 3\.")],
)
def test_a_python_that_could_not_run_the_workers_is_named_with_the_remedy(
    tmp_path: Path, script: str, reason: str
) -> None:
    other = python(tmp_path / "python", script)
    with pytest.raises(ConfigurationError, match=rf"{other}.*{reason}.*PYSPARK_PYTHON={sys.executable}"):
        check_workers(other)


def test_a_python_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="none.*is not there.*PYSPARK_PYTHON="):
        check_workers(str(tmp_path / "none"))


def run(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_what_a_worker_has_loaded_is_left_to_itself_once() -> None:
    run("""if True:
        import gc
        from ottla.spark.environment.python_workers import freeze_loaded_modules
        freeze_loaded_modules()
        frozen = gc.get_freeze_count()
        later = [[]]
        freeze_loaded_modules()
        assert gc.get_freeze_count() == frozen > 1000, (frozen, gc.get_freeze_count())
    """)


def test_what_a_task_has_imported_is_left_to_itself_from_the_next_one_on() -> None:
    run("""if True:
        import gc
        from ottla.spark.environment.python_workers import freeze_loaded_modules
        freeze_loaded_modules()
        frozen = gc.get_freeze_count()
        import sqlite3
        freeze_loaded_modules()
        assert gc.get_freeze_count() > frozen + 100, (frozen, gc.get_freeze_count())
    """)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="acknowledging at once is asked for on Linux only")
def test_a_reader_that_arrives_has_its_worker_acknowledge_what_has_come() -> None:
    reader = SentToWorkers()
    vars(reader)["options"] = "of some kind"
    sent = pickle.dumps(reader)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as worker:
        # As a connection is after an answer: acknowledgements wait for the next one.
        worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        assert not worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
        assert vars(pickle.loads(sent)) == vars(reader)
        assert worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
        worker.getpeername()  # still open


def test_all_readers_and_writers_do_so() -> None:
    pytest.importorskip("pyspark")
    from ottla.spark.sink.writer import BatchWriter, StreamWriter
    from ottla.spark.source.ranges import RangeReader

    assert all(issubclass(kind, SentToWorkers) for kind in (RangeReader, BatchWriter, StreamWriter))


def test_where_connections_cannot_be_asked_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("socket.TCP_QUICKACK", raising=False)
    acknowledge()


def test_without_a_list_of_connections_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_proc(path: str) -> list[str]:
        raise FileNotFoundError(path)

    monkeypatch.setattr("os.listdir", no_proc)
    acknowledge()
