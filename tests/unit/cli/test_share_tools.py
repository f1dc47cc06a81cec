"""`ottla console-share-consumer`, `share-consumer-perf-test` and `e2e-latency` against a broker in this process."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator

import pytest

from ottla import Broker, ConfigResource, ConfigResourceType, KafkaAdminClient, KafkaProducer, NewTopic
from ottla.cli.main import main


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    heartbeats = {"group.share.heartbeat.interval.ms": 100, "group.share.min.heartbeat.interval.ms": 100}
    with Broker({**heartbeats, "offsets.topic.num.partitions": 1}) as broker:
        yield broker


@pytest.fixture
def name(broker: Broker) -> str:
    """A topic with the records 0 to 4, and a share group of its name that starts at the earliest offset."""
    name = f"share-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        group = ConfigResource(ConfigResourceType.GROUP, name)
        admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(5):
            producer.send(name, b"%d" % number, key=(number).to_bytes(8, "big"), timestamp_ms=1000)
    return name


@pytest.fixture
def at(broker: Broker) -> tuple[str, str]:
    return "--bootstrap-server", broker.bootstrap_servers


def read(at: tuple[str, str], name: str, *more: str) -> int:
    return main(["console-share-consumer", *at, "--topic", name, "--group", name, *more])


def test_console_share_consumer_releases_and_accepts_records(
    at: tuple[str, str], name: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    print_options = [f"--property=print.{part}=true" for part in ("key", "delivery", "epoch", "offset", "partition")]
    assert read(at, name, "--max-messages", "2", "--release", "--key-deserializer", "long", *print_options) == 0
    output = capsysbinary.readouterr()
    assert output.out == (
        b"Partition:0\tOffset:0\tDelivery:1\tEpoch:NOT_PRESENT\t0\t0\n"
        b"Partition:0\tOffset:1\tDelivery:1\tEpoch:NOT_PRESENT\t1\t1\n"
    )
    assert output.err.endswith(b"Processed a total of 2 messages\n")
    assert read(at, name, "--max-messages", "0") == 0
    assert capsysbinary.readouterr().out == b""
    assert read(at, name, "--max-messages", "5", "--timeout-ms", "-1") == 0
    assert capsysbinary.readouterr().out == b"0\n1\n2\n3\n4\n"
    assert read(at, name, "--max-messages", "-1", "--timeout-ms", "200") == 0
    assert capsysbinary.readouterr().out == b""


def test_console_share_consumer_rejects_records_that_cannot_be_printed(
    at: tuple[str, str], name: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    long_values = ("--value-deserializer", "long")
    assert read(at, name, "--max-messages", "1", *long_values) == 1
    capsysbinary.readouterr()
    assert read(at, name, "--max-messages", "5", "--reject-message-on-error", *long_values) == 0
    assert capsysbinary.readouterr().err.count(b"Rejected ") == 5
    assert read(at, name, "--timeout-ms", "200") == 0
    assert capsysbinary.readouterr().out == b""


def test_share_consumer_perf_test_counts_records_of_all_members(
    at: tuple[str, str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    test = ("share-consumer-perf-test", *at, "--topic", name, "--group", name, "--threads", "2")
    assert main([*test, "--num-records", "5", "--timeout", "3000"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    columns = "data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg"
    assert header == f"start.time, end.time, {columns}, fetch.time.ms"
    assert line.split(", ")[5] == "5"
    assert main([*test, "--num-records", "1", "--timeout", "100", "--json", "--print-metrics"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["records"], len(output["metrics"])) == (0, 2)
    assert main([*test, "--num-records", "0"]) == 1


def test_e2e_latency_creates_the_topic_and_prints_percentiles(
    at: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"latency-{uuid.uuid4().hex[:8]}"
    test = ["e2e-latency", *at, "--topic", topic, "--record-size", "20", "--num-records", "20", "--producer-acks"]
    assert main([*test, "1", "--record-key-size", "4", "--num-headers", "1"]) == 0
    created, first, average, percentiles = capsys.readouterr().out.splitlines()
    assert created.startswith(f'Topic "{topic}" does not exist.')
    assert re.fullmatch(r"0\t\d+\.\d+", first)
    assert re.fullmatch(r"Avg latency: \d+\.\d{4} ms", average)
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", percentiles)
    assert main([*test, "all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 20
    assert main([*test, "0"]) == 1
    assert "requires synchronous acknowledgement" in capsys.readouterr().err


def test_e2e_latency_prints_only_json(at: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--record-size", "20", "--num-records", "1", "--producer-acks", "1")
    assert main(["e2e-latency", *at, "--topic", f"latency-{uuid.uuid4().hex[:8]}", *sizes, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 1


def test_share_group_on_three_brokers_is_read_reset_and_deleted(
    ottla_cluster: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The group coordinator, the partition leaders and the share coordinators are different brokers."""
    servers = ottla_cluster.bootstrap_servers
    at = ("--bootstrap-server", servers)
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("jobs", 6, 1)])
        admin.alter_configs(
            {ConfigResource(ConfigResourceType.GROUP, "workers"): {"share.auto.offset.reset": "earliest"}}
        )
        with KafkaProducer(bootstrap_servers=servers) as producer:
            for number in range(12):
                producer.send("jobs", b"%d" % number, partition=number % 6).get(30)
        assert (
            main(["console-share-consumer", *at, "--topic", "jobs", "--group", "workers", "--max-messages", "12"]) == 0
        )
        assert {int(line) for line in capsys.readouterr().out.splitlines()} == set(range(12))

        def offsets() -> list[tuple[str, str]]:
            capsys.readouterr()
            assert main(["share-groups", *at, "--describe", "--group", "workers"]) == 0
            rows = [line.split() for line in capsys.readouterr().out.splitlines() if " jobs " in line]
            return [(row[3], row[4]) for row in rows]

        assert offsets() == [("2", "0")] * 6
        reset = ("share-groups", *at, "--reset-offsets", "--group", "workers", "--topic", "jobs", "--execute")
        assert main([*reset, "--to-earliest"]) == 0
        assert offsets() == [("0", "2")] * 6
        assert (
            main(["console-share-consumer", *at, "--topic", "jobs", "--group", "workers", "--max-messages", "12"]) == 0
        )
        assert {int(line) for line in capsys.readouterr().out.splitlines()} == set(range(12))
        delete = ("share-groups", *at, "--group", "workers")
        assert main([*delete, "--delete-offsets", "--topic", "jobs"]) == 0
        assert offsets() == []
        assert main([*delete, "--delete"]) == 0
        assert [group.group_id for group in admin.list_share_groups()] == []
