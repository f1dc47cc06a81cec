"""Every example runs against an Ottla broker with the documented result."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.examples.running import EXAMPLES, load_example

from ottla import Broker, ConsumerRecord, KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic

OTHERS = {
    "legacy/page_visits.py",
    "legacy/simple_example.py",
    "legacy/simple_partitioner.py",
    "schema_registry.py",
}
"""Examples with their own test file.

tests/crash/test_kill_delivery.py tests delivery/, and test_testing.py tests testing/.
"""

COUNT = 40


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker({"group.initial.rebalance.delay.ms": 0, "num.partitions": 2}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(servers: str, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    return name


@pytest.fixture
def filled(servers: str, topic: str) -> str:
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(COUNT):
            producer.send(topic, b"%d" % number, key=b"k%d" % (number % 4), partition=number % 2)
    return topic


def values(servers: str, topic: str, count: int) -> list[bytes]:
    options: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "consumer_timeout_ms": 5000,
    }
    result = []
    with KafkaConsumer(topic, bootstrap_servers=servers, **options) as consumer:
        for record in consumer:
            result.append(record.value)
            if len(result) == count:
                break
    return result


def test_every_example_has_a_test() -> None:
    here = Path(__file__).read_text()
    for file in EXAMPLES.rglob("*.py"):
        name = file.relative_to(EXAMPLES).as_posix()
        assert name in OTHERS or name.startswith(("delivery/", "testing/")) or f'"{name}"' in here, name


def test_kafka_python_readme_example(servers: str, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    load_example("kafka_python/produce.py").main(servers, topic)
    assert "callback got offset" in capsys.readouterr().out
    consume = load_example("kafka_python/consume.py")
    consume.main(servers, topic)
    output = capsys.readouterr().out
    assert output.count("b'order ") >= 100
    assert "the group begins with b'" in output
    assert "the first one that is committed: b'" in output
    assert "('content-encoding', b'base64')" in output


def test_kafka_python_transactions_example(servers: str, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    load_example("kafka_python/transactions.py").main(servers, topic)
    assert capsys.readouterr().out == "[b'paid']\n"


def test_kafka_python_admin_example(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    load_example("kafka_python/admin.py").main(servers, "invoices")
    output = capsys.readouterr().out.splitlines()
    assert output[:3] == ["True 3", "retention.ms = 3600000", "partition 0 ends at 0"]


def test_asyncio_clients_example(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(load_example("asyncio_clients.py").main(servers, "numbers"))
    assert sorted(capsys.readouterr().out.splitlines()) == ["read b'0' to b'19'", "sent to offsets 0 to 19"]


def test_java_producer_example_sends_100_records(servers: str, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    load_example("java/producer_simple.py").main(servers, topic)
    assert capsys.readouterr().out == ""
    assert sorted(values(servers, topic, 100), key=int) == [b"%d" % i for i in range(100)]


def test_java_transactional_producer_example_commits_100_records(servers: str, topic: str) -> None:
    load_example("java/producer_transactional.py").main(servers, topic)
    assert len(values(servers, topic, 100)) == 100


def test_java_auto_commit_example_commits_all_offsets(
    servers: str, filled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    load_example("java/consumer_auto_commit.py").main(servers, filled, COUNT)
    assert len(capsys.readouterr().out.splitlines()) == COUNT
    assert committed(servers, "auto", filled) == COUNT


def test_java_manual_commit_example_commits_all_offsets(servers: str, filled: str) -> None:
    stored: list[ConsumerRecord] = []
    load_example("java/consumer_manual_commit.py").main(servers, filled, stored.extend, COUNT)
    assert len(stored) == COUNT
    assert committed(servers, "manual", filled) == COUNT


def test_java_partition_commit_example_commits_all_offsets(
    servers: str, filled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    load_example("java/consumer_partition_commit.py").main(servers, filled, COUNT)
    assert len(capsys.readouterr().out.splitlines()) == COUNT
    assert committed(servers, "by-partition", filled) == COUNT


def committed(servers: str, group: str, topic: str) -> int:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        offsets = admin.list_consumer_group_offsets(group)
    return sum(offset.offset for tp, offset in offsets.items() if tp.topic == topic)


def test_java_manual_assignment_example_reads_all_records(
    servers: str, filled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    load_example("java/consumer_assignment.py").main(servers, filled)
    assert len(capsys.readouterr().out.splitlines()) == COUNT


def test_java_external_offsets_example_resumes_without_duplicates(servers: str, filled: str, tmp_path: Path) -> None:
    path = str(tmp_path / "counts.sqlite")
    example = load_example("java/consumer_external_offsets.py")
    example.main(servers, filled, path, COUNT)
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send(filled, b"more", key=b"k0", partition=0)
    example.main(servers, filled, path, 1)
    database = sqlite3.connect(path)
    assert dict(database.execute("SELECT key, n FROM counts")) == {"k0": 11, "k1": 10, "k2": 10, "k3": 10}
    assert list(database.execute("SELECT partition, next FROM offsets ORDER BY partition")) == [(0, 21), (1, 20)]
    database.close()


def test_java_pause_resume_example_reads_one_partition_after_the_other(
    servers: str, filled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    load_example("java/consumer_pause_resume.py").main(servers, filled)
    lines = capsys.readouterr().out.splitlines()
    partitions = [line.split()[0][-1] for line in lines]
    assert partitions == sorted(partitions, reverse=True)
    assert set(partitions) == {"0", "1"}


def test_java_threads_example_reads_all_records_and_shuts_down(servers: str, filled: str) -> None:
    consumed: list[ConsumerRecord] = []
    all_consumed = threading.Event()

    def handle(record: ConsumerRecord) -> None:
        consumed.append(record)
        if len(consumed) == COUNT:
            all_consumed.set()

    runner_class = load_example("java/consumer_threads.py").KafkaConsumerRunner
    runners = [runner_class(servers, filled, handle) for _ in range(2)]
    for runner in runners:
        runner.start()
    assert all_consumed.wait(20)
    for runner in runners:
        runner.shutdown()
    for runner in runners:
        runner.join(5)
        assert not runner.is_alive()
