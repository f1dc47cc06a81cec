"""The Spark session of a pipeline: retries while its server lives, and settings."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc")

import grpc

from ottla.spark.environment import spark_versions
from ottla_pipelines.declarative.session import retries_while_alive, settings


class UnavailableError(grpc.RpcError):  # type: ignore[misc]
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE


def test_requests_are_retried_only_while_the_server_process_lives() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server:
        policy = retries_while_alive(server)
        assert policy.can_retry(UnavailableError())
        assert not policy.can_retry(ValueError())
        server.kill()
        server.wait()
        assert not policy.can_retry(UnavailableError())


def test_available_now_wrapper_is_enabled_for_spark_4_1(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
    assert spark_versions.HAS_READ_LIMITS or {name: "true"} == spark_versions.AVAILABLE_NOW_CONFIGS
    monkeypatch.setattr(spark_versions, "AVAILABLE_NOW_CONFIGS", {name: "true"})  # as in Spark 4.1
    assert settings(Path("/project"), 1, {})[name] == "true"
    assert settings(Path("/project"), 1, {name: "false"})[name] == "false"
