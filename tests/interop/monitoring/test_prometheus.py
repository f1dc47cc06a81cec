"""A real Prometheus accepts our alert rules, scrapes brokers and Spark queries, and answers every panel's query.

An alert fires and clears after a kill -9. With OTTLA_SCREENSHOTS=DIR, Chromium takes pictures of Prometheus' pages.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from scripts import debian
from scripts.dashboards import DASHBOARDS, FOLDER
from tests.crash.process import BrokerProcess
from tests.interop.eventually import eventually

from ottla import ClientQuotaAlteration, KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.errors import UnknownTopicOrPartitionError
from ottla.metrics.metrics import Metrics
from ottla.metrics.prometheus import PrometheusReporter
from ottla.net.ports import free_port
from ottla.spark.monitoring.history import Histories
from ottla.spark.monitoring.metrics import NAMESPACE, QueryMetrics
from ottla.spark.monitoring.progress import micro_batch

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("installed")]

RULES = FOLDER.parent / "prometheus"
SECONDS = 60.0
ALERT = "KafkaUnderReplicatedPartitions"
GRAPHED = "sum(kafka_server_replicamanager_underreplicatedpartitions)"
CONFIG = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: kafka
    static_configs: [{{targets: {targets}}}]
"""
until = partial(eventually, seconds=SECONDS)


@pytest.fixture(scope="module")
def installed() -> None:
    if debian.program("promtool", "prometheus") is None:
        pytest.skip("apt-get could not install prometheus")


class Prometheus:
    """A server that scrapes these addresses every half second; alerts fire after a second instead of a minute."""

    def __init__(self, directory: Path, targets: list[str]) -> None:
        self._targets = len(targets)
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
            return len(self.query("up == 1")) == self._targets
        except OSError:
            return False

    def query(self, expr: str) -> list[Any]:
        result: list[Any] = self.get(f"query?query={urllib.parse.quote(expr)}")["result"]
        return result

    def fires(self, alert: str) -> bool:
        alerts = self.get("alerts")["alerts"]
        return any(one["labels"]["alertname"] == alert and one["state"] == "firing" for one in alerts)

    def take_pictures(self, name: str) -> None:
        """Take a picture of a graph and of the alerts, if a directory for them is set."""
        directory = os.environ.get("OTTLA_SCREENSHOTS")
        if not directory:
            return
        from playwright.sync_api import sync_playwright

        query = urllib.parse.urlencode({"g0.expr": GRAPHED, "g0.tab": 0, "g0.range_input": "30s"})
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
            page = browser.new_page(viewport={"width": 1100, "height": 800})
            for kind, path in (("graph", f"graph?{query}"), ("alerts", "alerts")):
                response = page.goto(f"http://{self._address}/{path}", wait_until="networkidle")
                if response is None or not response.ok:  # Debian's package has only the pages before React
                    page.goto(f"http://{self._address}/classic/{path}", wait_until="networkidle")
                page.wait_for_timeout(1000)
                page.screenshot(path=Path(directory) / f"prometheus-{kind}-{name}.png")
            browser.close()

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
            prometheus.take_pictures("firing")
            brokers[1].start()
            until(lambda: not prometheus.fires(ALERT))
            until(lambda: not prometheus.fires("KafkaBrokerDown"))
            prometheus.take_pictures("cleared")
    finally:
        prometheus.stop()


@contextmanager
def spark_page() -> Iterator[str]:
    """Serve the metrics of a Spark query, as a program with a PrometheusReporter does."""
    reporter, histories = PrometheusReporter(), Histories()
    metrics = Metrics(namespace=NAMESPACE, reporters=[reporter])
    source = {"endOffset": {"visits": {"0": 300}}, "latestOffset": {"visits": {"0": 350}}}
    progress = {"id": "78ccfd42", "name": "pages", "timestamp": "2026-11-21T23:47:49.322Z", "batchId": 1}
    progress |= {"numInputRows": 300, "durationMs": {"addBatch": 1500}, "sources": [source]}
    histories.progressed(micro_batch(progress))
    QueryMetrics(metrics, histories).update()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(reporter.text().encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def work(servers: list[str]) -> None:
    """Run clients so that every counter increases: records, a group that commits, a request that fails."""
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("visits", 3, 3, topic_configs={"flush.messages": "1"})])
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics(["missing"])
        admin.alter_client_quotas([ClientQuotaAlteration({"client-id": "greedy"}, {"producer_byte_rate": 1000})])
    with KafkaProducer(bootstrap_servers=servers, client_id="greedy") as producer:
        for number in range(30):
            producer.send("visits", bytes(1000), partition=number % 3)
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(100):
            producer.send("visits", b"%d" % number)
    with KafkaConsumer("visits", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        for _ in range(130):
            next(consumer)
        consumer.commit()


def queries() -> list[tuple[str, str, str]]:
    """Return dashboard, panel and query of all panels, with the variables of the dashboards replaced."""
    choices = {"$job": "kafka", "$instance": ".*", "$topic": ".*", "$group": ".*", "$query": ".*"}
    choices["$__rate_interval"] = "5s"
    result = []
    for name, page in DASHBOARDS.items():
        for panel in page["panels"]:
            for target in panel["targets"]:
                expr = target["expr"]
                for variable, value in choices.items():
                    expr = expr.replace(variable, value)
                result.append((name, panel["title"], expr))
    return result


def test_query_of_every_panel_returns_data(tmp_path: Path, brokers: list[BrokerProcess]) -> None:
    with spark_page() as spark:
        targets = [str(broker.options["ottla_http_listener"]) for broker in brokers]
        prometheus = Prometheus(tmp_path, [*targets, spark])
        try:
            until(prometheus.is_up)
            work([broker.bootstrap for broker in brokers])
            empty = queries()

            def all_return_data() -> bool:
                empty[:] = [query for query in empty if not prometheus.query(query[2])]
                return not empty

            try:
                until(all_return_data)
            except AssertionError:
                pytest.fail("panels without data: " + "; ".join(map(str, empty)))
        finally:
            prometheus.stop()
