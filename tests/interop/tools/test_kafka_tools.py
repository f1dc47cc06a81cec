"""Apache Kafka's command-line tools, unmodified, against our broker."""

from __future__ import annotations

import re
import subprocess
import uuid

import pytest
from scripts import apache_kafka
from tests.interop.kafka_jars import run_tool

from ottla.cli.main import main

pytestmark = pytest.mark.interop

TOOLS = "org.apache.kafka.tools."


def tool(bootstrap: str, name: str, *arguments: str) -> str:
    result = run_tool(TOOLS + name, "--bootstrap-server", bootstrap, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.compatibility(
    "Kafka's tools",
    "topics, records, groups",
    "TopicCommand, ConsoleProducer, ConsoleConsumer, GetOffsetShell, ConsumerGroupCommand",
)
def test_kafka_tools_create_topics_transfer_records_and_describe_groups(bootstrap: str) -> None:
    topic = group = f"java-{uuid.uuid4().hex[:8]}"
    assert f"Created topic {topic}." in tool(
        bootstrap, "TopicCommand", "--create", "--topic", topic, "--partitions", "3"
    )
    described = tool(bootstrap, "TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert described.count("Leader: 0") == 3
    command = apache_kafka.java(TOOLS + "ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", topic)
    lines = [f"line {i}" for i in range(1000)]
    subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=True, timeout=120, capture_output=True)
    reading = ("--topic", topic, "--from-beginning", "--max-messages", "1000", "--group", group)
    assert sorted(tool(bootstrap, "consumer.ConsoleConsumer", *reading).splitlines()) == sorted(lines)
    offsets = tool(bootstrap, "GetOffsetShell", "--topic", topic)
    assert sum(int(line.rpartition(":")[2]) for line in offsets.split()) == 1000
    lag = tool(bootstrap, "consumer.group.ConsumerGroupCommand", "--describe", "--group", group)
    rows = re.findall(rf"{group}\s+{topic}\s+\d\s+(\d+)\s+(\d+)\s+(\d+)", lag)
    assert sum(int(committed) for committed, _, _ in rows) == 1000
    assert {left for _, _, left in rows} == {"0"}
    tool(bootstrap, "TopicCommand", "--delete", "--topic", topic)
    assert topic not in tool(bootstrap, "TopicCommand", "--list").split()


@pytest.mark.compatibility("Kafka's tools", "throughput", "ProducerPerformance, ConsumerPerformance")
def test_kafka_perf_test_tools_transfer_a_hundred_thousand_records(bootstrap: str) -> None:
    topic = f"perf-{uuid.uuid4().hex[:8]}"
    load = ("--topic", topic, "--num-records", "100000")
    sent = tool(bootstrap, "ProducerPerformance", *load, "--record-size", "100", "--throughput", "-1")
    assert "100000 records sent" in sent
    read = tool(bootstrap, "ConsumerPerformance", *load)
    assert int(read.strip().splitlines()[-1].split(", ")[4]) >= 100_000


@pytest.mark.compatibility("Kafka's tools", "options, quotas, passwords", "ConfigCommand, compared with ottla configs")
def test_ottla_configs_prints_the_output_of_kafka_configs(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"configs-{uuid.uuid4().hex[:8]}"
    tool(bootstrap, "TopicCommand", "--create", "--topic", name, "--config", "retention.ms=5000")
    at = ("--bootstrap-server", bootstrap)
    for added in ("producer_byte_rate=20000000", "SCRAM-SHA-512=[iterations=8192,password=x]"):
        assert main(["configs", *at, "--alter", "--user", name, "--add-config", added]) == 0
    assert main(["configs", *at, "--alter", "--client-metrics", name, "--add-config", "interval.ms=10000"]) == 0
    capsys.readouterr()
    for expected in (
        ("--topic", name),
        ("--topic", name, "--all"),
        ("--entity-type", "brokers"),
        ("--user", name),
        ("--client-metrics", name),
        ("--topic", "nowhere"),
    ):
        theirs = run_tool("kafka.admin.ConfigCommand", *at, "--describe", *expected)
        assert theirs.returncode == 0, theirs.stdout + theirs.stderr
        assert main(["configs", *at, "--describe", *expected]) == 0
        assert capsys.readouterr().out == theirs.stdout
