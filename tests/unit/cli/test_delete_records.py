"""`ottla delete-records` against a broker in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ottla import Broker, KafkaAdminClient, KafkaProducer, TopicPartition
from ottla.cli.main import main
from ottla.client.admin.topics.offsets import OffsetSpec

NOWHERE = ("delete-records", "--bootstrap-server", "127.0.0.1:1", "--offset-json-file")


@pytest.fixture
def at(ottla_broker: Broker) -> tuple[str, ...]:
    return "delete-records", "--bootstrap-server", ottla_broker.bootstrap_servers, "--offset-json-file"


@pytest.fixture
def filled_topic(ottla_broker: Broker, topic: str) -> str:
    """A topic with three records in partition 0, and three in 1."""
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        for future in [producer.send(topic, b"x", partition=i % 2) for i in range(6)]:
            future.get(10)
    return topic


def offsets_file(path: Path, *offsets: tuple[str, int, int]) -> str:
    path.write_text(json.dumps({"partitions": [{"topic": t, "partition": p, "offset": o} for t, p, o in offsets]}))
    return str(path)


def first_offset(broker: Broker, tp: TopicPartition) -> int:
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        return admin.list_offsets({tp: OffsetSpec.earliest()})[tp].offset


def test_records_before_an_offset_are_deleted(
    at: tuple[str, ...], ottla_broker: Broker, filled_topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, offsets_file(tmp_path / "two.json", (filled_topic, 1, -1), (filled_topic, 0, 2))]) == 0
    assert capsys.readouterr().out == (
        "Executing records delete operation\n"
        "Records delete operation completed:\n"
        f"partition: {filled_topic}-0\tlow_watermark: 2\n"
        f"partition: {filled_topic}-1\tlow_watermark: 3\n"
    )
    assert [first_offset(ottla_broker, TopicPartition(filled_topic, number)) for number in (0, 1)] == [2, 3]


def test_failed_partition_is_reported_and_others_succeed(
    at: tuple[str, ...], ottla_broker: Broker, filled_topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = offsets_file(tmp_path / "two.json", (filled_topic, 1, 1), (filled_topic, 0, 9))
    assert main([*at, file]) == 0
    *_, failed, deleted = capsys.readouterr().out.splitlines()
    assert failed.startswith(f"partition: {filled_topic}-0\terror: ")
    assert deleted == f"partition: {filled_topic}-1\tlow_watermark: 1"
    assert main([*at, file, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["partitions"] == [{"topic": filled_topic, "partition": 1, "low_watermark": 1}]
    ((error),) = output["errors"]
    assert (error["partition"], error["error"]) == (0, "OffsetOutOfRangeError")
    assert first_offset(ottla_broker, TopicPartition(filled_topic, 0)) == 0


def test_empty_offsets_file_deletes_nothing(
    at: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, offsets_file(tmp_path / "none.json")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "Records delete operation completed:"


def test_unreachable_broker_fails_the_command_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fast = tmp_path / "fast.properties"
    fast.write_text("default.api.timeout.ms=300\nrequest.timeout.ms=200\n")
    assert main([*NOWHERE, offsets_file(tmp_path / "one.json", ("t", 0, 0)), "--command-config", str(fast)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "127.0.0.1:1" in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "The input string is not a valid JSON"),
        ("{}", '"partitions" is missing'),
        ('{"version":2,"partitions":[]}', "Not supported version field value 2"),
        ('{"partitions":[{"topic":"t","partition":0}]}', 'partitions[0]: "offset" is missing'),
        ('{"partitions":[{"topic":"t","partition":0,"offset":"7"}]}', 'partitions[0].offset: "7" is not allowed'),
        ('{"partitions":[{"topic":"t","partition":0,"offset":-2}]}', "expected a whole number from -1 to"),
        (f'{{"partitions":[{{"topic":"t","partition":0,"offset":{2**63}}}]}}', "9223372036854775808 is not allowed"),
        (
            '{"partitions":[{"topic":"t","partition":0,"offset":1},{"topic":"t","partition":0,"offset":2}]}',
            "Offset json file contains duplicate topic partitions: t-0",
        ),
    ],
)
def test_malformed_offsets_file_is_rejected_in_one_line(
    content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(content)
    assert main([*NOWHERE, str(file)]) == 1
    error = capsys.readouterr().err
    assert f"{file}: " in error
    assert words in error
    assert error.count("\n") == 1


def test_offsets_file_may_be_a_pipe(at: tuple[str, ...], filled_topic: str, ottla_broker: Broker) -> None:
    reader, writer = os.pipe()
    os.write(writer, b'{"partitions": [{"topic": "%b", "partition": 0, "offset": 2}]}' % filled_topic.encode())
    os.close(writer)
    assert main([*at, f"/dev/fd/{reader}"]) == 0
    os.close(reader)
    assert first_offset(ottla_broker, TopicPartition(filled_topic, 0)) == 2
