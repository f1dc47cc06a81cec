"""`ottla cluster`: three brokers that outlive the command, a killed broker, an added one, and a restart of all."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from ottla import KafkaConsumer, KafkaProducer
from ottla.cli.cluster.local_cluster import LocalCluster
from ottla.cli.main import main

pytestmark = [pytest.mark.interop, pytest.mark.slow]

HEALTHY_SECONDS = 60.0


class Cluster:
    """Runs `ottla cluster` on a directory of the test."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._directory = directory
        self._capsys = capsys

    def __call__(self, action: str, *arguments: str) -> tuple[int, str]:
        self._capsys.readouterr()
        code = main(["cluster", action, "--dir", str(self._directory), *arguments])
        return code, self._capsys.readouterr().out

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self("status", "--format", "json")[1])
        return document

    def wait_until_healthy(self) -> dict[str, Any]:
        deadline = time.monotonic() + HEALTHY_SECONDS
        while self("status")[0] != 0:
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.2)
        return self.status()


@pytest.fixture
def cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster", capsys)
    yield made
    made("down")


def bootstrap(status: dict[str, Any]) -> list[str]:
    return [broker["address"] for broker in status["brokers"]]


def send(servers: list[str], *values: bytes) -> None:
    with KafkaProducer(bootstrap_servers=servers, acks="all") as producer:
        for value in values:
            producer.send("visits", value).get(30)


def read(servers: list[str], count: int) -> list[bytes]:
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
    with KafkaConsumer("visits", bootstrap_servers=servers, **options) as consumer:
        return [next(consumer).value for _ in range(count)]


def test_status_reports_paused_brokers_and_queries_the_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cluster("up", "--base-port", "0", "--zookeeper-port", "0")[0] == 0
    controller = cluster.wait_until_healthy()["controller"]
    assert cluster("kill", str(controller), "--signal", "STOP")[0] == 0
    status = cluster.status()
    assert [broker["id"] for broker in status["brokers"] if broker["paused"]] == [controller]
    assert status["error"] is None  # another broker has responded
    assert "paused" in cluster("status")[1]
    with monkeypatch.context() as patch:  # as if the paused broker were not recognized
        patch.setattr(LocalCluster, "is_paused", lambda *_: False)
        assert [cluster.status()["error"] for _ in range(3)] == [None] * 3
    assert cluster("start", str(controller))[0] == 1
    for number in {0, 1, 2} - {controller}:
        cluster("kill", str(number), "--signal", "STOP")
    status = cluster.status()
    assert "paused" in status["error"]
    assert any(broker["registered"] for broker in status["brokers"])  # registered until their sessions expire
    for number in (0, 1, 2):
        assert cluster("kill", str(number), "--signal", "CONT")[0] == 0
    cluster.wait_until_healthy()


@pytest.mark.parametrize("store", [(), ("--zookeeper-port", "0")], ids=["embedded", "zookeeper"])
def test_cluster_outlives_its_commands_and_a_killed_broker(cluster: Cluster, store: tuple[str, ...]) -> None:
    assert cluster("up", "--base-port", "0", *store)[0] == 0
    status = cluster.wait_until_healthy()
    assert status["controller"] in (0, 1, 2)
    servers = bootstrap(status)
    send(servers, b"1")
    assert cluster("kill", str(status["controller"]))[0] == 0
    send(servers, b"2")
    assert cluster("status")[0] == 1
    assert cluster("start", str(status["controller"]))[0] == 0
    cluster.wait_until_healthy()
    assert cluster("add", "--rack", "b")[0] == 0
    assert len(cluster.wait_until_healthy()["brokers"]) == 4
    assert cluster("down")[0] == 0
    assert cluster("up")[0] == 0
    cluster.wait_until_healthy()
    assert read(servers, 2) == [b"1", b"2"]
