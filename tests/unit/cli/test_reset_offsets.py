"""`ottla consumer-groups --reset-offsets` and `--delete-offsets` against a broker in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from ottla.cli.main import main

RunCommand = Callable[..., tuple[str, str]]
"""(arguments of the command, exit code) → stdout and stderr."""
RESET, DELETE = "--reset-offsets", "--delete-offsets"
NOON = 1_700_000_000_000


@pytest.fixture
def consumer_groups(ottla_broker: Broker, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    def run(*arguments: str, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert main(["consumer-groups", "--bootstrap-server", ottla_broker.bootstrap_servers, *arguments]) == code
        printed = capsys.readouterr()
        return printed.out, printed.err

    return run


@pytest.fixture
def filled(ottla_broker: Broker, topic: str) -> str:
    """A topic with four records in partition 0, a second apart, of which a group `g-…` has read two."""
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        for i in range(4):
            producer.send(topic, b"x", partition=0, timestamp_ms=NOON + 1000 * i).get(10)
    with KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.alter_consumer_group_offsets(f"g-{topic}", {TopicPartition(topic, 0): 2})
    return topic


def committed(broker: Broker, topic: str) -> dict[int, int]:
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        result = admin.list_consumer_group_offsets(f"g-{topic}")
    return {tp.partition: committed_offset.offset for tp, committed_offset in result.items()}


@pytest.mark.parametrize(
    ("spec", "offsets"),
    [
        ("--to-earliest", [0, 0]),
        ("--to-latest", [4, 0]),
        ("--to-current", [2, 0]),
        ("--to-offset 3", [3, 0]),
        ("--to-datetime 2023-11-14T22:13:21.000", [1, 0]),
        ("--by-duration P1D", [4, 0]),
    ],
)
def test_reset_spec_determines_the_new_offsets(
    consumer_groups: RunCommand, ottla_broker: Broker, filled: str, spec: str, offsets: list[int]
) -> None:
    requests = (RESET, "--group", f"g-{filled}", "--topic", filled, "--dry-run", *spec.split())
    output = json.loads(consumer_groups(*requests, "--json")[0])
    assert [row["new_offset"] for row in output["offsets"]] == offsets
    assert committed(ottla_broker, filled) == {0: 2}


def test_reset_without_execute_warns_and_changes_nothing(
    consumer_groups: RunCommand, ottla_broker: Broker, filled: str
) -> None:
    group = f"g-{filled}"
    out, err = consumer_groups(RESET, "--group", group, "--all-topics", "--shift-by", "-1")
    width = max(15, len(filled))
    assert out == (
        f"\n{'GROUP':<{len(group)}} {'TOPIC':<{width}} PARTITION  NEW-OFFSET\n{group} {filled:<{width}} 0          1\n"
    )
    assert "No action will be performed as the --execute option is missing" in err
    assert committed(ottla_broker, filled) == {0: 2}


def test_offset_beyond_the_log_is_clamped_with_a_warning(
    consumer_groups: RunCommand, ottla_broker: Broker, filled: str
) -> None:
    _, err = consumer_groups(RESET, "--group", f"g-{filled}", "--topic", f"{filled}:0", "--shift-by", "9", "--execute")
    assert err == (
        f"WARN New offset (11) is higher than latest offset for topic partition {filled}-0. Value will be set to 4.\n"
    )
    assert committed(ottla_broker, filled) == {0: 4}


def test_exported_plan_is_executed_from_file(
    consumer_groups: RunCommand, ottla_broker: Broker, filled: str, tmp_path: Path
) -> None:
    group = ("--group", f"g-{filled}")
    out, _ = consumer_groups(RESET, *group, "--topic", filled, "--to-earliest", "--dry-run", "--export")
    file = tmp_path / "plan.csv"
    file.write_text(out)
    consumer_groups(RESET, *group, "--from-file", str(file), "--execute")
    assert committed(ottla_broker, filled) == {0: 0, 1: 0}
    file.write_text(f"other,{filled},0,3\n")
    out, _ = consumer_groups(RESET, *group, "--from-file", str(file), "--execute")
    assert f"Error: No reset plan for group g-{filled} found.\n" in out


def test_reset_rejects_a_group_with_members_and_resets_others(
    consumer_groups: RunCommand, ottla_broker: Broker, filled: str
) -> None:
    group, at = f"m-{filled}", ottla_broker.bootstrap_servers
    with KafkaConsumer(filled, bootstrap_servers=at, group_id=group, auto_offset_reset="earliest") as consumer:
        while not consumer.poll(1000):
            pass
        groups = ("--group", group, "--group", f"g-{filled}")
        out, _ = consumer_groups(RESET, *groups, "--topic", f"{filled}:0", "--to-earliest", "--execute")
        words = f"Assignments can only be reset if the group '{group}' is inactive, but the current state is Stable."
        assert out.startswith(f"\nError: {words}\n\nGROUP ")
        out, _ = consumer_groups(DELETE, "--group", group, "--topic", f"{filled}:0")
        assert out.startswith("\nError: Encountered some partition-level error, see the follow-up details.\n")
        assert "Error: org.apache.kafka.common.errors.GroupSubscribedToTopicException: Deleting offsets " in out
    assert committed(ottla_broker, filled) == {0: 0}


def test_reset_of_an_unknown_partition_changes_nothing(
    consumer_groups: RunCommand, ottla_broker: Broker, filled: str
) -> None:
    topics = ("--topic", f"{filled}:0,7")
    _, err = consumer_groups(RESET, "--group", f"g-{filled}", *topics, "--to-earliest", "--execute", code=1)
    assert f'The partitions "{filled}-7" do not exist' in err
    assert committed(ottla_broker, filled) == {0: 2}


def test_delete_offsets_deletes_committed_offsets(
    consumer_groups: RunCommand, ottla_broker: Broker, filled: str
) -> None:
    group = f"g-{filled}"
    out, _ = consumer_groups(DELETE, "--group", group, "--topic", f"{filled}:0", "--topic", "nowhere")
    first, _, header, one, two = out.splitlines() if out.splitlines()[1] == "" else ("", *out.splitlines())
    width = max(15, len(filled))
    assert first == f"Request succeeded for deleting offsets from group {group}."
    assert header == f"{'TOPIC':<{width}} PARTITION  STATUS         "
    deleted, missing = sorted((one, two), key=lambda line: "nowhere" in line)
    assert deleted == f"{filled:<{width}} 0          Successful     "
    assert missing.split(maxsplit=2)[1:] == [
        "-",
        "Error: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
        "This server does not host this topic-partition.",
    ]
    assert committed(ottla_broker, filled) == {}


def test_delete_offsets_of_an_unknown_group_fails(consumer_groups: RunCommand, filled: str) -> None:
    out, _ = consumer_groups(DELETE, "--group", "missing", "--topic", f"{filled}:0")
    assert out.startswith("\nError: The group id does not exist.\n")
    output = json.loads(consumer_groups(DELETE, "--group", "missing", "--topic", f"{filled}:0", "--json")[0])
    assert output["deleted"] == []
    assert [(e["partition"], e["error"]) for e in output["errors"]] == [(0, "GroupIdNotFoundError")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--reset-offsets --group g --topic t", "--reset-offsets takes one of --to-offset"),
        ("--reset-offsets --group g --topic t --to-latest --to-offset 0", "--reset-offsets takes one of --to-offset"),
        ("--reset-offsets --group g --to-latest", "One of the reset scopes should be defined"),
        ("--reset-offsets --group g --topic t --all-topics --to-latest", "--topic cannot be used with --all-topics"),
        ("--reset-offsets --group g --all-groups --topic t --to-latest", "--group cannot be used with --all-groups"),
        ("--reset-offsets --group g --topic t --to-latest --dry-run --execute", "only one of --execute and --dry-run"),
        ("--reset-offsets --group g --topic t --to-latest --export --json", "--export cannot be used with --json"),
        ("--reset-offsets --group g --from-file /nowhere.csv", "--from-file /nowhere.csv"),
        ("--describe --group g --topic t", "--topic cannot be used with --describe"),
        ("--delete --group g --execute", "--execute cannot be used with --delete"),
        ("--delete-offsets --group g", "--delete-offsets takes one --group, and --topic"),
        ("--delete-offsets --group g --group h --topic t", "--delete-offsets takes one --group, and --topic"),
    ],
)
def test_contradictory_options_are_rejected_without_a_request(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["consumer-groups", "--bootstrap-server", "127.0.0.1:1", *arguments.split()]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
