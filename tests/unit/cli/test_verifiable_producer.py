"""`ottla verifiable-producer` against a broker in this process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker, KafkaConsumer, TopicPartition
from ottla.cli.main import main

NOON = 1_700_000_000_000


@pytest.fixture
def at(ottla_broker: Broker, topic: str) -> tuple[str, ...]:
    return "verifiable-producer", "--bootstrap-server", ottla_broker.bootstrap_servers, "--topic", topic


def output(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_record_is_reported_with_its_partition_and_offset(
    ottla_broker: Broker, at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--value-prefix", "7", "--repeating-keys", "3", "--message-create-time", str(NOON))
    assert main([*at, "--max-messages", "5", *options]) == 0
    first, *sent, shutdown, data = output(capsys)
    assert (first["name"], shutdown["name"]) == ("startup_complete", "shutdown_complete")
    assert list(sent[0]) == ["timestamp", "name", "key", "value", "offset", "topic", "partition"]
    keys = {event["value"]: event["key"] for event in sent}
    assert keys == {"7.0": "0", "7.1": "1", "7.2": "2", "7.3": "0", "7.4": "1"}
    assert list(data)[1:] == ["name", "sent", "acked", "target_throughput", "avg_throughput"]
    assert (data["sent"], data["acked"], data["target_throughput"]) == (5, 5, -1)
    assert data["avg_throughput"] > 0
    result = {(p, o): r for p, o, r in records(ottla_broker, topic)}
    assert {e["value"] for e in sent if result[e["partition"], e["offset"]].value == e["value"].encode()} == set(keys)
    times = [record.timestamp for record in result.values()]
    assert min(times) >= NOON
    assert max(times) < NOON + 60_000


def records(broker: Broker, topic: str) -> list[tuple[int, int, Any]]:
    """Return partition, offset and record for all records of a topic of two partitions."""
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with KafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        result = []
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            result += [(r.partition, r.offset, r) for some in consumer.poll(timeout_ms=1000).values() for r in some]
    return result


def test_failed_record_is_reported_with_javas_exception_class(
    at: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "producer.properties"
    config.write_text("max.request.size=50\nvalue.serializer=org.apache.kafka.common.serialization.StringSerializer\n")
    assert main([*at, "--max-messages", "1", "--producer.config", str(config)]) == 0
    deprecated, *lines = capsys.readouterr().out.splitlines()
    assert deprecated.startswith("Option --producer.config has been deprecated")
    _, failed, _, data = map(json.loads, lines)
    assert list(failed)[1:] == ["name", "topic", "key", "value", "exception", "message"]
    assert failed["exception"] == "class org.apache.kafka.common.errors.RecordTooLargeException"
    assert (failed["name"], failed["key"], failed["value"]) == ("producer_send_error", None, "0")
    assert (data["sent"], data["acked"], data["avg_throughput"]) == (1, 0, 0.0)


def test_invalid_topic_is_reported_for_each_record(ottla_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    address = ottla_broker.bootstrap_servers
    assert main(["verifiable-producer", "--bootstrap-server", address, "--topic", "a b", "--max-messages", "2"]) == 0
    failed = [event for event in output(capsys) if event["name"] == "producer_send_error"]
    assert [event["value"] for event in failed] == ["0", "1"]
    assert {event["exception"] for event in failed} == {"class org.apache.kafka.common.errors.InvalidTopicException"}


def test_throughput_is_not_exceeded(at: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*at, "--max-messages", "21", "--throughput", "200"]) == 0
    events = output(capsys)
    # The record after the 20th waits until 20 / 200 s have passed.
    assert events[-2]["timestamp"] - events[0]["timestamp"] >= 95
    assert events[-1]["target_throughput"] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_producer_with_a_summary(at: tuple[str, ...], number: signal.Signals) -> None:
    # After two records it waits forever.
    with started(*at, "--throughput", "0", "--acks", "1") as tool:
        assert tool.stdout is not None
        names = [json.loads(tool.stdout.readline())["name"] for _ in range(3)]
        assert names == ["startup_complete", "producer_send_success", "producer_send_success"]
        tool.send_signal(number)
        shutdown, data = map(json.loads, tool.stdout)
    assert (shutdown["name"], data["name"], data["sent"], data["acked"]) == ("shutdown_complete", "tool_data", 2, 2)
    assert tool.returncode == 128 + number


def test_signal_ends_the_producer_while_no_broker_is_reachable() -> None:
    with started("verifiable-producer", "--bootstrap-server", "127.0.0.1:1", "--topic", "t") as tool:
        assert tool.stdout is not None
        tool.stdout.readline()
        tool.terminate()
        tool.wait(timeout=20)  # max.block.ms is a minute
        assert json.loads(tool.stdout.readlines()[-1])["acked"] == 0
    assert tool.returncode == 128 + signal.SIGTERM


def started(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "ottla", *arguments], stdout=subprocess.PIPE)


def test_closed_pipe_ends_the_tool(at: tuple[str, ...]) -> None:
    with started(*at, "--throughput", "200") as tool:
        assert tool.stdout is not None
        tool.stdout.readline()
        tool.stdout.close()
        assert tool.wait(timeout=20) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--bootstrap-server", ","), "--bootstrap-server: ',' names no server"),
        (("--bootstrap-server", "127.0.0.1:1", "--command-config", "/nowhere"), "/nowhere"),
        (("--bootstrap-server", "127.0.0.1:1", "--command-config", "a", "--producer.config", "a"), "together"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_line(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verifiable-producer", "--topic", "t", *arguments]) == 1
    printed = capsys.readouterr()
    assert words in printed.err
    assert (printed.err.count("\n"), printed.out) == (1, "")
