"""`ottla consumer-perf-test` against a broker in this process."""

from __future__ import annotations

import json

import pytest

from ottla import Broker, KafkaProducer
from ottla.cli.main import main
from ottla.cli.perf.consumer_report import DETAILED_HEADER, HEADER

COUNT = 1200


@pytest.fixture
def at(ottla_broker: Broker, topic: str) -> tuple[str, ...]:
    """Arguments of the command, and a topic with records of ten bytes, key and value together."""
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        producer.send_batch(topic, values=[b"sevenby"] * COUNT, keys=[b"%03d" % (i % 1000) for i in range(COUNT)])
    return "consumer-perf-test", "--bootstrap-server", ottla_broker.bootstrap_servers


def test_result_is_printed_as_a_header_and_one_line(
    at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "--topic", topic, "--num-records", str(COUNT)]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header == HEADER
    output = line.split(", ")
    assert len(output) == len(HEADER.split(", "))
    assert (output[2], output[4]) == (f"{COUNT * 10 / 1024 / 1024:.4f}", str(COUNT))


def test_include_reads_matching_topics_and_prints_json(
    at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "--include", f"x|{topic}", "--num-records", str(COUNT), "--json", "--print-metrics"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["records"], output["bytes"]) == (COUNT, COUNT * 10)
    assert 0 <= output["rebalance_time_ms"] <= output["end_time_ms"] - output["start_time_ms"]
    assert any("client-id=perf-consumer-client" in name for name in output["metrics"])


def test_include_pattern_matches_whole_topic_names(
    at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "--include", topic[:-1], "--num-records", "1", "--timeout", "300", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 0


def test_missing_records_print_a_warning_after_the_timeout(
    at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--topic", topic, "--messages", str(COUNT + 1), "--timeout", "300", "--hide-header")
    assert main([*at, *arguments, "--command-property", "client.id=me"]) == 0
    deprecated, warning, line = capsys.readouterr().out.splitlines()
    assert deprecated == "Warning: --messages is deprecated. Use --num-records instead."
    assert "expected number of records: timeout (300 ms) exceeded" in warning
    assert line.split(", ")[4] == str(COUNT)


def test_from_latest_reads_no_earlier_records(
    at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "--topic", topic, "--from-latest", "--num-records", "1", "--timeout", "300", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 0


def test_detailed_stats_print_a_line_per_interval(
    at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    details = ("--show-detailed-stats", "--reporting-interval", "1", "--date-format", "'now'")
    assert main([*at, "--topic", topic, "--num-records", str(COUNT), *details]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header == DETAILED_HEADER
    assert all(line.startswith("now, 0, ") for line in lines)
    read = [int(line.split(", ")[4]) for line in lines]
    assert read
    assert read == sorted(read)
    assert sum(int(line.split(", ")[6]) for line in lines) >= 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--topic", "t", "--num-records", "0"), "--num-records should be greater than zero"),
        (("--topic", "t", "--num-records", "1", "--reporting-interval", "0"), "--reporting-interval should be"),
        (("--topic", "t", "--num-records", "1", "--date-format", "'"), "--date-format"),
        (("--include", "(", "--num-records", "1"), "--include '(' is not a regular expression"),
        (("--topic", "t", "--num-records", "1", "--timeout", "100"), "no broker of 127.0.0.1:1 could be reached"),
        (("--topic", "t", "--num-records", "1", "--command-config", "a", "--consumer.config", "a"), "together"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_line(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["consumer-perf-test", "--bootstrap-server", "127.0.0.1:1", *arguments]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_unreachable_brokers_of_the_environment_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert main(["consumer-perf-test", "--topic", "t", "--num-records", "1", "--timeout", "100"]) == 1
    assert "no broker of 127.0.0.1:1 could be reached" in capsys.readouterr().err
