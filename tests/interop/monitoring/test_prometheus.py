"""A real Prometheus accepts our alert rules and scrapes three brokers; an alert fires and clears after a kill -9."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scripts.dashboards import FOLDER
from tests.crash.process import BrokerProcess
from tests.interop.eventually import eventually

from ottla import KafkaAdminClient, NewTopic
from ottla.net.ports import free_port

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed"),
]

RULES = FOLDER.parent / "prometheus"
SECONDS = 60.0
ALERT = "KafkaUnderReplicatedPartitions"
CONFIG = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: kafka
    static_configs: [{{targets: {targets}}}]
"""
until = partial(eventually, seconds=SECONDS)


class Prometheus:
    """A server that scrapes these addresses every half second; alerts fire after a second instead of a minute."""

    def __init__(self, directory: Path, targets: list[str]) -> None:
        self._address = f"127.0.0.1:{free_port()}"
        rules = (RULES / "alerts.yml").read_text()
        (directory / "alerts.yml").write_text(rules.replace("for: 1m", "for: 1s"))
        config = directory / "prometheus.yml"
        config.write_text(CONFIG.format(targets=json.dumps(targets)))
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={self._address}",
                "--log.level=error",
            ],
            stderr=subprocess.DEVNULL,
        )

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{self._address}/api/v1/{path}", timeout=SECONDS) as response:
            return json.load(response)["data"]

    def is_up(self) -> bool:
        try:
            return len(self.query("up == 1")) == 3
        except OSError:
            return False

    def query(self, expr: str) -> list[Any]:
        result: list[Any] = self.get(f"query?query={urllib.parse.quote(expr)}")["result"]
        return result

    def fires(self, alert: str) -> bool:
        alerts = self.get("alerts")["alerts"]
        return any(one["labels"]["alertname"] == alert and one["state"] == "firing" for one in alerts)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(SECONDS)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[BrokerProcess]]:
    metadata = tmp_path / "metadata"
    started = [
        BrokerProcess(tmp_path / f"broker-{i}", broker_id=i, ottla_metadata_dir=metadata, ottla_http_listener=address)
        for i, address in enumerate(f"127.0.0.1:{free_port()}" for _ in range(3))
    ]
    for broker in started:
        broker.start()
    yield started
    for broker in started:
        broker.kill()


@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", "alerts.yml"), ("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")],
)
def test_promtool_accepts_the_files(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *arguments], cwd=RULES, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alert_fires_after_a_broker_is_killed_and_clears_when_it_is_back(
    tmp_path: Path, brokers: list[BrokerProcess]
) -> None:
    targets = [str(broker.options["ottla_http_listener"]) for broker in brokers]
    prometheus = Prometheus(tmp_path, targets)
    try:
        with KafkaAdminClient(bootstrap_servers=[broker.bootstrap for broker in brokers]) as admin:
            admin.create_topics([NewTopic("visits", 6, 3)])
            until(prometheus.is_up)
            until(lambda: prometheus.query("sum(kafka_server_replicamanager_partitioncount) == 18"))
            assert prometheus.query("sum(kafka_controller_kafkacontroller_activecontrollercount)")[0]["value"][1] == "1"
            assert not prometheus.fires(ALERT)
            brokers[1].kill()
            until(lambda: prometheus.fires(ALERT))
            until(lambda: prometheus.fires("KafkaBrokerDown"))
            brokers[1].start()
            until(lambda: not prometheus.fires(ALERT))
            until(lambda: not prometheus.fires("KafkaBrokerDown"))
    finally:
        prometheus.stop()
