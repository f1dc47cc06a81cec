"""`ottla leader-election` against a broker in this process, which leads all partitions already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla import Broker
from ottla.cli.main import main

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")


@pytest.fixture
def at(ottla_broker: Broker) -> tuple[str, ...]:
    return "leader-election", "--bootstrap-server", ottla_broker.bootstrap_servers, "--election-type"


def partitions_file(path: Path, *partitions: tuple[str, int]) -> str:
    path.write_text(json.dumps({"partitions": [{"topic": t, "partition": p} for t, p in partitions]}))
    return str(path)


def test_preferred_leader_that_leads_already_is_reported(
    at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "preferred", "--topic", topic, "--partition", "1"]) == 0
    assert capsys.readouterr().out == f"Valid replica already elected for partitions {topic}-1\n"
    assert main([*at, "PREFERRED", "--all-topic-partitions"]) == 0


def test_each_partition_of_a_file_is_reported_separately(
    at: tuple[str, ...], topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = partitions_file(tmp_path / "some.json", (topic, 1), (topic, 0), (topic, 7))
    assert main([*at, "UNCLEAN", "--path-to-json-file", file]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"Valid replica already elected for partitions {topic}-0, {topic}-1\n"
    assert f"Error completing leader election (UNCLEAN) for partition: {topic}-7: " in printed.err
    assert main([*at, "UNCLEAN", "--path-to-json-file", file, "--json"]) == 1
    output = json.loads(capsys.readouterr().out)
    assert output["unchanged"] == [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
    ((failed,), elected) = output["errors"], output["elected"]
    assert (failed["partition"], failed["error"], elected) == (7, "UnknownTopicOrPartitionError", [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "one of --all-topic-partitions, --topic, --path-to-json-file is needed, and not none"),
        (("--all-topic-partitions", "--topic", "t"), "and not --all-topic-partitions and --topic"),
        (("--topic", "t"), "--topic and --partition belong together"),
        (("--all-topic-partitions", "--partition", "0"), "--topic and --partition belong together"),
        (("--topic", "t", "--partition", "-1"), "there can be no such partition"),
        (("--path-to-json-file", "nowhere.json"), "nowhere.json: cannot be read"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_line(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["leader-election", *NOWHERE, "--election-type", "PREFERRED", *arguments]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not a valid JSON"),
        ("{}", '"partitions" is missing'),
        ('{"partitions":[]}', "the list of partitions is empty"),
        ('{"partitions":[{"topic":"t","partition":"0"}]}', "partitions[0].partition"),
        ('{"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":0}]}', "duplicate partitions: t-0"),
    ],
)
def test_malformed_json_file_is_reported_with_the_location(
    content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(content)
    arguments = ("--election-type", "PREFERRED", "--path-to-json-file", str(file))
    assert main(["leader-election", *NOWHERE, *arguments]) == 1
    error = capsys.readouterr().err
    assert str(file) in error
    assert words in error
