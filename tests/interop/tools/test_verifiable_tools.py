"""Our verifiable producer and consumer print the same events as Apache Kafka's, except for times."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from scripts import apache_kafka

from ottla import KafkaAdminClient, KafkaProducer, NewTopic
from ottla.cli.main import main

pytestmark = pytest.mark.interop

IGNORED_FIELDS = ("timestamp", "avg_throughput", "message")
"""Fields that are not compared. `message` is the text of an error, which differs between the clients."""
ONE = {"max.message.bytes": "200"}


def events(printed: str) -> list[Any]:
    """Return the events without ignored fields and the order of fields, which in Kafka is that of Java's reflection."""
    lines = printed.rstrip("\n").split("\n")  # splitlines() would also split at other separators in values
    return [json.loads(line, object_hook=_without_times) if line.startswith("{") else line for line in lines]


def _without_times(event: dict[str, Any]) -> dict[str, Any]:
    return {name: "…" if name in IGNORED_FIELDS else value for name, value in event.items()}


@pytest.fixture
def topics(address: str) -> list[str]:
    """Create two equal topics of one partition each, so that records are in order, with batches up to 200 bytes."""
    names = [f"verified-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(name, 1, 1, topic_configs=ONE) for name in names])
    return names


@pytest.mark.compatibility("Kafka's tools", "verifying", "VerifiableProducer, compared with ottla verifiable-producer")
@pytest.mark.parametrize(
    "options",
    [
        ("--max-messages", "3"),
        ("--max-messages", "0", "--throughput", "5"),
        ("--max-messages", "5", "--value-prefix", "7", "--repeating-keys", "2", "--throughput", "100", "--acks", "1"),
        ("--max-messages", "2", "--acks", "0", "--message-create-time", "1700000000000"),
        ("--max-messages", "1", "--value-prefix", "7", "--producer.config", "small.properties"),
    ],
)
def test_ottla_verifiable_producer_prints_the_events_of_kafkas_tool(
    address: str, topics: list[str], options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small.properties"
    small.write_text("max.request.size=50\n")
    arguments = [str(small) if option == small.name else option for option in options]
    at = ("--bootstrap-server", address, *arguments, "--topic")
    theirs = kafkas("VerifiableProducer", *at, topics[0])
    assert main(["verifiable-producer", *at, topics[1]]) == theirs.returncode == 0
    ours = events(capsys.readouterr().out.replace(topics[1], topics[0]))
    assert ours == events(theirs.stdout)


@pytest.fixture
def visits(address: str, topics: list[str]) -> str:
    """Send eight records in one batch, and return the topic."""
    with KafkaProducer(bootstrap_servers=address) as producer:
        values = [b"\xffz\xc3", 'ä"\n\u2028'.encode(), *(b"%d" % number for number in range(6))]
        producer.send_batch(topics[0], values=values, keys=[b"k", *[None] * 7]).get(timeout=10)
    return topics[0]


@pytest.mark.compatibility("Kafka's tools", "verifying", "VerifiableConsumer, compared with ottla verifiable-consumer")
@pytest.mark.parametrize(
    "options",
    [
        ("--max-messages", "8", "--verbose"),
        ("--max-messages", "5", "--group-instance-id", "me", "--session-timeout", "6000"),
        ("--max-messages", "8", "--enable-autocommit", "--consumer.config", "few.properties"),
        ("--max-messages", "0", "--assignment-strategy", "org.apache.kafka.clients.consumer.RoundRobinAssignor"),
    ],
)
def test_ottla_verifiable_consumer_prints_the_events_of_kafkas_tool(
    address: str, visits: str, options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tmp_path / "few.properties"
    few.write_text("max.poll.records=3\n")
    arguments = [str(few) if option == few.name else option for option in options]
    compare_consumers(address, visits, arguments, capsys)


@pytest.mark.compatibility("Kafka's tools", "verifying", "VerifiableConsumer with group.protocol=consumer")
def test_ottla_verifiable_consumer_of_consumer_protocol_prints_the_events_of_kafkas_tool(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"verified-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin, KafkaProducer(bootstrap_servers=bootstrap) as producer:
        admin.create_topics([NewTopic(topic, 1, 1)])
        producer.send(topic, b"x").get(timeout=10)
    protocol = ("--group-protocol", "CONSUMER", "--group-remote-assignor", "range")
    compare_consumers(bootstrap, topic, ["--max-messages", "1", *protocol], capsys)


def kafkas(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a tool in its own JVM, since it prints events in shutdown hooks. Skip the test if Kafka is not available."""
    if reason := apache_kafka.missing():
        pytest.skip(reason)
    command = apache_kafka.java(f"org.apache.kafka.tools.{tool}", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def compare_consumers(address: str, topic: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    at = ("--bootstrap-server", address, "--topic", topic, *options, "--group-id")
    theirs = kafkas("VerifiableConsumer", *at, f"{topic}-theirs")
    assert main(["verifiable-consumer", *at, f"{topic}-ours"]) == theirs.returncode == 0
    assert _without_empty(events(capsys.readouterr().out)) == _without_empty(events(theirs.stdout))


def _without_empty(events_of_consumer: list[Any]) -> list[Any]:
    """Return the events without assignments of no partition: with the consumer protocol, Kafka's consumer reports one
    if it has the assignment before the name of the topic.
    """
    return [event for event in events_of_consumer if not isinstance(event, dict) or event.get("partitions") != []]
