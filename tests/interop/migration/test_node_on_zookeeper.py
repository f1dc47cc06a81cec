"""One broker on a real ZooKeeper: its znodes equal those of Apache Kafka 3.9, and it survives crashes of either."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from scripts import apache_kafka
from tests.crash.process import BrokerProcess
from tests.interop.eventually import eventually
from tests.interop.kafka_on_zookeeper import WITH_ZOOKEEPER, kafka_on_zookeeper
from tests.interop.node_fields import comparable

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from ottla import ConfigResource, ConfigResourceType, KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.cli.main import main
from ottla.cluster.store.store_export import read_tree
from ottla.cluster.store.zk_client import ZkClient
from ottla.errors import TopicAlreadyExistsError, UnknownServerError
from ottla.zookeeper_server import ZooKeeperServer

pytestmark = pytest.mark.interop

SESSION_MS = 2_000
SECONDS = 30.0
OF_ONE_RUN = {"timestamp", "topic_id", "id", "port", "host", "endpoints", "block_start", "block_end"}
"""Fields whose values differ from run to run."""


def broker(zookeeper: ZooKeeperServer, chroot: str, data: Path, session_ms: int = SESSION_MS) -> BrokerProcess:
    options: dict[str, Any] = {"broker.id": 0, "zookeeper.connect": f"{zookeeper.connect}/{chroot}"}
    timeouts: dict[str, Any] = {"zookeeper.session.timeout.ms": session_ms, "group.initial.rebalance.delay.ms": 0}
    return BrokerProcess(data, **options, **timeouts)


def send(bootstrap: str, *values: bytes) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send("t", value).get(30)


def read(bootstrap: str, count: int) -> list[bytes]:
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 10_000}
    with KafkaConsumer("t", bootstrap_servers=bootstrap, **options) as consumer:
        return [next(consumer).value for _ in range(count)]


def test_killed_broker_registers_again_after_session_expiry(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    with broker(zookeeper, "killed", tmp_path) as node:
        send(node.bootstrap, b"1", b"2")
        node.kill()
        (tmp_path / "zookeeper-session").unlink()  # as if Kafka had run here
        node.start()  # the ephemeral znodes of the killed process exist until their session expires
        send(node.bootstrap, b"3")
        assert read(node.bootstrap, 3) == [b"1", b"2", b"3"]
        assert node.stop() == 0


def test_killed_broker_restarts_without_waiting_for_session_expiry(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    session_ms = 60_000
    with broker(zookeeper, "at-once", tmp_path, session_ms) as node:
        send(node.bootstrap, b"1")
        for again in (b"2", b"3"):
            node.kill()
            began = time.monotonic()
            node.start()
            send(node.bootstrap, again)
            assert time.monotonic() - began < session_ms / 1000 / 2
        assert read(node.bootstrap, 3) == [b"1", b"2", b"3"]
        assert (tmp_path / "zookeeper-session").stat().st_mode & 0o077 == 0
        assert node.stop() == 0
        assert not (tmp_path / "zookeeper-session").exists()


def test_second_start_on_a_locked_directory_leaves_the_registration(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    with broker(zookeeper, "again", tmp_path) as node, ZkClient(f"{zookeeper.connect}/again") as zk:
        before = zk.run(zk.store.get("/brokers/ids/0"))
        with pytest.raises(AssertionError, match=r"log\.dirs: .* in use"):
            broker(zookeeper, "again", tmp_path).start()
        send(node.bootstrap, b"1")
        assert zk.run(zk.store.get("/brokers/ids/0")) == before


def test_second_broker_with_the_same_id_is_rejected(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    with broker(zookeeper, "twice", tmp_path / "a") as node:
        with pytest.raises(AssertionError, match=r"/brokers/ids/0 belongs to another running broker.*broker\.id"):
            broker(zookeeper, "twice", tmp_path / "b").start()
        send(node.bootstrap, b"1")


def test_topics_can_be_created_after_a_zookeeper_outage(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    with broker(zookeeper, "away", tmp_path) as node:
        send(node.bootstrap, b"1")
        zookeeper.kill()
        send(node.bootstrap, b"2")  # needs no metadata change
        zookeeper.start()
        with KafkaAdminClient(bootstrap_servers=node.bootstrap) as admin:
            eventually(lambda: creates(admin, "made-later"), SECONDS)
        assert read(node.bootstrap, 2) == [b"1", b"2"]
        tree = read_tree(f"{zookeeper.connect}/away")
        assert "/brokers/topics/made-later/partitions/1/state" in tree


def creates(admin: KafkaAdminClient, topic: str) -> bool:
    """Return whether the topic exists after an attempt to create it; the broker may still be waiting for ZooKeeper."""
    try:
        admin.create_topics([NewTopic(topic, 2, 1)])
    except UnknownServerError:
        return False
    except TopicAlreadyExistsError:
        pass
    return True


def test_metadata_import_from_a_missing_chroot_is_an_error(
    zookeeper: ZooKeeperServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connect = f"{zookeeper.connect}/nowhere"
    assert main(["registry", "import", "--data", str(tmp_path), "--zookeeper", connect]) == 1
    assert f"{connect}: the chroot does not exist" in capsys.readouterr().err


@pytest.mark.slow
def test_znodes_of_one_broker_equal_those_of_apache_kafka(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    reason = apache_kafka.missing(WITH_ZOOKEEPER)
    if reason is not None:
        pytest.skip(reason)
    with broker(zookeeper, "ours", tmp_path / "ours") as node:
        change_metadata(node.bootstrap)
        ours = fields(zookeeper, "ours")
    (tmp_path / "theirs").mkdir()
    with kafka_on_zookeeper(tmp_path / "theirs", f"{zookeeper.connect}/theirs") as bootstrap:
        change_metadata(bootstrap)
        theirs = fields(zookeeper, "theirs")
    for path in LEFT_OUT:
        ours.pop(path, None)
        theirs.pop(path, None)
    assert ours == theirs


LEFT_OUT = (
    "/cluster/secret",  # our brokers authenticate each other with it
    "/config/groups",  # Kafka has these with KRaft only
    "/config/client-metrics",
    "/feature",  # if absent, features have their highest level; Kafka 3.9 has none with ZooKeeper
)
PENDING_DELETIONS = "/admin/delete_topics/"


def change_metadata(bootstrap: str) -> None:
    """Create topics with and without configs, add partitions, delete a topic, and alter a config of a broker."""
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("plain", 2, 1), NewTopic("tuned", 1, 1, topic_configs={"retention.ms": "1000"})])
        admin.create_partitions({"plain": 3})
        admin.create_topics([NewTopic("gone", 1, 1)])
        admin.delete_topics(["gone"])
        admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, "0", {"log.cleaner.threads": "2"})])


def fields(zookeeper: ZooKeeperServer, chroot: str) -> dict[str, Any]:
    """Return the znodes after all deletions are complete, without the fields that differ from run to run."""
    deadline = time.monotonic() + 30
    while any(path.startswith(PENDING_DELETIONS) for path in read_tree(f"{zookeeper.connect}/{chroot}")):
        assert time.monotonic() < deadline, "a topic is still being deleted"
        time.sleep(0.05)
    return {path: comparable(value, OF_ONE_RUN) for path, value in read_tree(f"{zookeeper.connect}/{chroot}").items()}
