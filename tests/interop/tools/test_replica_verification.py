"""Kafka's ReplicaVerificationTool of 3.9 and `ottla replica-verification` compare the same replicas."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import apache_kafka
from tests.interop.kafka_jars import kafka
from tests.interop.kafka_on_zookeeper import WITH_ZOOKEEPER, kafka_or_skip

from ottla import Broker, KafkaAdminClient, KafkaProducer, NewTopic
from ottla.net.ports import free_port

pytestmark = pytest.mark.interop

LINES = 3
"""The compared output: the first line and two reports."""
THEIRS = "org.apache.kafka.tools.ReplicaVerificationTool"


@pytest.fixture(scope="module", params=["ottla", "kafka-4.3.1"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "ottla":
        with Broker(brokers=3) as brokers:
            yield brokers.bootstrap_servers
        return
    kafka_or_skip(request.param.removeprefix("kafka-"))
    with kafka(tmp_path_factory.mktemp("kafka"), free_port(in_a_row=2), kill=True) as address:
        yield address


def output(command: list[str]) -> list[str]:
    """Return the first lines of a tool that does not end, without their times."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(LINES)]
        process.terminate()
        process.stdout.read()
    return [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ", "", line.rstrip("\n")) for line in lines]


@pytest.mark.compatibility("Kafka's tools", "replicas", "ReplicaVerificationTool, with ottla replica-verification")
def test_ottla_replica_verification_prints_the_output_of_kafkas_tool(cluster: str, tmp_path: Path) -> None:
    kafka_or_skip(WITH_ZOOKEEPER)
    with KafkaAdminClient(bootstrap_servers=cluster) as admin:
        replicas = len(admin.describe_cluster().nodes)
        admin.create_topics([NewTopic("compared", 1, replicas), NewTopic("other", 1, 1)])
    with KafkaProducer(bootstrap_servers=cluster, compression_type="lz4", linger_ms=5) as producer:
        for number in range(500):
            producer.send("compared", b"value %d" % number)
        producer.flush(10)
    options = ("--broker-list", cluster, "--time", "-2", "--topics-include", "compared", "--report-interval-ms", "500")
    mine = output([sys.executable, "-m", "ottla.cli.main", "replica-verification", *options])
    theirs = output(apache_kafka.java(THEIRS, *options, version=WITH_ZOOKEEPER))
    assert mine == theirs
    assert mine[1] == "max lag is 0 for partition compared-0 at offset 500 among 1 partitions"
