"""The JSON files of `ottla reassign-partitions`: reading, writing and the location of errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli.framework.output import in_one_line
from ottla.cli.reassign_partitions import plan_json as files
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.errors import ConfigurationError
from ottla.model import TopicPartition


def one_partition_json(**fields: object) -> str:
    """Return a file with one partition. `fields` replace its defaults; a field of None is omitted."""
    partition = {"topic": "t", "partition": 0, "replicas": [1, 2], **fields}
    return json.dumps({"partitions": [{name: value for name, value in partition.items() if value is not None}]})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "moves.json"


def test_partitions_are_read_with_replicas_and_log_dirs(file: Path) -> None:
    file.write_text(
        '{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[2,3],"log_dirs":["any","/d"]},'
        '{"topic":"a","partition":0,"replicas":[1]}]}'
    )
    first, second = files.read_moves(str(file))
    assert first == files.Move(TopicPartition("t", 1), (2, 3), ("any", "/d"), f"{file}: partitions[0]")
    assert second[:3] == (TopicPartition("a", 0), (1,), ("any",))
    assert files.target_log_dirs([first, second]) == {TopicPartitionReplica("t", 1, 3): "/d"}


def test_written_reassignment_can_be_read_again(file: Path) -> None:
    assignment = {TopicPartition("t", 1): (2, 1), TopicPartition("t", 0): (1, 2)}
    log_dirs = {TopicPartitionReplica("t", 0, 2): "/d"}
    text = in_one_line(files.as_json(assignment, log_dirs))
    assert text.startswith(
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","/d"]},{"topic"'
    )
    file.write_text(text)
    moves = files.read_moves(str(file))
    assert {move.partition: move.replicas for move in moves} == assignment
    assert files.target_log_dirs(moves) == log_dirs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ": The input string is not a valid JSON"),
        ("[" * 100_000, ": The input string is not a valid JSON"),
        ("[]", ": a list is not allowed: expected an object"),
        ('{"version":2,"partitions":[]}', ": version: Not supported version field value 2"),
        ('{"version":1}', ': "partitions" is missing'),
        ('{"partitions":{}}', ": partitions: an object is not allowed: expected a list"),
        ('{"partitions":[]}', ": Partition reassignment list cannot be empty"),
        ('{"partitions":[7]}', ": partitions[0]: 7 is not allowed: expected an object"),
        (one_partition_json(topic=None), ': partitions[0]: "topic" is missing'),
        (one_partition_json(topic=3), ": partitions[0].topic: 3 is not allowed: expected a non-empty string"),
        (one_partition_json(partition=True), ": partitions[0].partition: true is not allowed: expected a whole number"),
        (one_partition_json(partition=-1), ": partitions[0].partition: -1 is not allowed: expected a whole number"),
        (one_partition_json(partition=2**31), ": partitions[0].partition: 2147483648 is not allowed"),
        (one_partition_json(replicas=[]), ": partitions[0].replicas: Partition replica list cannot be empty"),
        (
            one_partition_json(replicas=[1, "2"]),
            ': partitions[0].replicas[1]: "2" is not allowed: expected a whole number',
        ),
        (
            one_partition_json(replicas=[1, 2, 1]),
            ": partitions[0].replicas: Partition replica lists may not contain duplicate entries: "
            "t-0 contains multiple entries for 1",
        ),
        (
            one_partition_json(log_dirs=["/d"]),
            ": partitions[0].log_dirs: Size of replicas list [1, 2] is different from size",
        ),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}',
            ": partitions[1]: Partition reassignment contains duplicate topic partitions: t-0",
        ),
    ],
)
def test_error_names_the_file_and_the_location(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        files.read_moves(str(file))
    assert raised.value.message.startswith(f"{file}{words}")
    assert "\n" not in raised.value.message


def test_missing_or_binary_file_is_named(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"moves\.json: cannot be read: No such file"):
        files.read_moves(str(file))
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        files.read_topics(str(tmp_path))
    file.write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(ConfigurationError, match="not a valid JSON"):
        files.read_moves(str(file))


def test_duplicate_topics_to_move_are_rejected(file: Path) -> None:
    file.write_text('{"topics":[{"topic":"b"},{"topic":"a"}],"version":1}')
    assert [topic.name for topic in files.read_topics(str(file))] == ["b", "a"]
    file.write_text('{"topics":[{"topic":"b"},{"topic":"b"}]}')
    with pytest.raises(ConfigurationError, match=r"topics\[1\]\.topic: List of topics .* duplicate entries: \[b\]"):
        files.read_topics(str(file))
    file.write_text('{"topics":[]}')
    with pytest.raises(ConfigurationError, match="the list of topics is empty"):
        files.read_topics(str(file))


def test_broker_list_requires_unique_numbers() -> None:
    assert files.read_brokers("3, 1,2") == [3, 1, 2]
    with pytest.raises(ConfigurationError, match="--broker-list: 'a,1' is not allowed"):
        files.read_brokers("a,1")
    with pytest.raises(ConfigurationError, match=r"--broker-list: Broker list contains duplicate entries: \[1\]"):
        files.read_brokers("1,2,1")
