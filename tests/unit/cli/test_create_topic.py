"""`ottla create-topic`, the command of Kafka 0.8, and errors for unreachable and malformed ZooKeeper addresses."""

from __future__ import annotations

import pytest

from ottla import Broker, KafkaAdminClient
from ottla.cli.framework import connection
from ottla.cli.main import main


def partitions(broker: Broker, topic: str) -> int:
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        return len(admin.describe_topics([topic])[topic].partitions)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [(("--replica", "1", "--partition", "5"), 5), ((), 1), (("--replica-assignment-list", "0,0,0"), 3)],
)
def test_create_topic_creates_a_topic_once(
    ottla_broker: Broker, ottla_topic: str, arguments: tuple[str, ...], count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{ottla_topic}-{count}"
    at = ("--bootstrap-server", ottla_broker.bootstrap_servers)
    assert main(["create-topic", "--topic", name, *arguments, *at]) == 0
    assert capsys.readouterr().out == "creation succeeded!\n"
    assert partitions(ottla_broker, name) == count
    assert main(["create-topic", "--topic", name, *arguments, *at]) == 1
    assert capsys.readouterr().err.startswith("creation failed because of ")


def test_replication_factor_larger_than_the_cluster_is_rejected(
    ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--bootstrap-server", ottla_broker.bootstrap_servers)
    assert main(["create-topic", "--topic", f"{ottla_topic}-r", "--replica", "3", *at]) == 1
    assert "replication factor 3" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["host:abc", "127.0.0.1:1,:2"])
def test_malformed_zookeeper_address_is_rejected_in_one_line(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("kazoo")
    assert main(["topics", "--list", "--zookeeper", address]) == 1
    error = capsys.readouterr().err
    assert f"{address!r} is not allowed: expected host:port" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        "create-topic --topic page_visits --replica 3 --zookeeper 127.0.0.1:1 --partition 5",
        "console-consumer --zookeeper 127.0.0.1:1 --topic page_visits --from-beginning",
        "topics --list --zookeeper 127.0.0.1:1",
    ],
)
def test_unreachable_zookeeper_is_reported_in_one_line(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kazoo")
    monkeypatch.setattr(connection, "ZOOKEEPER_MS", 200)
    assert main(command.split()) == 1
    error = capsys.readouterr().err
    assert "ZooKeeper at 127.0.0.1:1 does not answer" in error
    assert error.count("\n") == 1
