"""`ottla log-dirs` with a broker in this process, and with fake brokers."""

from __future__ import annotations

import json

import pytest

from ottla import Broker, KafkaAdminClient, KafkaProducer, TopicPartition
from ottla.cli.main import main
from ottla.client.admin.cluster import ClusterDescription
from ottla.client.admin.log_dirs import LogDirDescription, ReplicaInfo
from ottla.errors import KafkaStorageError
from ottla.model import Node

NOWHERE = ("log-dirs", "--bootstrap-server", "127.0.0.1:1", "--describe")


@pytest.fixture
def at(ottla_broker: Broker) -> tuple[str, ...]:
    return "log-dirs", "--bootstrap-server", ottla_broker.bootstrap_servers, "--describe"


@pytest.fixture
def two_brokers(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """A fake admin client of brokers 2 and 11; returns the broker ids of its calls."""
    requests: list[list[int]] = []

    def describe_log_dirs(self: KafkaAdminClient, brokers: list[int]) -> dict[int, dict[str, LogDirDescription]]:
        requests.append(brokers)
        moving = {TopicPartition("t", 10): ReplicaInfo(7, 3, True), TopicPartition("t", 9): ReplicaInfo(8, 0, False)}
        dirs = {
            "/b": LogDirDescription(None, moving, 1000, 200),
            "/ä": LogDirDescription(KafkaStorageError("it is gone"), {}),
        }
        return {11: dirs, 2: {"/a": LogDirDescription(None, {TopicPartition("u", 0): ReplicaInfo(1, 0, False)})}}

    nodes = (Node(2, "a", 1), Node(11, "b", 1))
    monkeypatch.setattr(KafkaAdminClient, "describe_cluster", lambda _: ClusterDescription("c", None, nodes))
    monkeypatch.setattr(KafkaAdminClient, "describe_log_dirs", describe_log_dirs)
    return requests


def test_log_dir_is_described_with_the_size_of_its_partitions(
    at: tuple[str, ...], ottla_broker: Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        producer.send(topic, b"x" * 100, partition=1).get(10)
    assert main([*at, "--topic-list", topic]) == 0
    first, second, line = capsys.readouterr().out.splitlines()
    assert (first, second) == (
        "Querying brokers for log directories information",
        "Received log directory information from brokers 0",
    )
    ((broker),) = json.loads(line)["brokers"]
    ((directory),) = broker["logDirs"]
    assert (broker["broker"], directory["logDir"]) == (0, str(ottla_broker.data_dir))
    empty, filled = directory["partitions"]
    assert empty == {"partition": f"{topic}-0", "size": 0, "offsetLag": 0, "isFuture": False}
    size = (ottla_broker.data_dir / f"{topic}-1" / f"{0:020}.log").stat().st_size
    assert (filled["partition"], filled["size"]) == (f"{topic}-1", size)
    assert size > 100


def test_brokers_log_dirs_and_partitions_are_sorted(
    two_brokers: list[list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*NOWHERE]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "Received log directory information from brokers 2,11",
        '{"brokers":[{"broker":2,"logDirs":[{"partitions":['
        '{"partition":"u-0","size":1,"offsetLag":0,"isFuture":false}],"error":null,"logDir":"/a"}]},'
        '{"broker":11,"logDirs":[{"partitions":['
        '{"partition":"t-9","size":8,"offsetLag":0,"isFuture":false},'
        '{"partition":"t-10","size":7,"offsetLag":3,"isFuture":true}],"error":null,"logDir":"/b"},'
        '{"partitions":[],"error":"org.apache.kafka.common.errors.KafkaStorageException","logDir":"/ä"}]}],"version":1}',
    ]


def test_json_output_has_the_size_of_log_dirs(two_brokers: list[list[int]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NOWHERE, "--topic-list", "u,v", "--json"]) == 0
    second, eleventh = json.loads(capsys.readouterr().out)["brokers"]
    assert second["log_dirs"][0]["partitions"] == [
        {"topic": "u", "partition": 0, "size": 1, "offset_lag": 0, "is_future": False}
    ]
    healthy, broken = eleventh["log_dirs"]
    assert (healthy["total_bytes"], healthy["usable_bytes"], healthy["partitions"]) == (1000, 200, [])
    assert (broken["error"], broken["total_bytes"]) == ("it is gone", None)


@pytest.mark.parametrize(("arguments", "brokers"), [("", [2, 11]), ("11", [11]), ("11,,2,11,", [2, 11])])
def test_broker_list_limits_the_described_brokers(
    arguments: str, brokers: list[int], two_brokers: list[list[int]]
) -> None:
    assert main([*NOWHERE, "--broker-list", arguments]) == 0
    assert two_brokers == [brokers]


def test_unknown_brokers_of_broker_list_are_named(
    two_brokers: list[list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*NOWHERE, "--broker-list", "7,11,5"]) == 1
    assert capsys.readouterr() == (
        "",
        "ERROR: The given brokers do not exist from --broker-list: 5,7. Current existent brokers: 2,11\n",
    )


def test_malformed_broker_list_is_rejected_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NOWHERE, "--broker-list", "1,b"]) == 1
    assert capsys.readouterr().err == "ottla log-dirs: --broker-list: '1,b' is not allowed: expected broker,broker,…\n"
