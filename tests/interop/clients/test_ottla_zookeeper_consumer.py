"""Our 0.8 consumer, with its group in ZooKeeper: with our broker and Apache Kafka 3.9, beside Java's of 0.8.2."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from tests.how_to.pages import run_page
from tests.interop.kafka_on_zookeeper import kafka_on_zookeeper, kafka_or_skip
from tests.interop.old_members import JavaMember, OurMember, Seen, options, seen
from tests.interop.steady import new_topic
from tests.unit.docs.code_blocks import DOCS

from ottla import Broker, KafkaProducer
from ottla.cli.main import main as ottla
from ottla.cluster.store import znodes
from ottla.legacy import (
    Consumer,
    ConsumerConfig,
    ConsumerMetadataRequest,
    ConsumerTimeoutException,
    OffsetFetchRequest,
    SimpleConsumer,
    TopicPartition,
    Whitelist,
    ZkClient,
)
from ottla.zookeeper_server import ZooKeeperServer

pytestmark = pytest.mark.interop

KAFKA = "3.9.2"
PARTITIONS = 4
SECONDS = 30.0


class Cluster:
    """A broker on ZooKeeper, and a client for its znodes."""

    def __init__(self, connect: str, bootstrap: str, zk: ZkClient) -> None:
        self.connect = connect
        self.bootstrap = bootstrap
        self.zk = zk

    def topic(self) -> str:
        return new_topic(self.bootstrap, PARTITIONS, "old")

    def send(self, topic: str, first: int, count: int) -> set[str]:
        with KafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=0) as producer:
            for number in range(first, first + count):
                producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        return {str(number) for number in range(first, first + count)}

    def owners(self, group: str, topic: str) -> dict[int, str]:
        records = {int(p): self.zk.get(znodes.consumer_owner(group, topic, int(p))) for p in self.owned(group, topic)}
        return {p: raw.decode() for p, raw in records.items() if raw is not None}

    def owned(self, group: str, topic: str) -> list[str]:
        return self.zk.children(znodes.consumer_owners(group, topic))


@pytest.fixture(scope="module")
def kafkas(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kafka_or_skip(KAFKA)
    connect = f"{zookeeper.connect}/kafkas"
    with kafka_on_zookeeper(tmp_path_factory.mktemp("kafka"), connect) as bootstrap, ZkClient(connect) as zk:
        yield Cluster(connect, bootstrap, zk)


@pytest.fixture(scope="module")
def ours(zookeeper: ZooKeeperServer) -> Iterator[Cluster]:
    connect = f"{zookeeper.connect}/ours"
    with Broker({"zookeeper.connect": connect}) as broker, ZkClient(connect) as zk:
        yield Cluster(connect, broker.bootstrap_servers, zk)


@pytest.fixture(scope="module", params=["kafkas", "ours"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    fixture: Cluster = request.getfixturevalue(request.param)
    return fixture


def until(condition: Callable[[], object], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def until_owned(cluster: Cluster, group: str, topic: str, owners: dict[int, str]) -> None:
    until(lambda: cluster.owners(group, topic) == owners, lambda: cluster.owners(group, topic))


def texts(messages: list[Seen]) -> list[str]:
    return [message for _, _, message in messages]


def test_group_of_ottla_and_java_members_rebalances_and_resumes(cluster: Cluster, tmp_path: Path) -> None:
    topic = group = cluster.topic()
    reported = cluster.send(topic, 0, 40)
    with contextlib.ExitStack() as stack:
        java = JavaMember(options(cluster.connect, group, "b"), topic, tmp_path)
        stack.callback(java.kill)
        until(lambda: len(java.seen()) == 40, java.seen)
        ours = OurMember(options(cluster.connect, group, "a"), topic, threads=2)
        stack.callback(ours.close)
        # two threads of ours, one of Java's: the first thread has one partition more
        until_owned(
            cluster, group, topic, {p: f"{group}_{owner}" for p, owner in enumerate(("a-0", "a-0", "a-1", "b-0"))}
        )
        reported |= cluster.send(topic, 40, 40)
        until(lambda: len(ours.seen()) + len(java.seen()) >= 80, lambda: (ours.seen(), java.seen()))
        assert sorted(texts(ours.seen()) + texts(java.seen())) == sorted(reported)
        assert {p for p, _, _ in ours.seen()} == {0, 1, 2}
        check_registrations(cluster, group, topic)
        assert java.process.stdin is not None
        java.process.stdin.write(b"\n")  # commit
        java.process.stdin.flush()
        until(lambda: cluster.zk.get(znodes.consumer_offset(group, topic, 3)) == b"20", java.seen)
        java.kill()
        until_owned(cluster, group, topic, {p: f"{group}_a-{p // 2}" for p in range(PARTITIONS)})
        reported |= cluster.send(topic, 80, 40)
        until(lambda: len(ours.seen()) + len(java.seen()) >= 120, ours.seen)
        assert sorted(texts(ours.seen()) + texts(java.seen())) == sorted(reported)
        # and back: the Java member resumes from the offsets of ours
        ours.close()
        assert cluster.owners(group, topic) == {}
        cluster.send(topic, 120, 8)
        java = JavaMember(options(cluster.connect, group, "c"), topic, tmp_path)
        stack.callback(java.kill)
        until(lambda: len(java.seen()) >= 8, java.seen)
        assert sorted(texts(java.seen())) == sorted(str(n) for n in range(120, 128))


def check_registrations(cluster: Cluster, group: str, topic: str) -> None:
    """Check that both members' registrations are equal, except for the threads and the time."""
    names = cluster.zk.children(znodes.consumer_ids(group))
    assert names == [f"{group}_a", f"{group}_b"]
    raw = [cluster.zk.get(znodes.consumer_id(group, name)) for name in names]
    ours, java = (json.loads(value or b"") for value in raw)
    assert ours.keys() == java.keys()
    assert abs(int(ours.pop("timestamp")) - int(java.pop("timestamp"))) < 60_000
    assert (ours.pop("subscription"), java.pop("subscription")) == ({topic: 2}, {topic: 1})
    assert ours == java == {"version": 1, "pattern": "static"}


def test_threads_without_a_partition_wait_until_members_leave(ours: Cluster) -> None:
    topic = group = ours.topic()
    ours.send(topic, 0, 8)
    with contextlib.ExitStack() as stack:
        members = []
        for name in ("a", "b", "c"):
            members.append(OurMember(options(ours.connect, group, name), topic, threads=2))
            stack.callback(members[-1].close)
        until_owned(ours, group, topic, {p: f"{group}_{owner}" for p, owner in enumerate(("a-0", "a-1", "b-0", "b-1"))})
        assert members[2].connector.owned == {}
        members[0].close()
        until_owned(ours, group, topic, {p: f"{group}_{owner}" for p, owner in enumerate(("b-0", "b-1", "c-0", "c-1"))})
        ours.send(topic, 8, 8)
        until(lambda: sum(len(m.seen()) for m in members) >= 16, lambda: [m.seen() for m in members])
        assert sorted(int(t) for m in members for t in texts(m.seen())) == list(range(16))
        assert members[2].seen()


def test_consumer_rejoins_after_session_expiry(ours: Cluster) -> None:
    from kazoo.client import KazooClient

    topic = group = ours.topic()
    member = OurMember(options(ours.connect, group, "a"), topic)
    with contextlib.closing(member):
        before = ours.zk.get(znodes.consumer_id(group, f"{group}_a"))
        client = member.connector._zk.store._client
        assert client is not None
        thief = KazooClient(ours.connect.partition("/")[0], client_id=client.client_id)
        thief.start()
        thief.stop()
        thief.close()
        until(
            lambda: ours.zk.get(znodes.consumer_id(group, f"{group}_a")) not in (before, None),
            lambda: "not registered again",
        )
        until_owned(ours, group, topic, dict.fromkeys(range(PARTITIONS), f"{group}_a-0"))
        ours.send(topic, 0, 8)
        until(lambda: len(member.seen()) >= 8, member.seen)


def test_dual_commit_stores_offsets_in_kafka_and_zookeeper(cluster: Cluster) -> None:
    topic = group = cluster.topic()
    cluster.send(topic, 0, 8)
    dual = {"offsets.storage": "kafka", "auto.commit.enable": "false", "offsets.channel.backoff.ms": "100"}
    arguments = options(cluster.connect, group, "a", {**dual, "offsets.commit.max.retries": "100"})
    with contextlib.closing(OurMember(arguments, topic)) as member:
        until(lambda: len(member.seen()) >= 8, member.seen)
        member.connector.commit_offsets()
    places = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    with SimpleConsumer(*address(cluster.bootstrap)) as consumer:
        assert consumer.find_coordinator(ConsumerMetadataRequest(group)).error_code == 0
        remaining = consumer.fetch_offsets(OffsetFetchRequest(group, places)).offsets
    assert [remaining[tp].offset for tp in places] == [2] * PARTITIONS
    assert [cluster.zk.get(znodes.consumer_offset(group, *tp)) for tp in places] == [b"2"] * PARTITIONS
    cluster.send(topic, 8, 4)
    with contextlib.closing(OurMember(arguments, topic)) as member:
        until(lambda: len(member.seen()) >= 4, member.seen)
        assert sorted(texts(member.seen())) == ["10", "11", "8", "9"]


def address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def test_whitelist_includes_topics_created_later_and_idle_stream_times_out(ours: Cluster) -> None:
    topic = ours.topic()
    ours.send(topic, 0, 4)
    arguments = options(ours.connect, topic, "a", {"consumer.timeout.ms": "300"})
    with Consumer.create(ConsumerConfig(arguments)) as connector:
        (stream,) = connector.create_message_streams_by_filter(Whitelist(f"{topic}, {topic}-later"))
        messages = stream.iterator()
        until_owned(ours, topic, topic, dict.fromkeys(range(PARTITIONS), f"{topic}_a-0"))
        assert sorted(seen(messages.next())[2] for _ in range(4)) == ["0", "1", "2", "3"]
        with pytest.raises(ConsumerTimeoutException):
            messages.has_next()
        ours.send(f"{topic}-later", 0, 1)  # created automatically, with one partition
        until(lambda: len(connector.owned) == PARTITIONS + 1, lambda: connector.owned)
        actual = messages.next()
        assert (actual.topic, actual.message) == (f"{topic}-later", b"0")


def test_python_of_the_legacy_page_runs(
    ours: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(DOCS.parent / "examples" / "legacy")  # for its partitioner
    host, port = address(ours.bootstrap)
    actual = {
        '"localhost", 9092': f'"{host}", {port}',
        "localhost:2181": ours.connect,
        "found.key, found.message)": "found.key, found.message); break",
    }
    run_page("../legacy", ours.bootstrap, tmp_path, actual)
    visit = "1403061899859,www.example.com,192.168.2.17"
    assert capsys.readouterr().out.splitlines() == [
        f"0 b'192.168.2.17' {visit.encode()!r}",
        f"page_visits 0 0 192.168.2.17 {visit}",
    ]


def test_console_consumer_and_create_topic_of_0_8(cluster: Cluster, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    topic = f"{cluster.topic()}-visits"
    where = ["--zookeeper", cluster.connect]
    assert ottla(["create-topic", "--topic", topic, "--replica", "1", *where, "--partition", "4"]) == 0
    cluster.send(topic, 0, 8)
    capfdbinary.readouterr()
    reading = ["console-consumer", *where, "--topic", topic, "--from-beginning", "--max-messages", "8"]
    assert ottla(reading) == 0
    out, err = capfdbinary.readouterr()
    assert sorted(out.split()) == [b"%d" % n for n in range(8)]
    assert b"Consumed 8 messages" in err
    assert not [g for g in cluster.zk.children(znodes.CONSUMERS) if g.startswith("console-consumer")]
    assert ottla([*reading, "--group", "visitors"]) == 0
    assert ottla([*reading, "--group", "visitors"]) == 1
    assert b"Found previous offset information for this group visitors" in capfdbinary.readouterr().err
    assert ottla([*reading, "--group", "visitors", "--delete-consumer-offsets"]) == 0
