"""The declarative pipeline of page visits: every row is accounted for, even if processes are killed.

CI runs the page visits once, small, with one kill. At length:

    OTTLA_PIPELINE_ROWS=1000000 pytest tests/spark/test_pipelines.py -k accounted -s
    OTTLA_PIPELINE_KILLS=15 pytest tests/spark/test_pipelines.py -k killed -s
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.process import BrokerProcess
from tests.spark import visits_account
from tests.spark.pipeline_kills import RUN_SECONDS, Killer, Run, complete, delete_last_commits

from ottla import KafkaConsumer, KafkaProducer, TopicPartition
from ottla.cli.main import main
from ottla_pipelines.catalog import VISITS
from ottla_pipelines.ingest.events import partition_for
from ottla_pipelines.ingest.fill import fill_visits
from ottla_pipelines.ingest.replay import create_topics
from ottla_pipelines.ingest.visits import BEGIN, Visit, access_line, visits

pytestmark = pytest.mark.slow

for module in ("pyspark", "grpc", "yaml", "sqlalchemy"):
    pytest.importorskip(module)

ROWS = int(os.environ.get("OTTLA_PIPELINE_ROWS", "3000"))
KILLS = int(os.environ.get("OTTLA_PIPELINE_KILLS", "0"))
QUICK = ("codegen.wholeStage=false", "codegen.factoryMode=NO_CODEGEN", "adaptive.enabled=false")
QUICK_SETTINGS = [part for text in QUICK for part in ("--conf", f"spark.sql.{text}")]
"""For few rows, generating and compiling code would take most of the time."""
STREAMS = 7
"""The flows of the page visits that have a checkpoint."""
SEED = int(os.environ.get("OTTLA_PIPELINE_SEED", random.randrange(10**6)))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    options: dict[str, Any] = {"auto_create_topics_enable": "true", "num_partitions": 1}
    with BrokerProcess(tmp_path / "broker", **options) as running:
        yield running


def project(tmp_path: Path, template: str) -> Path:
    assert main(["pipeline", "init", str(tmp_path / "project"), "--template", template]) == 0
    return tmp_path / "project"


def send(address: str, records: Iterable[tuple[str, int, bytes | None, bytes | None, int | None]]) -> None:
    """Send records, each given as (topic, partition, key, value, timestamp)."""
    with KafkaProducer(bootstrap_servers=address, acks="all", linger_ms=20) as producer:
        for topic, partition, key, value, timestamp_ms in records:
            producer.send(topic, value=value, key=key, partition=partition, timestamp_ms=timestamp_ms)


def end_all_sessions(address: str) -> None:
    """Send a visit of the next day to each partition, which moves the watermark past the timeout of all sessions."""
    with KafkaConsumer(bootstrap_servers=address) as consumer:
        ends = consumer.end_offsets([TopicPartition(VISITS.name, p) for p in range(VISITS.partitions)])
    at = BEGIN + dt.timedelta(days=1, seconds=sum(ends.values()))
    line = access_line(visits_account.TIMER, at, random.Random(0), "Mozilla/5.0")
    send(address, ((VISITS.name, p, b"monitor", line, int(at.timestamp() * 1000)) for p in range(VISITS.partitions)))


def test_every_visit_is_accounted_for(tmp_path: Path, broker: BrokerProcess) -> None:
    """A Python worker is killed during the run."""
    at = project(tmp_path, "page-visits")
    spec = at / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace('shuffle.partitions: "2"', 'shuffle.partitions: "1"'))
    assert fill_visits(broker.bootstrap, seed=SEED, count=ROWS) == ROWS
    end_all_sessions(broker.bootstrap)
    seconds = run_with_a_kill(at, broker)
    print(f"seed {SEED}: {ROWS:,} rows in {seconds:.0f} s: {visits_account.check(broker.bootstrap, at)}")


def run_with_a_kill(at: Path, broker: BrokerProcess) -> float:
    began = time.monotonic()
    run = Run(at, broker.bootstrap, "--master", "local[2,4]", *(QUICK_SETTINGS if ROWS < 100_000 else ()))
    try:
        assert run.running.wait(RUN_SECONDS)
        killer = Killer(at, broker, random.Random(SEED), 1)
        while not killer.kill(run, "worker"):
            assert run.process.poll() is None, run.log.read_text()[-3000:]
            time.sleep(0.1)
        assert run.wait() == 0, run.log.read_text()[-3000:]
    finally:
        run.kill()
    return time.monotonic() - began


def test_pipeline_run_ends_with_an_error_if_its_jvm_dies(tmp_path: Path, broker: BrokerProcess) -> None:
    """By default, Spark's client would retry a dead server's port for ten minutes."""
    at = project(tmp_path, "empty")
    send(broker.bootstrap, (("events", 0, None, b"%d" % i, None) for i in range(1000)))
    run = Run(at, broker.bootstrap, "--master", "local[2,4]", offsets=10)
    try:
        assert run.running.wait(RUN_SECONDS)
        (jvm,) = run.jvms()
        os.kill(jvm, signal.SIGKILL)
        assert run.wait(60) == 1
    finally:
        run.kill()
    reported, logged = [], run.log.read_text()
    for line in logged.splitlines():
        reported += [json.loads(line)["message"]] if line.startswith("{") else []
    assert reported[:2] == ["starting Spark", "reading the definitions"]
    assert "ottla pipeline: Spark's JVM ended before the run was complete (killed by signal 9); see " in logged
    assert "Traceback" not in logged


@pytest.mark.skipif(KILLS < 1, reason="OTTLA_PIPELINE_KILLS is not set")
def test_pipeline_killed_between_data_and_checkpoint_writes_no_row_twice(tmp_path: Path, broker: BrokerProcess) -> None:
    at = project(tmp_path, "page-visits")
    assert fill_visits(broker.bootstrap, seed=SEED, count=ROWS) == ROWS
    complete(at, broker.bootstrap, "--master", "local[2,4]")
    assert delete_last_commits(at) == STREAMS
    end_all_sessions(broker.bootstrap)
    complete(at, broker.bootstrap, "--master", "local[2,4]")
    print(f"seed {SEED}: {visits_account.check(broker.bootstrap, at)}")


@pytest.mark.skipif(KILLS < 1, reason="OTTLA_PIPELINE_KILLS is not set")
def test_killed_page_visits_pipeline_equals_the_log(tmp_path: Path, broker: BrokerProcess) -> None:
    print(f"seed {SEED}")
    at = project(tmp_path, "page-visits")
    create_topics(broker.bootstrap, [VISITS])
    endless = enumerate(visits(SEED, 10**6))

    def feed() -> None:
        def record(i: int, visit: Visit) -> tuple[str, int, bytes | None, bytes | None, int | None]:
            return VISITS.name, partition_for(visit.key, i, VISITS.partitions), *visit

        send(broker.bootstrap, (record(i, visit) for i, visit in itertools.islice(endless, 12_000)))

    killer = Killer(at, broker, random.Random(SEED), KILLS)
    killer.work(feed, offsets=2000)
    complete(at, broker.bootstrap, "--master", "local[2,4]", offsets=10_000)
    end_all_sessions(broker.bootstrap)
    complete(at, broker.bootstrap, "--master", "local[2,4]")
    print(f"killed {dict(Counter(killer.done))}: {visits_account.check(broker.bootstrap, at)}")
