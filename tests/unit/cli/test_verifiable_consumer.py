"""`ottla verifiable-consumer` against a broker in this process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from ottla.cli.main import main
from ottla.errors import CommitFailedError, FencedInstanceIdError, WakeupError

COUNT = 10


@pytest.fixture
def at(ottla_broker: Broker, topic: str) -> tuple[str, ...]:
    """Arguments of the command with a new group. Partition 1 has ten records; the first has a key and invalid UTF-8."""
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        values = [b"\xff", None, *(b"%d" % number for number in range(2, COUNT))]
        producer.send_batch(topic, values=values, keys=[b"k", *[None] * (COUNT - 1)], partition=1).get(timeout=10)
    address = ottla_broker.bootstrap_servers
    return "verifiable-consumer", "--bootstrap-server", address, "--topic", topic, "--group-id", topic


def output(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def committed(broker: Broker, topic: str) -> int | None:
    with KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=topic) as consumer:
        return consumer.committed(TopicPartition(topic, 1))


def test_requested_number_of_records_is_reported_and_committed(
    ottla_broker: Broker, at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "--max-messages", "4"]) == 0
    events = output(capsys)
    assert [event["name"] for event in events] == [
        *("startup_complete", "partitions_assigned", "records_consumed", "offsets_committed"),
        *("partitions_revoked", "shutdown_complete", "shutdown_requested"),
    ]
    both = [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
    assert events[1]["partitions"] == events[4]["partitions"] == both
    # As in Kafka's tool, this counts all records of the poll; the partitions below count the requested ones.
    assert events[2]["count"] == COUNT
    assert events[2]["partitions"] == [{"topic": topic, "partition": 1, "count": 4, "minOffset": 0, "maxOffset": 3}]
    assert events[3]["offsets"] == [{"topic": topic, "partition": 1, "offset": 4}]
    assert list(events[3])[2:] == ["offsets", "success"]
    assert committed(ottla_broker, topic) == 4
    assert main([*at, "--max-messages", "1"]) == 0
    assert output(capsys)[2]["partitions"][0]["minOffset"] == 4


@pytest.mark.parametrize("protocol", ["classic", "CONSUMER"])
def test_verbose_reports_each_record(
    at: tuple[str, ...], topic: str, protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--group-protocol", protocol, "--group-remote-assignor", "range", "--enable-autocommit")
    assert main([*at, "--max-messages", str(COUNT), "--verbose", *options]) == 0
    events = output(capsys)
    records = [event for event in events if event["name"] == "record_data"]
    assert list(records[0])[2:] == ["key", "value", "topic", "partition", "offset"]
    assert [(r["key"], r["value"]) for r in records[:3]] == [("k", "\ufffd"), (None, None), (None, "2")]
    assert [(r["topic"], r["partition"], r["offset"]) for r in records] == [(topic, 1, n) for n in range(COUNT)]
    assert not [event for event in events if event["name"] == "offsets_committed"]


def test_command_config_and_options_are_applied(
    at: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "consumer.properties"
    config.write_text(
        "max.poll.records=3\nauto.offset.reset=latest\ngroup.id=other\nvalue.deserializer=no.such.Class\n"
    )
    strategy = ("--assignment-strategy", "org.apache.kafka.clients.consumer.RoundRobinAssignor")
    options = ("--session-timeout", "6000", "--group-instance-id", "me", *strategy)
    assert main([*at, "--max-messages", "6", "--consumer.config", str(config), *options]) == 0
    deprecated, *lines = capsys.readouterr().out.splitlines()
    assert deprecated.startswith("Option --consumer.config has been deprecated")
    assert [e["count"] for e in map(json.loads, lines) if e["name"] == "records_consumed"] == [3, 3]


def test_failed_commit_is_reported(
    at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_consumer: KafkaConsumer, _offsets: object) -> None:
        raise CommitFailedError("gone")

    monkeypatch.setattr(KafkaConsumer, "commit", fail)
    assert main([*at, "--max-messages", "1"]) == 0
    event = next(event for event in output(capsys) if event["name"] == "offsets_committed")
    assert list(event)[2:] == ["offsets", "error", "success"]
    assert (event["error"], event["success"]) == ("gone", False)
    assert event["offsets"] == [{"topic": topic, "partition": 1, "offset": 1}]


def test_fenced_consumer_shuts_down_cleanly(
    at: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_consumer: KafkaConsumer, _offsets: object) -> None:
        raise FencedInstanceIdError("another has this id")

    monkeypatch.setattr(KafkaConsumer, "commit", fail)
    assert main([*at, "--max-messages", str(COUNT)]) == 1
    printed = capsys.readouterr()
    assert printed.err == "ottla verifiable-consumer: another has this id\n"
    names = [json.loads(line)["name"] for line in printed.out.splitlines()]
    assert "offsets_committed" not in names
    assert names[-2:] == ["shutdown_complete", "shutdown_requested"]


def test_commit_interrupted_by_a_signal_is_retried(
    ottla_broker: Broker,
    at: tuple[str, ...],
    topic: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit = KafkaConsumer.commit

    def wake_first(consumer: KafkaConsumer, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        monkeypatch.undo()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(WakeupError):
            commit(consumer, offsets)
        raise WakeupError

    monkeypatch.setattr(KafkaConsumer, "commit", wake_first)
    assert main([*at]) == 128 + signal.SIGTERM
    names = [event["name"] for event in output(capsys)]
    assert names[-4:] == ["offsets_committed", "shutdown_requested", "partitions_revoked", "shutdown_complete"]
    assert committed(ottla_broker, topic) == COUNT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_shuts_the_consumer_down_cleanly(at: tuple[str, ...], number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-m", "ottla", *at], stdout=subprocess.PIPE) as tool:
        assert tool.stdout is not None
        while json.loads(tool.stdout.readline())["name"] != "offsets_committed":
            pass
        tool.send_signal(number)
        rest = [json.loads(line)["name"] for line in tool.stdout]
    assert rest == ["shutdown_requested", "partitions_revoked", "shutdown_complete"]
    assert tool.returncode == 128 + number


def test_reset_policy_none_without_offset_ends_the_consumer_with_an_error(
    at: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "--reset-policy", "none"]) == 1
    printed = capsys.readouterr()
    assert "auto.offset.reset is none" in printed.err
    assert printed.err.count("\n") == 1
    assert json.loads(printed.out.splitlines()[-1])["name"] == "shutdown_requested"


def test_unreachable_broker_fails_after_the_api_timeout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "consumer.properties"
    config.write_text("default.api.timeout.ms=100\n")
    requests = ("--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--group-id", "g", "--command-config", str(config))
    assert main(["verifiable-consumer", *requests]) == 1
    assert (
        capsys.readouterr().err
        == "ottla verifiable-consumer: no broker of 127.0.0.1:1 could be reached within 100 ms\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--reset-policy", "soon"), "auto.offset.reset: 'soon' is not allowed"),
        (("--group-protocol", "consumer", "--session-timeout", "6000"), "session.timeout.ms cannot be set"),
        (("--command-config", "a", "--consumer.config", "a"), "together"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_line(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--group-id", "g")
    assert main(["verifiable-consumer", *at, *arguments]) == 1
    printed = capsys.readouterr()
    assert words in printed.err
    assert (printed.err.count("\n"), printed.out) == (1, "")
