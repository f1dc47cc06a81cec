"""`ottla streams-groups` and the admin client's methods for streams groups."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
from tests.unit.client.streams_thread import StreamsThread

from ottla import Broker, KafkaAdminClient, KafkaProducer, NewTopic, TopicPartition
from ottla.cli.main import main


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"offsets.topic.num.partitions": 1, "group.streams.assignment.interval.ms": 0}) as broker:
        yield broker


@pytest.fixture
def at(broker: Broker) -> tuple[str, str]:
    return "--bootstrap-server", broker.bootstrap_servers


@pytest.fixture
def name(broker: Broker) -> str:
    """A topic of two partitions with three records in each."""
    name = f"words-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition in (0, 1, 0, 1, 0, 1):
            producer.send(name, b"x", partition=partition)
    return name


@pytest.fixture
def thread(broker: Broker, name: str) -> Iterator[StreamsThread]:
    """A member of a group of the topic's name."""
    with StreamsThread(broker.bootstrap_servers, name, name) as thread:
        yield thread


@pytest.fixture
def empty_group(broker: Broker, name: str) -> str:
    """The name of a group without members, with a committed offset in both partitions of the topic."""
    with StreamsThread(broker.bootstrap_servers, name, name):
        pass
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_streams_group_offsets(name, {TopicPartition(name, 0): 1, TopicPartition(name, 1): 2})
    return name


def test_application_with_an_active_streams_group_is_not_reset(
    thread: StreamsThread, at: tuple[str, str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["streams-application-reset", *at, "--application-id", name, "--force"]) == 1
    assert f"Streams group '{name}' is still active" in capsys.readouterr().err


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["streams-groups", *arguments]) == code
    return capsys.readouterr().out


def table(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line.strip()]


def test_describe_prints_members_lag_and_state(
    at: tuple[str, str], name: str, thread: StreamsThread, capsys: pytest.CaptureFixture[str]
) -> None:
    group_arguments = (*at, "--describe", "--group", name)
    repartition = f"{name}-words-repartition"
    assert sorted(table(run(capsys, *group_arguments))) == sorted(
        [
            ["GROUP", "TOPIC", "PARTITION", "OFFSET-LAG"],
            *([name, name, str(n), "3"] for n in range(2)),
            *([name, repartition, str(n), "0"] for n in range(2)),
        ]
    )
    assert [name, name, "0", "-", "-", "3", "3"] in table(run(capsys, *group_arguments, "--verbose"))
    members = run(capsys, *group_arguments, "--members")
    assert "ACTIVE: 0:[0,1]; 1:[0,1]; \n" in members
    assert thread.member_id in members
    assert "TARGET-ACTIVE: 0:[0,1]; 1:[0,1]; " in run(capsys, *group_arguments, "--members", "--verbose")
    state, epoch, target_epoch, count = table(run(capsys, *group_arguments, "--state", "--verbose"))[1][-4:]
    assert (state, epoch, count) == ("Stable", target_epoch, "1")
    (document,) = json.loads(run(capsys, *group_arguments, "--members", "--json"))
    assert document["members"][0]["assignment"]["active"] == {"0": [0, 1], "1": [0, 1]}
    assert name in run(capsys, *at, "--list").split()
    assert [name, "Stable"] in table(run(capsys, *at, "--list", "--state", "stable,empty"))


def test_group_with_members_is_neither_reset_nor_deleted(
    at: tuple[str, str], name: str, thread: StreamsThread, capsys: pytest.CaptureFixture[str]
) -> None:
    group_arguments = (*at, "--group", name)
    assert f"* Group '{name}' could not be deleted due to: " in run(capsys, *group_arguments, "--delete")
    output = run(capsys, *group_arguments, "--reset-offsets", "--all-input-topics", "--to-earliest", "--execute")
    assert "Assignments can only be reset if the group" in output
    assert "Error: Encountered some partition-level error" in run(
        capsys, *group_arguments, "--delete-offsets", "--input-topic", name
    )


def test_reset_sets_offsets_and_deletes_internal_topics(
    broker: Broker, at: tuple[str, str], empty_group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group_arguments = (*at, "--group", empty_group, "--reset-offsets")
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(f"renamed-{empty_group}", 1, 1)])
        output = run(capsys, *group_arguments, "--all-input-topics", "--to-latest", "--dry-run")
        assert table(output) == [
            ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"],
            *([empty_group, empty_group, str(n), "3"] for n in range(2)),
        ]
        assert admin.list_streams_group_offsets(empty_group)[TopicPartition(empty_group, 0)].offset == 1
        run(
            capsys,
            *group_arguments,
            "--input-topic",
            f"{empty_group}:1",
            "--shift-by",
            "-2",
            "--execute",
            "--delete-all-internal-topics",
            "--delete-internal-topic",
            f"renamed-{empty_group}",
        )
        committed = {tp: entry.offset for tp, entry in admin.list_streams_group_offsets(empty_group).items()}
        assert committed == {TopicPartition(empty_group, 0): 1, TopicPartition(empty_group, 1): 0}
        topics = admin.list_topics()
        assert not [topic for topic in topics if topic.startswith((f"{empty_group}-", "renamed-"))]
    assert f"{empty_group},1,0" in run(
        capsys, *group_arguments, "--all-input-topics", "--to-current", "--dry-run", "--export"
    )
    run(capsys, *group_arguments, "--input-topic", f"{empty_group}:7", "--to-latest", "--dry-run", code=1)
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(f"{empty_group}.other", 1, 1)])
    assert "not part of the group" in run(
        capsys, *group_arguments, "--input-topic", f"{empty_group}.other", "--to-latest", "--dry-run"
    )


def test_delete_removes_offsets_group_and_internal_topics(
    broker: Broker, at: tuple[str, str], empty_group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group_arguments = (*at, "--group", empty_group)
    assert "has no active members" in run(capsys, *group_arguments, "--describe", "--state")
    output = run(capsys, *group_arguments, "--delete-offsets", "--input-topic", f"{empty_group}:0")
    assert output.startswith(f"Request succeeded for deleting offsets from group {empty_group}.")
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert [*admin.list_streams_group_offsets(empty_group)] == [TopicPartition(empty_group, 1)]
        run(capsys, *group_arguments, "--delete-offsets", "--all-input-topics")
        assert admin.list_streams_group_offsets(empty_group) == {}
        assert run(capsys, *group_arguments, "--delete", "--delete-all-internal-topics") == (
            f"Deletion of requested streams groups ('{empty_group}') was successful.\n"
            f"Deletion of associated internal topics of the streams groups ('{empty_group}') was successful.\n"
        )
        assert empty_group not in [group.group_id for group in admin.list_streams_groups()]
    assert "does not exist or is not a streams group" in run(capsys, *group_arguments, "--delete")
    run(capsys, *group_arguments, "--describe", code=1)


def test_admin_client_describes_topology_and_tasks(broker: Broker, name: str, thread: StreamsThread) -> None:
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        group = admin.describe_streams_groups([name])[name]
        assert (group.state, group.topology_epoch, group.assignor) == ("Stable", 0, "sticky")
        assert [s.sources for s in group.subtopologies] == [(name,), (f"{name}-words-repartition",)]
        (changelog,) = group.subtopologies[1].state_changelog_topics.values()
        assert (changelog.name, changelog.partitions) == (f"{name}-counts-changelog", 2)
        (member,) = group.members
        assert (member.process_id, member.assignment.active) == ("process", {"0": (0, 1), "1": (0, 1)})
        assert name not in [group.group_id for group in admin.list_consumer_groups()]
        (listed,) = [group for group in admin.list_groups(types_filter=["streams"]) if group.group_id == name]
        assert listed.group_type == "streams"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--describe",),
        ("--describe", "--group", "g", "--members", "--offsets"),
        ("--list", "--state", "Nowhere"),
        ("--delete-offsets", "--group", "g"),
        ("--reset-offsets", "--group", "g", "--all-input-topics", "--to-latest"),
        ("--reset-offsets", "--group", "g", "--to-latest", "--dry-run"),
        (
            "--reset-offsets",
            "--group",
            "g",
            "--all-input-topics",
            "--to-latest",
            "--dry-run",
            "--delete-all-internal-topics",
        ),
        ("--delete", "--group", "g", "--all-groups"),
        ("--delete", "--group", "g", "--input-topic", "t"),
    ],
)
def test_contradictory_options_are_rejected(
    at: tuple[str, str], arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["streams-groups", *at, *arguments]) == 1
    assert capsys.readouterr().err.startswith("Error: Executing streams group command failed due to ")
