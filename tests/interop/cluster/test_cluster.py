"""Three brokers on a real ZooKeeper: the example of 0.8, Kafka's tools and clients, failover, and reassignment."""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scripts import apache_kafka

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from tests.interop.eventually import eventually as until_found
from tests.interop.kafka_on_zookeeper import WITH_ZOOKEEPER, kafka_or_skip
from tests.interop.old_members import JavaMember, options
from tests.unit.broker.authorization import codes, with_items

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, RecordMetadata
from ottla.broker.apis import SUPPORTED_APIS
from ottla.cli.cluster.local_cluster import LocalCluster
from ottla.cli.main import main as ottla
from ottla.cluster.interbroker.membership_proof import prove
from ottla.errors import (
    ClusterAuthorizationFailedError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)
from ottla.net.client.channel import Channel
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

pytestmark = [pytest.mark.interop, pytest.mark.slow]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "legacy" / "page_visits.py"
SESSION_MS = 2_000
SECONDS = 60.0
eventually = partial(until_found, seconds=SECONDS)
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
Record = Callable[[str, str, str, list[str]], None]
TOOLS = "org.apache.kafka.tools."
PRODUCER = "kafka.tools.ConsoleProducer"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    options = {"zookeeper.session.timeout.ms": str(SESSION_MS), "group.initial.rebalance.delay.ms": "0"}
    made = LocalCluster.create(tmp_path_factory.mktemp("cluster"), 3, 0, 0, options)
    for broker in made.brokers:
        with made.properties(broker).open("a") as properties:
            properties.write(f"broker.rack=rack-{broker.id}\nreplica.selector.class={RACK_AWARE}\n")
    made.start_zookeeper()
    try:
        made.start(*made.brokers)
        yield made
    finally:
        for broker in made.brokers:
            made.send(broker, signal.SIGKILL)
        made.send_zookeeper(signal.SIGKILL)


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as made:
        yield made


def in_sync(admin: KafkaAdminClient, topic: str) -> list[set[int]]:
    return [set(p.isr) for p in admin.describe_topics([topic])[topic].partitions]


def tool(cluster: LocalCluster, name: str, *arguments: str, text: str | None = None) -> str:
    """Run a tool of Apache Kafka 3.9 and return its output."""
    kafka_or_skip(WITH_ZOOKEEPER)
    arguments = ("--bootstrap-server", cluster.bootstrap_servers, *arguments)
    if text is None:
        done = apache_kafka.tool(name, *arguments, version=WITH_ZOOKEEPER)
    else:
        command = apache_kafka.java(name, *arguments, version=WITH_ZOOKEEPER)
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_page_visits_example_of_0_8_runs_unmodified(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    zookeeper = ("--zookeeper", cluster.zookeeper_connect)
    created = ["create-topic", "--topic", "page_visits", "--replica", "3", *zookeeper, "--partition", "5"]
    assert ottla(created) == 0
    subprocess.run([sys.executable, EXAMPLE, "100", cluster.bootstrap_servers], check=True, timeout=60)
    capsys.readouterr()
    reading = [*zookeeper, "--topic", "page_visits", "--from-beginning", "--max-messages", "100"]
    assert ottla(["console-consumer", *reading]) == 0
    visits = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert len(visits) == 100
    assert all(site == "www.example.com" and ip.startswith("192.168.2.") for _, site, ip in visits)
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        assert len(consumer.partitions_for_topic("page_visits") or ()) == 5


def test_tools_of_kafka_3_9_create_write_read_reassign_and_elect(
    cluster: LocalCluster, tmp_path: Path, compatibility: Record
) -> None:
    topic = f"tools-{uuid.uuid4().hex[:8]}"
    tool(cluster, TOOLS + "TopicCommand", "--create", "--topic", topic, "--replica-assignment", "0:1,1:2,2:0")
    lines = [f"line {i}" for i in range(500)]
    tool(cluster, PRODUCER, "--topic", topic, text="\n".join(lines) + "\n")
    plan, moved = tmp_path / "plan.json", [[1, 2], [2, 0], [0, 1]]
    partitions = [{"topic": topic, "partition": i, "replicas": replicas} for i, replicas in enumerate(moved)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    reassign = (TOOLS + "reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(plan))
    tool(cluster, reassign[0], *reassign[1:], "--execute")
    eventually(lambda: "is still in progress" not in tool(cluster, reassign[0], *reassign[1:], "--verify"))
    tool(cluster, TOOLS + "LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    described = tool(cluster, TOOLS + "TopicCommand", "--describe", "--topic", topic)
    leaders = re.findall(r"Partition: (\d)\s+Leader: (\d)\s+Replicas: (\S+)\s+Isr: (\S+)", described)
    assert [(int(p), int(leader), replicas) for p, leader, replicas, _ in leaders] == [
        (0, 1, "1,2"),
        (1, 2, "2,0"),
        (2, 0, "0,1"),
    ]
    read = tool(
        cluster, TOOLS + "consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", "500"
    )
    assert sorted(read.splitlines()) == sorted(lines)
    tools = ["ReassignPartitionsCommand", "LeaderElectionCommand"]
    compatibility("Kafka's tools", WITH_ZOOKEEPER, "three brokers", tools)


def test_consumer_of_0_8_2_continues_after_leader_failover(
    cluster: LocalCluster, admin: KafkaAdminClient, tmp_path: Path, compatibility: Record
) -> None:
    topic = f"old-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(topic, replica_assignments={0: [1, 2, 0], 1: [2, 1, 0]})])
    member = JavaMember(options(cluster.zookeeper_connect, topic, "java"), topic, tmp_path)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=number % 2).get(60)
        eventually(lambda: len(member.seen()) >= 100)
        victim = cluster.broker(1)
        cluster.send(victim, signal.SIGKILL)
        for number in range(100, 200):
            producer.send(topic, b"%d" % number, partition=number % 2).get(60)
    eventually(lambda: len({message for *_, message in member.seen()}) == 200)
    member.close()
    assert Counter(message for *_, message in member.seen()).most_common(1)[0][1] == 1
    cluster.start(victim)
    eventually(lambda: in_sync(admin, topic) == [{0, 1, 2}] * 2)
    compatibility("Java", "0.8.2.2", "three brokers", ["high-level consumer across a failover"])


def test_controlled_shutdown_causes_no_error_in_idempotent_producer(
    cluster: LocalCluster, admin: KafkaAdminClient
) -> None:
    topic = f"rolling-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(topic, 3, 3)])
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        for round_, broker in enumerate(cluster.brokers):
            for number in range(50):
                producer.send(topic, b"%d" % (100 * round_ + number), partition=number % 3)
            cluster.stop(broker)
            for number in range(50, 100):
                producer.send(topic, b"%d" % (100 * round_ + number), partition=number % 3)
            producer.flush(60)
            cluster.start(broker)
            eventually(lambda: in_sync(admin, topic) == [{0, 1, 2}] * 3)
    reading: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
    with KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, **reading) as consumer:
        values = Counter(int(next(consumer).value) for _ in range(300))
    assert values == Counter(range(300))


def test_reassignment_of_fifty_partitions_under_load_respects_the_throttle(
    cluster: LocalCluster, admin: KafkaAdminClient, tmp_path: Path
) -> None:
    topic, count, rate = f"move-{uuid.uuid4().hex[:8]}", 50, 1_000_000
    admin.create_topics([NewTopic(topic, replica_assignments={p: [p % 2, 1 - p % 2] for p in range(count)})])
    value = random.Random(1).randbytes(10_000)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(8 * count):
            producer.send(topic, value, partition=number % count)
        producer.flush(60)
        plan = tmp_path / "plan.json"
        partitions = [{"topic": topic, "partition": p, "replicas": [2, p % 2]} for p in range(count)]
        plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
        command = (TOOLS + "reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(plan))
        began = time.monotonic()
        tool(cluster, *command, "--execute", "--throttle", str(rate))
        sent: list[RecordMetadata] = []
        while any(len(p.replicas) != 2 for p in admin.describe_topics([topic])[topic].partitions):
            sent.append(producer.send(topic, b"%d" % len(sent), partition=len(sent) % count).get(30))
            assert time.monotonic() - began < SECONDS, "the reassignment is not complete"
        took = time.monotonic() - began
        producer.flush(60)
    assert sent
    assert 8 * count * len(value) / took < 1.2 * rate, "the throttle was exceeded"
    tool(cluster, *command, "--verify")
    described = admin.describe_topics([topic])[topic].partitions
    assert [[int(getattr(r, "id", r)) for r in p.replicas] for p in described] == [[2, p % 2] for p in range(count)]
    reading: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
    with KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, **reading) as consumer:
        result = Counter(next(consumer).value for _ in range(8 * count + len(sent)))
    assert result == Counter({value: 8 * count}) + Counter(b"%d" % number for number in range(len(sent)))


def test_inter_broker_requests_of_clients_are_rejected(cluster: LocalCluster, admin: KafkaAdminClient) -> None:
    topic = f"refused-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(topic, replica_assignments={0: [0, 1, 2]})])

    async def check(broker: int) -> None:
        port = cluster.broker(broker).port

        channel = Channel(asyncio.get_running_loop(), "127.0.0.1", port, client_id=f"broker-{broker}")
        await channel.connect()
        for row in (row for row in SUPPORTED_APIS if row.inter_broker_since is not None):
            version = row.versions(in_cluster=True)[-1]
            response = await channel.send(with_items(row.api.request, version), version, 10)
            assert codes(response) == {ClusterAuthorizationFailedError.code}, row.name
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
        topics = [FetchTopic(topic=topic, partitions=[partition])]
        for replica_id in range(3):
            fetched = await channel.send(FetchRequest(replica_id=replica_id, max_wait_ms=0, topics=topics), 11, 10)
            assert fetched.responses[0].partitions[0].error_code == TopicAuthorizationFailedError.code
        with pytest.raises(SaslAuthenticationFailedError):
            await prove(channel, b"guess" * 8, 10)
        channel.close()

    for broker in cluster.brokers:
        asyncio.run(check(broker.id))
    eventually(lambda: in_sync(admin, topic) == [{0, 1, 2}])


def test_consumer_is_redirected_to_the_replica_in_its_rack(cluster: LocalCluster, admin: KafkaAdminClient) -> None:
    topic = f"rack-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(topic, replica_assignments={0: [0, 1, 2]})])
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        last = [producer.send(topic, b"%d" % number) for number in range(10)][-1]
        last.get(30)

    async def fetch(broker: int, offset: int) -> PartitionData:
        expected = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
        request = FetchRequest(
            max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[expected])], rack_id="rack-2"
        )
        port = cluster.broker(broker).port
        channel = Channel(asyncio.get_running_loop(), "127.0.0.1", port, client_id="far")
        await channel.connect()
        response = await channel.send(request, 11, 10)
        channel.close()
        return response.responses[0].partitions[0]

    eventually(lambda: asyncio.run(fetch(0, 0)).preferred_read_replica == 2)
    eventually(lambda: asyncio.run(fetch(2, 0)).high_watermark == 10)
    near = asyncio.run(fetch(2, 0))
    assert near.records is not None
    assert near.records.nbytes
    beyond = asyncio.run(fetch(2, 11))
    assert beyond.error_code == OffsetOutOfRangeError.code
