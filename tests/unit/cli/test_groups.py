"""`ottla groups`, `share-groups`, `client-metrics`, `features`, and actions of `ottla cluster` on any cluster."""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Iterator

import pytest

from ottla import (
    Broker,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaProducer,
    KafkaShareConsumer,
    NewTopic,
    TopicPartition,
)
from ottla.cli.main import main


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    heartbeats = {"group.share.heartbeat.interval.ms": 100, "group.share.min.heartbeat.interval.ms": 100}
    with Broker({**heartbeats, "offsets.topic.num.partitions": 1}) as broker:
        yield broker


@pytest.fixture
def at(broker: Broker) -> tuple[str, str]:
    return "--bootstrap-server", broker.bootstrap_servers


@pytest.fixture
def name(broker: Broker) -> str:
    """A topic of two partitions with three records in each, and a share group of its name that has read one of them."""
    name = f"share-{uuid.uuid4().hex[:8]}"
    servers = broker.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
        group = ConfigResource(ConfigResourceType.GROUP, name)
        admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for partition in (0, 1, 0, 1, 0, 1):
            producer.send(name, b"x", partition=partition)
    return name


@pytest.fixture
def member(broker: Broker, name: str) -> Iterator[KafkaShareConsumer]:
    with KafkaShareConsumer(
        name, bootstrap_servers=broker.bootstrap_servers, group_id=name, client_id="me", fetch_max_wait_ms=50
    ) as consumer:
        count = 0
        while count < 6:
            count += sum(map(len, consumer.poll(timeout_ms=1000).values()))
        consumer.commit()
        yield consumer


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code
    return capsys.readouterr().out


def test_groups_list_prints_all_types_and_filters_by_type(
    at: tuple[str, str], name: str, member: KafkaShareConsumer, capsys: pytest.CaptureFixture[str]
) -> None:
    with KafkaAdminClient(bootstrap_servers=at[1]) as admin:
        admin.alter_consumer_group_offsets("simple", {TopicPartition(name, 0): 0})
    lines = run(capsys, "groups", *at, "--list").splitlines()
    assert lines[0] == "GROUP                TYPE                 PROTOCOL            "
    assert f"{name:<20} Share                share                " in lines
    assert "simple " not in run(capsys, "groups", *at, "--list", "--share")
    assert "simple " in run(capsys, "groups", *at, "--list", "--consumer")
    rows = json.loads(run(capsys, "groups", *at, "--list", "--protocol", "share", "--json"))
    assert {"group": name, "type": "Share", "protocol": "share"} in rows


def test_share_groups_describe_prints_offsets_members_and_state(
    at: tuple[str, str], name: str, member: KafkaShareConsumer, capsys: pytest.CaptureFixture[str]
) -> None:
    group_arguments = ("share-groups", *at, "--describe", "--group", name)
    assert run(capsys, *group_arguments) == (
        "\nGROUP           TOPIC           PARTITION  START-OFFSET  LAG\n"
        f"{name}  {name}  0          3             0\n{name}  {name}  1          3             0\n"
    )
    header, row = run(capsys, *group_arguments, "--members").splitlines()[1:]
    assert header.split() == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    assert row.split()[3:] == ["me", "2", f"{name}:0,1"]
    assert re.search(r"\(0\) +Stable +1 +1 +1\n", run(capsys, *group_arguments, "--state", "--verbose"))
    assert name in run(capsys, "share-groups", *at, "--list", "--state", "stable").split()


def test_share_group_with_members_is_neither_reset_nor_deleted(
    at: tuple[str, str], name: str, member: KafkaShareConsumer, capsys: pytest.CaptureFixture[str]
) -> None:
    group_arguments = ("share-groups", *at, "--group", name)
    assert main([*group_arguments, "--delete"]) == 1
    assert f"* Group '{name}' could not be deleted due to: " in capsys.readouterr().err
    assert main([*group_arguments, "--reset-offsets", "--all-topics", "--to-earliest", "--execute"]) == 1
    assert f"Share group '{name}' is not empty." in capsys.readouterr().err


def test_share_group_without_members_is_reset_and_deleted(
    at: tuple[str, str], name: str, member: KafkaShareConsumer, capsys: pytest.CaptureFixture[str]
) -> None:
    member.close()
    group_arguments = ("share-groups", *at, "--group", name)
    planned = run(capsys, *group_arguments, "--reset-offsets", "--all-topics", "--to-earliest", "--dry-run")
    assert planned.endswith(f"PARTITION  NEW-OFFSET\n{name}  {name}  0          0\n{name}  {name}  1          0\n")
    assert "3             0" in run(capsys, *group_arguments, "--describe")
    run(capsys, *group_arguments, "--reset-offsets", "--topic", f"{name}:0", "--to-earliest", "--execute")
    rows = json.loads(run(capsys, *group_arguments, "--describe", "--json"))[0]["offsets"]
    assert [(row["start_offset"], row["lag"]) for row in rows] == [(0, 3), (3, 0)]
    assert run(capsys, *group_arguments, "--delete-offsets", "--topic", name).endswith(f"{name}  Successful\n")
    assert (
        run(capsys, *group_arguments, "--delete") == f"Deletion of requested share groups ('{name}') was successful.\n"
    )
    assert name not in run(capsys, "share-groups", *at, "--list").split()
    assert main([*group_arguments, "--describe"]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--describe",), "--describe needs --group or --all-groups"),
        (("--list", "--state", "Foo"), "Valid states are: Empty, Stable, Dead"),
        (("--reset-offsets", "--group", "g", "--all-topics", "--to-latest"), "one of --execute and --dry-run"),
        (("--reset-offsets", "--group", "g", "--dry-run", "--to-latest"), "one of --all-topics and --topic"),
        (("--reset-offsets", "--group", "g", "--dry-run", "--all-topics"), "one of --to-datetime"),
        (("--delete-offsets", "--group", "g"), "needs --topic"),
        (("--delete", "--group", "g", "--to-latest"), "--to-latest cannot be used with --delete"),
    ],
)
def test_share_groups_rejects_contradictory_options(
    at: tuple[str, str], arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["share-groups", *at, *arguments]) == 1
    assert words in capsys.readouterr().err


def test_client_metrics_are_created_described_and_deleted(
    at: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    tool = ("client-metrics", *at)
    altered = run(capsys, *tool, "--alter", "--name", "m", "--interval", "1000", "--match", "client_id=x")
    assert altered == "Altered client metrics config for m.\n"
    assert run(capsys, *tool, "--list") == "m\n"
    described = run(capsys, *tool, "--describe")
    assert described.startswith("Client metrics configs for m are:\n  interval.ms=1000\n  match=client_id=x\n")
    run(capsys, *tool, "--alter", "--name", "m", "--interval", "")
    assert json.loads(run(capsys, *tool, "--describe", "--name", "m", "--json"))["m"]["interval.ms"] == "300000"
    assert run(capsys, *tool, "--delete", "--name", "m") == "Deleted client metrics config for m.\n"
    assert "metric resource m doesn't exist" in run(capsys, *tool, "--describe", "--name", "m")
    run(capsys, *tool, "--alter", code=1)
    run(capsys, *tool, "--alter", "--name", "m", "--interval", "soon", code=1)


def test_features_are_described_upgraded_and_downgraded(
    at: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    described = run(capsys, "features", *at, "describe").splitlines()
    assert re.fullmatch(
        r"Feature: transaction.version {23}SupportedMinVersion: 0 {16}SupportedMaxVersion: 2 {16}"
        r"FinalizedVersionLevel: 2 {16}Epoch: \d+",
        described[-1],
    )
    change = ("features", *at, "downgrade", "--feature", "transaction.version=1")
    assert run(capsys, *change, "--dry-run") == "transaction.version can be downgraded to 1.\n"
    assert run(capsys, *change) == "transaction.version was downgraded to 1.\n"
    run(capsys, "features", *at, "upgrade", "--feature", "transaction.version=2")
    rejected = run(capsys, "features", *at, "upgrade", "--feature", "nothing=1", code=1)
    assert rejected.startswith("Could not upgrade nothing to 1. The update failed for all features")
    run(capsys, "features", *at, "upgrade", code=1)
    run(capsys, "features", *at, "upgrade", "--feature", "transaction.version", code=1)


def test_cluster_command_prints_cluster_id_and_endpoints(
    at: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert re.fullmatch(r"Cluster ID: \S{22}\n", run(capsys, "cluster", "cluster-id", *at))
    port = at[1].rpartition(":")[2]
    assert run(capsys, "cluster", "list-endpoints", *at) == (
        "ID         HOST      PORT       RACK       STATE      ENDPOINT_TYPE  \n"
        f"0          127.0.0.1 {port:<10} null       unfenced   broker         \n"
    )
    assert "does not support" in run(capsys, "cluster", "unregister", "--id", "7", *at, code=1)


def test_consumer_groups_list_prints_types_and_states(
    at: tuple[str, str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with KafkaAdminClient(bootstrap_servers=at[1]) as admin:
        admin.alter_consumer_group_offsets("typed", {TopicPartition(name, 0): 0})
    listed = run(capsys, "consumer-groups", *at, "--list", "--type", "--state")
    assert listed.splitlines()[0].split() == ["GROUP", "TYPE", "STATE"]
    assert ["typed", "Classic", "Empty"] in [line.split() for line in listed.splitlines()]
    assert "typed" not in run(capsys, "consumer-groups", *at, "--list", "--type", "consumer")
    assert main(["consumer-groups", *at, "--list", "--type", "share"]) == 1


@pytest.mark.parametrize(("regex", "words"), [("a.*", "` is valid."), ("a(", "` is invalid: missing )")])
def test_validate_regex_requires_no_broker(regex: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["consumer-groups", "--validate-regex", regex])
    assert ended.value.code == 0
    assert f"The regular expression `{regex}{words}" in capsys.readouterr().out


@pytest.mark.parametrize(("regex", "error"), [("a.*", None), ("a(", "missing ): a(")])
def test_validate_regex_prints_json(regex: str, error: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["consumer-groups", "--validate-regex", regex, "--json"])
    assert json.loads(capsys.readouterr().out) == {"regex": regex, "valid": error is None, "error": error}


def test_validate_regex_names_the_package_that_it_requires(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(SystemExit):
        main(["consumer-groups", "--validate-regex", "a.*"])
    assert "requires google-re2: pip install google-re2" in capsys.readouterr().err
