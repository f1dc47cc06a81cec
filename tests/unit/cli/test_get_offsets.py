"""`ottla get-offsets` against a broker in this process: selection of partitions and times."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest

from ottla import Broker, KafkaAdminClient, KafkaProducer, NewTopic, TopicPartition
from ottla.cli.main import main
from ottla.client.admin.topics.offsets import OffsetSpec
from ottla.errors import KafkaError, LeaderNotAvailableError
from ottla.model import CONSUMER_OFFSETS

NOON = 1_700_000_000_000
"""A time on a day in 2023."""
PARTITIONS = 11
NOWHERE = ("--bootstrap-server", "127.0.0.1:1")


@pytest.fixture(scope="module")
def visits(ottla_broker: Broker) -> Iterator[str]:
    """A topic whose partition 2 has records of noon, 1 s later and 0.5 s later; partition 10 has one record."""
    name = f"visits-{uuid.uuid4().hex[:8]}"
    at = ottla_broker.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=at) as admin, KafkaProducer(bootstrap_servers=at) as producer:
        admin.create_topics([NewTopic(name, PARTITIONS, 1, topic_configs={"retention.ms": "-1"})])
        for delay_ms in (0, 1000, 500):
            producer.send(name, b"x", partition=2, timestamp_ms=NOON + delay_ms).get(10)
        producer.send(name, b"x", partition=10, timestamp_ms=NOON).get(10)
        yield name


@pytest.fixture
def at(ottla_broker: Broker) -> tuple[str, ...]:
    return "get-offsets", "--bootstrap-server", ottla_broker.bootstrap_servers


def partitions_printed(printed: str) -> list[int]:
    return [int(line.split(":")[1]) for line in printed.splitlines()]


def test_partitions_are_sorted_as_text(at: tuple[str, ...], visits: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*at, "--topic", visits]) == 0
    ends = {2: 3, 10: 1}
    numbers = (0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9)
    assert capsys.readouterr().out == "".join(f"{visits}:{n}:{ends.get(n, 0)}\n" for n in numbers)


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ("--topic {} --partitions 2,3,99", [2, 3]),
        ("--topic vis.*{tail} --partitions 3,", [3]),
        ("--topic-partitions {}:3", [3]),
        ("--topic-partitions {}:1-3,nowhere", [1, 2]),
        ("--topic-partitions {}:9-,{}:-2", [0, 1, 10, 9]),
        ("--topic-partitions {}:-1,{}:0,", [0]),
        ("--topic-partitions nowhere,{}", [0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_partitions_are_selected_by_number_and_range(
    arguments: str, numbers: list[int], at: tuple[str, ...], visits: str, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = arguments.replace("{}", visits).replace("{tail}", visits[-4:])
    assert main([*at, *requests.split()]) == 0
    assert partitions_printed(capsys.readouterr().out) == numbers


@pytest.mark.parametrize(
    ("time", "offsets"),
    [
        ("earliest", {"2": 0, "10": 0, "9": 0}),
        ("-2", {"2": 0, "10": 0, "9": 0}),
        ("-1", {"2": 3, "10": 1, "9": 0}),
        ("max-timestamp", {"2": 1, "10": 0}),
        (str(NOON + 1), {"2": 1}),
        ("earliest-local", {"2": 0, "10": 0, "9": 0}),
        ("latest-tiered", {}),
    ],
)
def test_time_is_a_name_a_number_or_a_timestamp(
    time: str, offsets: dict[str, int], at: tuple[str, ...], visits: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "--topic-partitions", f"{visits}:2,{visits}:9-", "--time", time]) == 0
    output = dict(line.split(":")[1:] for line in capsys.readouterr().out.splitlines())
    assert {number: int(offset) for number, offset in output.items()} == offsets


def test_json_output_has_timestamp_and_leader_epoch(
    at: tuple[str, ...], visits: str, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = ("--topic", visits, "--partitions", "2", "--json")
    assert main([*at, *requests, "--time", "max-timestamp"]) == 0
    ((output),) = json.loads(capsys.readouterr().out)
    assert output == {"topic": visits, "partition": 2, "offset": 1, "timestamp": NOON + 1000, "leader_epoch": 0}
    assert main([*at, *requests]) == 0
    ((output),) = json.loads(capsys.readouterr().out)
    assert (output["offset"], output["timestamp"]) == (3, None)


def test_exclude_internal_topics_omits_internal_topics(
    at: tuple[str, ...], ottla_broker: Broker, visits: str, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = ("--topic", f"{CONSUMER_OFFSETS},{visits}", "--partitions", "0")
    with KafkaAdminClient(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.alter_consumer_group_offsets(visits, {TopicPartition(visits, 0): 0})
    assert main([*at, *requests]) == 0
    assert capsys.readouterr().out.startswith(f"{CONSUMER_OFFSETS}:0:")
    assert main([*at, *requests, "--exclude-internal-topics"]) == 0
    assert capsys.readouterr().out == f"{visits}:0:0\n"


def test_partition_without_leader_is_reported_and_skipped(
    at: tuple[str, ...], visits: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    list_offsets = KafkaAdminClient.list_offsets

    def without_third(
        self: KafkaAdminClient, specs: dict[TopicPartition, OffsetSpec], errors: dict[TopicPartition, KafkaError]
    ) -> object:
        third = TopicPartition(visits, 3)
        errors[third] = LeaderNotAvailableError(f"{third} has no leader")
        return list_offsets(self, {tp: spec for tp, spec in specs.items() if tp != third}, errors=errors)

    monkeypatch.setattr(KafkaAdminClient, "list_offsets", without_third)
    assert main([*at, "--topic", visits, "--partitions", "2,3"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{visits}:2:3\n"
    assert (
        printed.err == f"Skip getting offsets for topic-partition {visits}-3 due to error: {visits}-3 has no leader\n"
    )


def test_no_matching_partition_is_an_error(at: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*at, "--topic", "nowhere"]) == 1
    error = capsys.readouterr().err
    assert error == "Error occurred: Could not match any topic-partitions with the specified filters\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--topic t --topic-partitions t:1", "--topic-partitions cannot be used with --topic or --partitions"),
        ("--partitions 1 --topic-partitions t:1", "--topic-partitions cannot be used with --topic or --partitions"),
        ("--partitions 1,x", "--partitions expects a comma separated list of numeric partition ids, but received: 1,x"),
        ("--partitions 1,,2", "but received: 1,,2"),
        ("--topic-partitions t:x", "Invalid rule specification: t:x: expected REGEX, "),
        pytest.param(f"--topic-partitions t:{'9' * 5000}", "Invalid rule specification: t:999", id="too long"),
        ("--topic-partitions t,o(:1", "--topic-partitions: o( is an invalid regex"),
        ("--topic o(", "--topic: o( is an invalid regex"),
        ("--time soon", "Malformed time argument soon. Please use -1 or latest / -2 or earliest / "),
        ("--time -7", "Malformed time argument -7. "),
        (f"--time {2**63}", "Malformed time argument 9223372036854775808. "),
    ],
)
def test_invalid_arguments_are_rejected_in_one_line(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["get-offsets", *NOWHERE, *arguments.split()]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error occurred: ")
    assert words in error
    assert error.count("\n") == 1
