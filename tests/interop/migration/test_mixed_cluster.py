"""Brokers of Ottla and Apache Kafka 3.9 in one cluster on one ZooKeeper: either is controller, leader and follower.

Takes a minute of two cores, so it runs only if OTTLA_MIXED_CLUSTER is set.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from tests.chaos.cluster import BROKERS, Cluster
from tests.chaos.peers import KAFKA_VERSION, OPTIONS, PEERS
from tests.chaos.tree import ZooKeeperTree
from tests.interop.eventually import eventually as until_found

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.skipif("OTTLA_MIXED_CLUSTER" not in os.environ, reason="OTTLA_MIXED_CLUSTER=1 runs it"),
]

SECONDS = 90.0
eventually = partial(until_found, seconds=SECONDS)
TOPIC = "mixed"
PARTITIONS = 3
COUNT = 600


@pytest.mark.parametrize(
    ("kinds", "victim"),
    [(("ottla", "kafka", "ottla"), 2), (("kafka", "ottla", "ottla"), 2)],
    ids=["ottla is the controller", "kafka is the controller"],
)
def test_ottla_and_kafka_brokers_replicate_each_other_and_recover_from_a_kill(
    kinds: tuple[str, ...], victim: int, tmp_path: Path, compatibility: Callable[[str, str, str, list[str]], None]
) -> None:
    reason = PEERS["kafka"].missing()
    if reason is not None:
        pytest.skip(reason)
    cluster = Cluster(tmp_path, PEERS["ottla"], {**OPTIONS, "apache.kafka.brokers.enable": "true"})
    for broker, kind in zip(cluster.brokers.values(), kinds, strict=True):
        broker.peer = PEERS[kind]
    with cluster.started_in_turn():
        tree = ZooKeeperTree(str(cluster.tree))
        eventually(lambda: not tree.missing())
        assert tree.controller() == 1
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
            layout = {p: [*BROKERS[p:], *BROKERS[:p]] for p in range(PARTITIONS)}
            admin.create_topics([NewTopic(TOPIC, replica_assignments=layout)])
        eventually(lambda: not tree.missing() and len(tree.leaders(TOPIC)) == PARTITIONS)
        assert set(tree.leaders(TOPIC).values()) == set(BROKERS)
        with KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
            send(producer, 0)
            cluster.brokers[victim].end(signal.SIGKILL)
            send(producer, COUNT)
            cluster.brokers[victim].start()
            eventually(lambda: not tree.missing())
            send(producer, 2 * COUNT)
        reading: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}
        with KafkaConsumer(TOPIC, bootstrap_servers=cluster.bootstrap, **reading) as consumer:
            result = Counter(int(next(consumer).value) for _ in range(3 * COUNT))
        assert result == Counter(range(3 * COUNT))
        tree.close()
        cluster.stop_brokers()
        for partition in range(PARTITIONS):
            copies = {content(broker.data / f"{TOPIC}-{partition}") for broker in cluster.brokers.values()}
            assert len(copies) == 1, f"the replicas of partition {partition} differ"
    what = ["one cluster with our brokers", f"{kinds[0]} is the controller"]
    compatibility("Apache Kafka's broker", KAFKA_VERSION, "mixed clusters", what)


def send(producer: KafkaProducer, first: int) -> None:
    sent = [producer.send(TOPIC, b"%d" % n, partition=n % PARTITIONS) for n in range(first, first + COUNT)]
    for future in sent:
        future.get(SECONDS)


def content(log: Path) -> bytes:
    return b"".join(segment.read_bytes() for segment in sorted(log.glob("*.log")))
