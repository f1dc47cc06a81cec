"""The data directory of a whole node moves from Ottla to Apache Kafka and back: records, groups, transactions, configs.

CI stops one version of Kafka and kills the other; `OTTLA_EXCHANGES=all` does both with both.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import apache_kafka
from tests.interop.kafka_jars import kafka
from tests.interop.kafka_on_zookeeper import WITH_ZOOKEEPER, kafka_on_zookeeper, kafka_or_skip

from ottla import Broker
from ottla.cli.main import main as ottla
from ottla.net.ports import free_port
from ottla.zookeeper_server import ZooKeeperServer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ENDINGS = [(WITH_ZOOKEEPER, False), (apache_kafka.VERSION, True)]
"""Versions of Kafka, and whether the node is killed."""
if os.environ.get("OTTLA_EXCHANGES") == "all":
    ENDINGS = list(itertools.product((WITH_ZOOKEEPER, apache_kafka.VERSION), (False, True)))
Record = Callable[[str, str, str, list[str]], None]


class Workload:
    """The requests of clients on a node, and the data expected on the next one."""

    def __init__(self) -> None:
        self.rdkafka: Any = pytest.importorskip("confluent_kafka")
        self.admin: Any = pytest.importorskip("confluent_kafka.admin")
        self.values: set[bytes] = set()
        self.committed: dict[int, int] = {}
        self.rounds = 0

    def set_up(self, bootstrap: str) -> None:
        admin = self.admin.AdminClient({"bootstrap.servers": bootstrap})
        topics = [
            self.admin.NewTopic("t", 3, 1, config={"retention.ms": "-1", "segment.bytes": "1048576"}),
            self.admin.NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"}),
        ]
        for done in admin.create_topics(topics).values():
            done.result(30)
        info = self.admin.ScramCredentialInfo(self.admin.ScramMechanism.SCRAM_SHA_256, 8192)
        change = self.admin.UserScramCredentialUpsertion("alice", info, b"secret")
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(30)

    def run_round(self, bootstrap: str) -> None:
        """Send records in all codecs, commit, abort and leave open transactions, and commit group offsets."""
        self.rounds += 1
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            producer = self.rdkafka.Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
            self.send(producer, f"{codec}", 200)
            assert producer.flush(30) == 0
        producer = self.transactional(bootstrap, "steady")
        for number in range(4):
            producer.begin_transaction()
            self.send(producer, f"tx{number}", 50, counts=number % 2 == 0)
            # librdkafka may abort before the partitions are in the transaction, which is a fatal error with Kafka
            assert producer.flush(30) == 0
            if number % 2 == 0:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
        self.commit_offsets(bootstrap)
        left = self.transactional(bootstrap, "left-open")
        left.begin_transaction()
        self.send(left, "open", 50, counts=False)
        left.flush(30)

    def transactional(self, bootstrap: str, transactional_id: str) -> Any:
        producer = self.rdkafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
        producer.init_transactions(30)
        return producer

    def send(self, producer: Any, what: str, count: int, *, counts: bool = True) -> None:
        for i in range(count):
            value = b"%d-%s-%d-%s" % (self.rounds, what.encode(), i, b"x" * (i % 500))
            producer.produce("t", value, key=b"k%d" % (i % 30))
            producer.poll(0)
            if counts:
                self.values.add(value)

    def commit_offsets(self, bootstrap: str) -> None:
        consumer = self.consumer(bootstrap, "steady-group")
        self.committed = {p: self.rounds * 10 + p for p in range(3)}
        offsets = [self.rdkafka.TopicPartition("t", p, offset, "noted") for p, offset in self.committed.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()

    def read_committed(self, consumer: Any, partitions: list[Any]) -> list[Any]:
        """Return the committed offsets. A node that has just started may not be the group's coordinator yet, which
        librdkafka handles for commits, but not for `committed`.
        """
        deadline = time.monotonic() + 30
        while True:
            try:
                committed: list[Any] = consumer.committed(partitions, 30)
                return committed
            except self.rdkafka.KafkaException as error:
                not_coordinator = error.args[0].code() == self.rdkafka.KafkaError.NOT_COORDINATOR
                if not not_coordinator or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def consumer(self, bootstrap: str, group: str) -> Any:
        return self.rdkafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )

    def check(self, bootstrap: str) -> list[str]:
        """Check all data, and return what was checked."""
        self.transactional(bootstrap, "left-open")  # fences the producer, which aborts the open transaction
        consumer = self.consumer(bootstrap, "steady-group")
        partitions = [self.rdkafka.TopicPartition("t", p) for p in range(3)]
        committed = {tp.partition: (tp.offset, tp.metadata) for tp in self.read_committed(consumer, partitions)}
        assert committed == {p: (offset, "noted") for p, offset in self.committed.items()}
        consumer.assign([self.rdkafka.TopicPartition("t", p, 0) for p in range(3)])
        values: list[bytes] = []
        deadline = time.monotonic() + 60
        while len(values) < len(self.values) and time.monotonic() < deadline:
            values += [message.value() for message in consumer.consume(1000, 0.5) if message.error() is None]
        consumer.close()
        assert len(values) == len(set(values)) == len(self.values)
        assert set(values) == self.values
        self.check_configs(bootstrap)
        producer = self.transactional(bootstrap, "steady")
        producer.begin_transaction()
        self.rounds += 1
        self.send(producer, "next", 10)
        producer.commit_transaction(30)
        return [
            "records",
            "committed and aborted transactions",
            "offsets",
            "transactional ids go on",
            "options",
            "SCRAM",
        ]

    def check_configs(self, bootstrap: str) -> None:
        admin = self.admin.AdminClient({"bootstrap.servers": bootstrap})
        resource = self.admin.ConfigResource(self.admin.ConfigResource.Type.TOPIC, "t")
        options = admin.describe_configs([resource])[resource].result(30)
        assert options["retention.ms"].value == "-1"
        users = admin.describe_user_scram_credentials(["alice"])["alice"].result(30)
        assert [c.iterations for c in users.scram_credential_infos] == [8192]


@contextlib.contextmanager
def ours(data: Path) -> Iterator[str]:
    with Broker(
        {"transaction.state.log.num.partitions": 50, "offsets.topic.num.partitions": 50}, data_dir=data
    ) as node:
        yield node.bootstrap_servers


def test_node_moves_from_ottla_to_kafka_on_zookeeper_and_back(tmp_path: Path, compatibility: Record) -> None:
    kafka_or_skip(WITH_ZOOKEEPER)
    pytest.importorskip("kazoo")
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    data, work = tmp_path / "data", Workload()
    with ours(data) as bootstrap:
        work.set_up(bootstrap)
        work.run_round(bootstrap)
    with ZooKeeperServer(tmp_path / "zookeeper") as zookeeper:
        connect = f"{zookeeper.connect}/kafka"
        assert ottla(["registry", "export", "--data", str(data), "--zookeeper", connect]) == 0
        with kafka_on_zookeeper(tmp_path, connect) as bootstrap:
            seen = work.check(bootstrap)
            compatibility("Apache Kafka", WITH_ZOOKEEPER, "takes over our data directory (ZooKeeper)", seen)
            work.run_round(bootstrap)
        (data / "registry.sqlite").unlink()
        assert ottla(["registry", "import", "--data", str(data), "--zookeeper", connect]) == 0
    with ours(data) as bootstrap:
        seen = work.check(bootstrap)
        compatibility("Apache Kafka", WITH_ZOOKEEPER, "its data directory is taken over (ZooKeeper)", seen)


@pytest.mark.parametrize(("version", "kill"), ENDINGS)
def test_node_moves_from_kafka_on_kraft_to_ottla_and_back(
    tmp_path: Path, compatibility: Record, version: str, kill: bool
) -> None:
    kafka_or_skip(version)
    port, work = free_port(in_a_row=2), Workload()
    with kafka(tmp_path, port, kill=kill, version=version) as bootstrap:
        work.set_up(bootstrap)
        work.run_round(bootstrap)
        work.check(bootstrap)
    with ours(tmp_path / "log") as bootstrap:
        seen = work.check(bootstrap)
        compatibility("Apache Kafka", version, "its data directory is taken over (KRaft)", seen)
        work.run_round(bootstrap)
    with kafka(tmp_path, port, version=version) as bootstrap:
        compatibility("Apache Kafka", version, "takes its own back after us (KRaft)", work.check(bootstrap))
