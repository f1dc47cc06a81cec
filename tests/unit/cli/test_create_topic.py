"""`ottla create-topic`, the command of Kafka 0.8, and what is said to `--zookeeper`."""

from __future__ import annotations

import pytest

from ottla import Broker, KafkaAdminClient
from ottla.cli.main import main


def partitions(broker: Broker, topic: str) -> int:
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        return len(admin.describe_topics([topic])[topic].partitions)


@pytest.mark.parametrize(
    ("given", "count"),
    [(("--replica", "1", "--partition", "5"), 5), ((), 1), (("--replica-assignment-list", "0,0,0"), 3)],
)
def test_it_creates_a_topic(
    ottla_broker: Broker, ottla_topic: str, given: tuple[str, ...], count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{ottla_topic}-{count}"
    at = ("--bootstrap-server", ottla_broker.bootstrap_servers)
    assert main(["create-topic", "--topic", name, *given, *at]) == 0
    assert capsys.readouterr().out == "creation succeeded!\n"
    assert partitions(ottla_broker, name) == count
    assert main(["create-topic", "--topic", name, *given, *at]) == 1
    assert capsys.readouterr().err.startswith("creation failed because of ")


def test_more_replicas_than_brokers_are_refused(
    ottla_broker: Broker, ottla_topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--bootstrap-server", ottla_broker.bootstrap_servers)
    assert main(["create-topic", "--topic", f"{ottla_topic}-r", "--replica", "3", *at]) == 1
    assert "replication factor 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "create-topic --topic page_visits --replica 3 --zookeeper localhost:2181 --partition 5",
        "console-consumer --zookeeper localhost:2181 --topic page_visits --from-beginning",
        "topics --list --zookeeper localhost:2181",
    ],
)
def test_zookeeper_comes_with_the_cluster(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "comes with the cluster" in said
    assert said.count("\n") == 1
