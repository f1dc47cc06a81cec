"""`ottla producer-perf-test` against a broker in this process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker, KafkaConsumer, TopicPartition
from ottla.cli.main import main

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")
SUMMARY_LINE = re.compile(r"^\d+(?: steady state)? records sent", re.MULTILINE)


@pytest.fixture
def at(ottla_broker: Broker, topic: str) -> tuple[str, ...]:
    server = ottla_broker.bootstrap_servers
    return "producer-perf-test", "--bootstrap-server", server, "--topic", topic, "--throughput", "-1"


def values(broker: Broker, topic: str, **options: Any) -> list[bytes]:
    """Return the values of all records in a topic of two partitions."""
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, **options) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        result = []
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            result += [r.value for some in consumer.poll(timeout_ms=1000).values() for r in some]
    return result


def test_records_of_the_given_number_and_size_are_sent(
    ottla_broker: Broker, at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*at, "--num-records", "5000", "--record-size", "100"]) == 0
    assert SUMMARY_LINE.findall(capsys.readouterr().out) == ["5000 records sent"]
    assert [len(value) for value in values(ottla_broker, topic)] == [100] * 5000


def test_warmup_has_a_separate_summary(at: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*at, "--num-records", "300", "--payload-monotonic", "--warmup-records", "100"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Warmup first 100 records. Steady state results will print after")
    assert SUMMARY_LINE.findall(out) == ["300 records sent", "200 steady state records sent"]


def test_all_transactions_are_committed(
    ottla_broker: Broker, at: tuple[str, ...], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = ("--throughput", "2000", "--transaction-duration-ms", "10")
    assert main([*at, "--num-records", "200", "--payload-monotonic", *rate, "--reporting-interval", "50"]) == 0
    committed = values(ottla_broker, topic, isolation_level="read_committed")
    assert sorted(map(int, committed)) == list(range(200))
    *windows, total = [int(line.split()[0]) for line in SUMMARY_LINE.findall(capsys.readouterr().out)]
    assert total == 200
    assert 0 < sum(windows) <= 200


def test_throughput_is_not_exceeded(at: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*at, "--num-records", "50", "--payload-monotonic", "--throughput", "500", "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["total"]
    assert total["records"] == 50
    # The last but one record is due after 49 / 500 s.
    assert total["elapsed_ms"] >= 95


def test_failed_records_are_not_counted_as_sent(at: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    limit = ("--command-property", "max.request.size=1000", "client.id=small")
    assert main([*at, "--num-records", "3", "--record-size", "2000", *limit]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("0 records sent, ")
    assert "max.request.size" in printed.err
    assert printed.err.endswith("3 of 3 records failed\n")
    assert printed.err.count("\n") == 2


def test_payload_file_is_sent_and_metrics_are_printed(
    ottla_broker: Broker, at: tuple[str, ...], topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "words.txt"
    file.write_text("one,two")
    payloads = ("--payload-file", str(file), "--payload-delimiter", ",")
    assert main([*at, "--num-records", "40", *payloads, "--print-metrics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"Reading payloads from: {file}", "Number of records read: 2"]
    assert any(line.startswith("producer-metrics:record-send-total:{client-id=perf-producer-client}") for line in lines)
    assert set(values(ottla_broker, topic)) == {b"one", b"two"}
    assert main([*at, "--num-records", "1", *payloads, "--print-metrics", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["metrics"]["producer-metrics:record-send-total:{client-id=perf-producer-client}"] == 1


def test_deprecated_options_are_accepted_with_a_warning(
    ottla_broker: Broker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "producer.properties"
    config.write_text("bootstrap.servers=127.0.0.1:1\ntransactional.id=t\n")
    old = ("--producer.config", str(config), "--producer-props", f"bootstrap.servers={ottla_broker.bootstrap_servers}")
    requests = ("--topic", topic, "--num-records", "1", "--record-size", "1", "--throughput", "-1")
    assert main(["producer-perf-test", *requests, *old]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        f"Option {o} has been deprecated and will be removed in a future version. Use {n} instead."
        for o, n in (("--producer-props", "--command-property"), ("--producer.config", "--command-config"))
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--num-records", "0"), "--num-records should be greater than zero"),
        (("--record-size", "-1"), "--record-size should be greater than zero"),
        (("--reporting-interval", "0"), "--reporting-interval should be"),
        (("--transaction-duration-ms", "0"), "--transaction-duration-ms should be"),
        (("--warmup-records", "10"), "--warmup-records 10 must be fewer than --num-records 10"),
        (("--throughput", "0"), "--throughput 0: nothing would be sent"),
        (("--throughput", "nan"), "--throughput nan"),
        (("--command-property", "a=b", "--producer-props", "a=b"), "cannot be specified together"),
        (("--command-property", "acks"), "'acks' is not allowed"),
        (("--command-property", "max.block.ms=500"), "127.0.0.1:1"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_line(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    required = ("--topic", "t", "--num-records", "10", "--record-size", "10", "--throughput", "-1")
    assert main(["producer-perf-test", *NOWHERE, *required, *arguments]) == 1
    error_lines = capsys.readouterr().err.splitlines()
    assert words in error_lines[-1]
    assert [line for line in error_lines[:-1] if not line.startswith("Option ")] == []


def test_missing_bootstrap_server_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    required = ("--topic", "t", "--num-records", "10", "--record-size", "10", "--throughput", "-1")
    assert main(["producer-perf-test", *required]) == 1
    assert "--bootstrap-server is missing" in capsys.readouterr().err
