"""Kafka tools before version 3, and manual changes, that write to ZooKeeper directly: our broker applies them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from scripts import maven
from scripts.apache_kafka import SHORT_LIVED
from tests.crash.process import BrokerProcess
from tests.interop.eventually import eventually as until_found

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from kazoo.client import KazooClient

from ottla import ConfigResource, ConfigResourceType, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from ottla.zookeeper_server import ZooKeeperServer

pytestmark = pytest.mark.interop

SECONDS = 30
eventually = partial(until_found, seconds=SECONDS)


@pytest.fixture(scope="module")
def node(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    options: dict[str, Any] = {
        "broker.id": 1,
        "zookeeper.connect": zookeeper.connect,
        "auto.create.topics.enable": "false",
    }
    with BrokerProcess(tmp_path_factory.mktemp("data"), **options) as started:
        yield started


@pytest.fixture
def admin(node: BrokerProcess) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=node.bootstrap) as made:
        yield made


@pytest.fixture
def tree(zookeeper: ZooKeeperServer) -> Iterator[Any]:
    client = KazooClient(zookeeper.connect)
    client.start()
    yield client
    client.stop()
    client.close()


def partitions(admin: KafkaAdminClient, topic: str) -> int:
    actual = admin.describe_topics().get(topic)
    return 0 if actual is None else len(actual.partitions)


def kafka_topics(zookeeper: ZooKeeperServer, *arguments: str) -> str:
    """Run kafka-topics.sh of 0.8.2."""
    reason = maven.missing()
    if reason is not None:
        pytest.skip(reason)
    libs = maven.jars("kafka_2.10-0.8.2.2", "org.apache.kafka:kafka_2.10:0.8.2.2", maven.NO_LOGS)
    command = ["java", "-Xmx128M", *SHORT_LIVED, "-cp", f"{libs}/*", "kafka.admin.TopicCommand"]
    done = subprocess.run(
        [*command, "--zookeeper", zookeeper.connect, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_kafka_topics_tool_of_0_8_creates_alters_describes_and_deletes_topics(
    zookeeper: ZooKeeperServer, node: BrokerProcess, admin: KafkaAdminClient, tree: Any
) -> None:
    which = ("--topic", "visits")
    kafka_topics(zookeeper, "--create", *which, "--partitions", "2", "--replication-factor", "1")
    eventually(lambda: partitions(admin, "visits") == 2)
    with KafkaProducer(bootstrap_servers=node.bootstrap) as producer:
        assert producer.send("visits", b"x", partition=1).get(30).offset == 0
    topic_id = json.loads(tree.get("/brokers/topics/visits")[0])["topic_id"]
    kafka_topics(zookeeper, "--alter", *which, "--partitions", "3", "--config", "retention.ms=5000")
    eventually(lambda: partitions(admin, "visits") == 3)
    eventually(lambda: retention(admin, "visits") == "5000")
    kafka_topics(zookeeper, "--alter", *which, "--config", "retention.ms=6000")
    eventually(lambda: retention(admin, "visits") == "6000")
    # The tool does not know topic IDs, and has written the topic without one.
    assert json.loads(tree.get("/brokers/topics/visits")[0])["topic_id"] == topic_id
    assert end(node.bootstrap, "visits", 1) == 1
    described = kafka_topics(zookeeper, "--describe", *which)
    assert "PartitionCount:3" in described
    assert "Leader: 1\tReplicas: 1\tIsr: 1" in described
    kafka_topics(zookeeper, "--delete", *which)
    eventually(lambda: partitions(admin, "visits") == 0)
    eventually(lambda: tree.get_children("/admin/delete_topics") == [])


def end(bootstrap: str, topic: str, partition: int) -> int:
    with KafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        tp = TopicPartition(topic, partition)
        return consumer.end_offsets([tp])[tp]


def retention(admin: KafkaAdminClient, topic: str) -> str:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    return str(admin.describe_configs([resource])[resource]["retention.ms"].value)


def test_topic_created_by_hand_gets_a_leader_and_invalid_znodes_are_ignored(
    node: BrokerProcess, admin: KafkaAdminClient, tree: Any
) -> None:
    tree.create("/brokers/topics/broken", b"not JSON")
    tree.create("/brokers/topics/by-hand", json.dumps({"version": 1, "partitions": {"0": [1]}}).encode())
    eventually(lambda: partitions(admin, "by-hand") == 1)
    state = json.loads(tree.get("/brokers/topics/by-hand/partitions/0/state")[0])
    assert (state["leader"], state["isr"]) == (1, [1])
    tree.create("/admin/delete_topics/by-hand", b"")
    tree.create("/admin/delete_topics/never-was", b"")
    eventually(lambda: tree.get_children("/admin/delete_topics") == [])
    assert partitions(admin, "by-hand") == 0
    tree.delete("/brokers/topics/broken")
