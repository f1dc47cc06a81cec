"""Leadership moves to a paused broker and back, with batches of librdkafka's idempotent producer in flight."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="the load is librdkafka's")
pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from confluent_kafka import Producer
from tests.chaos.cluster import Cluster
from tests.chaos.health import Health
from tests.chaos.peers import PEERS, SESSION_MS
from tests.chaos.reading import read_all

from ottla import KafkaAdminClient, NewTopic
from ottla.client.admin.topics.partitions import ElectionType
from ottla.errors import KafkaError
from ottla.model import TopicPartition

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PEER = PEERS[os.environ.get("OTTLA_CHAOS_PEER", "ottla")]
TOPIC = "race"
RUNNING, PAUSED = 1, 2
SECONDS = 60.0


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_leadership_that_returns_duplicates_no_record_of_librdkafka(tmp_path: Path) -> None:
    reason = PEER.missing()
    if reason is not None:
        pytest.skip(reason)
    with (
        Cluster(tmp_path, PEER).started_in_turn() as cluster,
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin,
    ):
        Health(cluster).wait_for_brokers()
        replicas = {0: [PAUSED, RUNNING], 1: [RUNNING, PAUSED]}
        admin.create_topics([NewTopic(TOPIC, replica_assignments=replicas, topic_configs={"min.insync.replicas": "1"})])
        cluster.brokers[PAUSED].end(signal.SIGTERM)
        cluster.brokers[PAUSED].start()

        def states() -> list[tuple[int, set[int]]]:
            return [(p.leader, set(p.isr)) for p in admin.describe_topics([TOPIC])[TOPIC].partitions]

        eventually(lambda: states() == [(RUNNING, {RUNNING, PAUSED})] * 2)
        fatal: list[str] = []
        failed: list[str] = []
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "request.timeout.ms": 30_000,
                "topic.metadata.refresh.interval.ms": 500,
                "error_cb": lambda error: fatal.append(str(error)) if error.fatal() else None,
                "log_level": 0,
            }
        )

        def produce(partition: int, value: str) -> None:
            producer.produce(
                TOPIC, value, partition=partition, on_delivery=lambda e, _: failed.append(str(e)) if e else None
            )
            producer.poll(0.1)  # so that the next record is in another request

        produce(0, "a0")
        produce(1, "b0")
        assert producer.flush(SECONDS) == 0
        cluster.brokers[PAUSED].signal(signal.SIGSTOP)
        try:
            for partition, value in ((0, "a1"), (0, "a2"), (1, "b1"), (0, "a3")):
                produce(partition, value)
            _elect(admin)
            eventually(
                lambda: states()[0] == (RUNNING, {RUNNING})
            )  # after the session of the paused broker has expired
            time.sleep(SESSION_MS / 1000 / 2)  # for the consequences of the leader changes
        finally:
            cluster.brokers[PAUSED].signal(signal.SIGCONT)
        assert producer.flush(SECONDS) == 0
        assert not fatal
        assert not failed
        eventually(lambda: [isr for _, isr in states()] == [{RUNNING, PAUSED}] * 2)
        contents = read_all(cluster.bootstrap, {TOPIC: 2})
        values = [r.value.decode() for r in sorted(contents.records) if r.tp.partition == 0]
        assert values == ["a0", "a1", "a2", "a3"]


def _elect(admin: KafkaAdminClient) -> None:
    """Elect the paused broker as leader of the first partition, in a thread, since the controller waits for it."""

    def elect() -> None:
        try:
            admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, 0)], 1_000, raise_errors=False)
        except KafkaError:
            return  # it is elected nevertheless, but the request fails

    threading.Thread(target=elect, daemon=True).start()
