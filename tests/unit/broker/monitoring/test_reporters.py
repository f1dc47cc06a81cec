"""`metric.reporters` of the broker: metrics reporters receive the broker's metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.produce_and_fetch import create, produce

from ottla.broker.monitoring.reporters import BrokerReporters
from ottla.metrics.metric import KafkaMetric
from ottla.metrics.metrics import Metrics
from ottla.metrics.prometheus import PrometheusReporter
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest


class Recorder:
    """A metrics reporter that records its calls."""

    last: Recorder

    def __init__(self) -> None:
        self.metrics: dict[tuple[str, str, str], KafkaMetric] = {}
        self.configs: Mapping[str, Any] = {}
        self.read = asyncio.Event()
        self.closed = False
        Recorder.last = self

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.configs = configs

    def init(self, metrics: Metrics) -> None:
        pass

    def metric_change(self, metric: KafkaMetric) -> None:
        self.metrics[self._key(metric)] = metric
        self.read.set()

    def metric_removal(self, metric: KafkaMetric) -> None:
        del self.metrics[self._key(metric)]

    def close(self) -> None:
        self.closed = True

    @staticmethod
    def _key(metric: KafkaMetric) -> tuple[str, str, str]:
        name = metric.metric_name
        return name.group, name.name, name.tags.get("topic", "")


def test_reporter_receives_metrics_and_the_removal_of_those_of_deleted_topics(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        recorder = Recorder()
        reporters = BrokerReporters([recorder], client.node)
        await create(client, "t")
        await reporters.read()
        metric = recorder.metrics["BrokerTopicMetrics", "MessagesInPerSec", "t"]
        assert metric.value() == 0
        await produce(client, batch(b"a", b"b"))
        await reporters.read()
        assert metric.value() == 2
        assert recorder.metrics["RequestMetrics", "TotalTimeMs-count", ""].value() > 0
        await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 3)
        await reporters.read()
        assert ("BrokerTopicMetrics", "MessagesInPerSec", "t") not in recorder.metrics
        await reporters.close()
        assert recorder.closed

    with_broker(test, tmp_path)


def test_class_in_metric_reporters_is_configured_started_and_closed(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await asyncio.wait_for(Recorder.last.read.wait(), 20)
        assert Recorder.last.configs["log.dirs"] == str(tmp_path)
        while ("KafkaServer", "BrokerState", "") not in Recorder.last.metrics:
            await asyncio.sleep(0)
        assert not Recorder.last.closed

    with_broker(test, tmp_path, metric_reporters=f"{Recorder.__module__}.Recorder")
    assert Recorder.last.closed


def test_prometheus_reporter_renders_the_metrics(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        reporter = PrometheusReporter()
        reporters = BrokerReporters([reporter], client.node)
        await reporters.read()
        assert "kafka_server_ReplicaManager_PartitionCount 0.0\n" in reporter.text()
        await reporters.close()

    with_broker(test, tmp_path)
