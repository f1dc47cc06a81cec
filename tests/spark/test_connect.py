"""Spark Connect: batches, streams, sinks and the query monitor through a remote session."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.whole_topic import whole_topic

from ottla import KafkaProducer
from ottla.broker.embedded import Broker
from ottla.net.ports import free_port
from ottla.spark.environment.spark_home import use_installed_pyspark
from ottla.spark.session import FIRST_COMPILER_ONLY, prepare_environment

pytest.importorskip("pyspark")
pytest.importorskip("grpc")

ROOT = Path(__file__).parents[2]
SECONDS = 400
RECORDS = 100


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run a server as in production, with Ottla in its Python and nothing registered."""
    for name in ("JAVA_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON", "SPARK_HOME"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # restores what the next line sets
        if not os.environ[name]:
            monkeypatch.delenv(name)
    prepare_environment()
    use_installed_pyspark()
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    command = [
        str(Path(os.environ["SPARK_HOME"]) / "sbin" / "start-connect-server.sh"),
        "--wait",
        "--master",
        "local[2]",
    ]
    command += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    log = tmp_path / "server.log"
    brief = f"{FIRST_COMPILER_ONLY} -XX:+UseSerialGC"
    env = {**os.environ, "SPARK_LOG_DIR": str(tmp_path), "SPARK_PID_DIR": str(tmp_path), "JAVA_TOOL_OPTIONS": brief}
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=tmp_path, start_new_session=True)
    try:
        deadline = time.monotonic() + SECONDS
        while not is_open(port):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_remote_session_reads_writes_and_monitors(remote: str, tmp_path: Path) -> None:
    topic = f"connect-{uuid.uuid4().hex[:8]}"
    with Broker({"num.partitions": 2}) as broker:
        address = broker.bootstrap_servers
        with KafkaProducer(bootstrap_servers=address) as producer:
            for i in range(RECORDS):
                producer.send(topic, b"%d" % i, partition=i % 2)
        command = [sys.executable, "-m", "tests.spark.connect_job", remote, address, topic, str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout.splitlines()[-1])
        assert seen["remote"].startswith("pyspark.sql.connect")
        assert seen["rows without register"] == seen["rows"] == RECORDS
        assert seen["filtered"] == 3
        assert "set the option batchId" in seen["refused"]
        assert "after the write" in seen["failed"]
        assert seen["again"] == ""
        copies = whole_topic(address, f"{topic}-copy", 2, isolation_level="read_committed")
        assert sorted(int(record.value) for record in copies) == list(range(RECORDS))
        batch = whole_topic(address, f"{topic}-batch", 2, isolation_level="read_committed")
        assert sorted(int(record.value) for record in batch) == list(range(10))
    with contextlib.closing(sqlite3.connect(tmp_path / "copy.db")) as connection:
        for table in ("copy", "once"):
            actual = connection.execute(f"select count(distinct value), count(*) from {table}").fetchall()
            assert actual == [(RECORDS, RECORDS)], table
    assert {query["name"]: (query["status"], query["numInputRows"]) for query in seen["watched"]} == {
        "topic": ("ended", RECORDS),
        "table": ("ended", RECORDS),
    }
    assert [query["offsetsBehindLatest"] for query in seen["watched"]] == [{topic: 0}] * 2
