"""Unix domain sockets between Spark and its Python workers."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ottla.spark.environment.sockets import LONGEST, worker_sockets

DIRECTORY = "spark.python.unix.domain.socket.dir"


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    name: str = request.param
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: name)
    monkeypatch.setattr("atexit.register", lambda *args, **kwargs: None)
    return name


@pytest.mark.parametrize("temporary", ["/" + "t" * (LONGEST - 1)], indirect=True)
def test_worker_sockets_have_a_separate_directory(temporary: str) -> None:
    actual = worker_sockets.__wrapped__()
    assert actual[DIRECTORY] == temporary
    assert actual["spark.buffer.size"] == "262144"


@pytest.mark.parametrize("temporary", ["/" + "t" * LONGEST], indirect=True)
def test_spark_uses_tcp_if_the_socket_path_is_too_long(temporary: str) -> None:
    assert worker_sockets.__wrapped__() == {}


def test_spark_uses_tcp_without_unix_domain_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("socket.AF_UNIX")
    assert worker_sockets.__wrapped__() == {}


def test_socket_directory_is_removed_when_the_process_ends() -> None:
    script = f"from ottla.spark.environment.sockets import worker_sockets; print(worker_sockets()[{DIRECTORY!r}])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip().startswith(tempfile.gettempdir())
    assert not Path(done.stdout.strip()).exists()
