import subprocess
import sys

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc")

import grpc

from ottla_pipelines.declarative.session import retries_while_alive


class NoAnswer(grpc.RpcError):  # type: ignore[misc]
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE


def test_a_server_is_asked_again_only_while_its_process_lives() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server:
        policy = retries_while_alive(server)
        assert policy.can_retry(NoAnswer())
        assert not policy.can_retry(ValueError())
        server.kill()
        server.wait()
        assert not policy.can_retry(NoAnswer())
