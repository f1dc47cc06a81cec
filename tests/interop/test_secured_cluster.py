"""Three brokers on ZooKeeper that speak TLS among themselves, and know each other by their certificates."""

from __future__ import annotations

import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.cli.local_cluster import LocalCluster

from .certified import identities as identities
from .eventually import eventually as until_found

pytestmark = [pytest.mark.interop, pytest.mark.slow]

eventually = partial(until_found, seconds=60.0)
SSL = (
    "listeners=SSL://localhost:{port}\nsecurity.inter.broker.protocol=SSL\nssl.client.auth=required\n"
    "ssl.keystore.type=PEM\nssl.keystore.location={key}\nssl.truststore.type=PEM\nssl.truststore.location={key}\n"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, identities: dict[str, Path]) -> Iterator[LocalCluster]:
    given = {"zookeeper.session.timeout.ms": "2000", "group.initial.rebalance.delay.ms": "0"}
    made = LocalCluster.make(tmp_path_factory.mktemp("cluster"), 3, 0, 0, given)
    for broker in made.brokers:
        with made.properties(broker).open("a") as properties:
            # the last value of a property counts
            properties.write(SSL.format(port=broker.port, key=identities["broker"]))
    made.start_zookeeper()
    try:
        made.start(*made.brokers)
        yield made
    finally:
        for broker in made.brokers:
            made.send(broker, signal.SIGKILL)
        made.send_zookeeper(signal.SIGKILL)


@pytest.fixture
def options(cluster: LocalCluster, identities: dict[str, Path]) -> dict[str, Any]:
    """For clients; nobody but the brokers has a certificate that is known."""
    key = str(identities["broker"])
    servers = ",".join(f"localhost:{broker.port}" for broker in cluster.brokers)
    pem = {"ssl_cafile": key, "ssl_certfile": key, "ssl_keyfile": key}
    return {"bootstrap_servers": servers, "security_protocol": "SSL", **pem}


def in_sync(admin: KafkaAdminClient, topic: str) -> list[set[int]]:
    return [set(p.isr) for p in admin.describe_topics([topic])[topic].partitions]


def test_records_are_on_all_brokers_and_outlive_their_leader(cluster: LocalCluster, options: dict[str, Any]) -> None:
    topic = f"safe-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(**options) as admin, KafkaProducer(**options) as producer:
        admin.create_topics(
            [NewTopic(topic, replica_assignments={p: [(p + i) % 3 for i in range(3)] for p in range(3)})]
        )
        for number in range(300):
            producer.send(topic, b"%d" % number + bytes(10_000), partition=number % 3)
        producer.flush(60)
        eventually(lambda: in_sync(admin, topic) == [{0, 1, 2}] * 3)
        victim = cluster.broker(1)
        cluster.send(victim, signal.SIGKILL)
        for number in range(300, 400):
            producer.send(topic, b"%d" % number + bytes(10_000), partition=number % 3)
        producer.flush(60)
        cluster.start(victim)
        eventually(lambda: in_sync(admin, topic) == [{0, 1, 2}] * 3)
        reading = {"group_id": topic, "auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}
        with KafkaConsumer(topic, **options, **reading) as consumer:
            found = Counter(int(next(consumer).value.rstrip(b"\0")) for _ in range(400))
        assert found == Counter(range(400))


def test_transactions_span_brokers(options: dict[str, Any]) -> None:
    topic = f"tx-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(**options) as admin:
        admin.create_topics([NewTopic(topic, 6, 3)])
    with KafkaProducer(**options, transactional_id=topic) as producer:
        producer.init_transactions()
        for commits in (True, False, True):
            producer.begin_transaction()
            for number in range(60):
                producer.send(topic, b"%d" % commits, partition=number % 6)
            (producer.commit_transaction if commits else producer.abort_transaction)()
    reading = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}
    with KafkaConsumer(topic, **options, **reading) as consumer:
        assert [next(consumer).value for _ in range(120)] == [b"1"] * 120
