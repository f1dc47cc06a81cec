"""Our performance tools print the same lines as Apache Kafka's, except for the numbers."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest
from tests.interop.kafka_jars import run_tool

from ottla import KafkaProducer
from ottla.broker.embedded import Broker
from ottla.cli.main import main

pytestmark = pytest.mark.interop

NUMBER = re.compile(r"\d+(\.\d+)?")


def shape(text: str) -> list[str]:
    """Return the lines, with each number replaced by the length of its fraction."""
    return [NUMBER.sub(lambda match: f"<{len(match[1] or '')}>", line) for line in text.splitlines()]


@pytest.fixture
def topic() -> str:
    return f"perf-{uuid.uuid4().hex[:8]}"


@pytest.mark.compatibility("Kafka's tools", "measuring", "ProducerPerformance, compared with ottla producer-perf-test")
@pytest.mark.parametrize(
    "options",
    [
        ("--record-size", "100", "--throughput", "-1"),
        ("--record-size", "100", "--throughput", "-1", "--warmup-records", "500"),
        ("--record-size", "2000000", "--throughput", "-1", "--num-records", "2"),
        (
            "--payload-monotonic",
            "--throughput",
            "5000",
            "--transaction-duration-ms",
            "50",
            "--producer-props",
            "acks=all",
        ),
        ("--payload-file", "words.txt", "--payload-delimiter", "[,;]", "--throughput", "-1"),
    ],
)
def test_ottla_producer_perf_test_prints_the_output_of_kafka_producer_perf_test(
    broker: Broker, topic: str, options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "words.txt"
    file.write_text(";one,two;;three,")
    arguments = [str(file) if option == file.name else option for option in options]
    request = ("--bootstrap-server", broker.bootstrap_servers, "--topic", topic, "--num-records", "1000", *arguments)
    theirs = run_tool("org.apache.kafka.tools.ProducerPerformance", *request)
    assert theirs.returncode == 0, theirs.stdout + theirs.stderr
    main(["producer-perf-test", *request])
    output = capsys.readouterr().out
    assert shape(output) == shape(theirs.stdout)
    if options[0] == "--payload-file":
        assert output.splitlines()[:2] == theirs.stdout.splitlines()[:2]


@pytest.mark.compatibility("Kafka's tools", "measuring", "wrong use, compared with ottla producer-perf-test")
@pytest.mark.parametrize(
    "wrong",
    [
        ("--num-records", "0"),
        ("--record-size", "0"),
        ("--warmup-records", "10"),
        ("--reporting-interval", "0"),
        ("--transaction-duration-ms", "-1"),
        ("--command-property", "acks=1", "--producer-props", "acks=1"),
        ("--command-config", "a", "--producer.config", "a"),
    ],
)
def test_ottla_producer_perf_test_rejects_arguments_that_kafkas_rejects(topic: str, wrong: tuple[str, ...]) -> None:
    at = ("--bootstrap-server", "127.0.0.1:1", "--topic", topic)
    usual = (*at, "--num-records", "10", "--record-size", "10", "--throughput", "-1")
    assert run_tool("org.apache.kafka.tools.ProducerPerformance", *usual, *wrong).returncode == 1
    assert main(["producer-perf-test", *usual, *wrong]) == 1


@pytest.mark.compatibility("Kafka's tools", "measuring", "ConsumerPerformance, compared with ottla consumer-perf-test")
@pytest.mark.parametrize(
    "options",
    [
        ("--num-records", "1000"),
        ("--messages", "1001", "--timeout", "2000", "--hide-header", "--from-latest"),
        ("--num-records", "1000", "--show-detailed-stats"),
        ("--num-records", "1000", "--date-format", "EEE d MMM yy, hh:mm a 'o''clock' SSSS Z D"),
    ],
)
def test_ottla_consumer_perf_test_prints_the_output_of_kafka_consumer_perf_test(
    broker: Broker, topic: str, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_batch(topic, values=[b"x" * 1000] * 1000).get(timeout=60)
    arguments = ("--bootstrap-server", broker.bootstrap_servers, "--topic", topic, *options)
    theirs = run_tool("org.apache.kafka.tools.ConsumerPerformance", *arguments)
    assert theirs.returncode == 0, theirs.stdout + theirs.stderr
    assert main(["consumer-perf-test", *arguments]) == 0
    assert shape(capsys.readouterr().out) == shape(theirs.stdout)
