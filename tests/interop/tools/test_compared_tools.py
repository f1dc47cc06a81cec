"""Our tools and Apache Kafka's of the same name print the same bytes for the same arguments and the same broker."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop.kafka_jars import run_tool

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.cli.main import main

pytestmark = pytest.mark.interop

Compare = Callable[..., str]
"""(our command, Kafka's class, arguments, exit code) → the output of both."""
NOON = 1_700_000_000_000


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Compare:
    """Run both tools, and compare outputs and exit codes, and the errors of which Kafka prints a single line."""

    def run_both(command: str, kafkas: str, *arguments: str, code: int = 0) -> str:
        theirs = run_tool(f"org.apache.kafka.tools.{kafkas}", *arguments)
        assert theirs.returncode == code, theirs.stdout + theirs.stderr
        assert main([command, *arguments]) == code
        ours = capsys.readouterr()
        assert ours.out == theirs.stdout
        assert theirs.stderr.count("\n") != 1 or ours.err == theirs.stderr
        return ours.out

    return run_both


@pytest.fixture
def visits(address: str) -> str:
    """Create a topic of eleven partitions; 2 has records of NOON, a second later and half a second later."""
    name = f"visits-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=address) as admin, KafkaProducer(bootstrap_servers=address) as producer:
        admin.create_topics([NewTopic(name, 11, 1, topic_configs={"retention.ms": "-1"})])
        for late in (0, 1000, 500):
            producer.send(name, b"x", partition=2, timestamp_ms=NOON + late).get(10)
    return name


@pytest.mark.compatibility("Kafka's tools", "offsets", "GetOffsetShell, compared with ottla get-offsets")
def test_ottla_get_offsets_prints_the_output_of_kafka_get_offsets(address: str, visits: str, compare: Compare) -> None:
    at = ("get-offsets", "GetOffsetShell", "--bootstrap-server", address)
    assert f"{visits}:10:0\n{visits}:2:3\n" in compare(*at, "--exclude-internal-topics")
    for options, lines in (
        (("--topic", visits, "--partitions", "2,10", "--time", "earliest"), 2),
        (("--topic", f"'{visits} | nowhere'", "--time", "max-timestamp"), 1),
        (("--topic-partitions", f"{visits}:1-3,{visits}:-1", "--time", str(NOON + 1)), 1),
    ):
        assert compare(*at, *options).count("\n") == lines
    compare(*at, "--topic", "nowhere", code=1)
    compare(*at, "--time", "soon", code=1)


@pytest.mark.compatibility(
    "Kafka's tools", "records, deleted", "DeleteRecordsCommand, compared with ottla delete-records"
)
def test_ottla_delete_records_prints_the_output_of_kafka_delete_records(
    address: str, visits: str, tmp_path: Path, compare: Compare
) -> None:
    file = tmp_path / "offsets.json"
    arguments = (
        "delete-records",
        "DeleteRecordsCommand",
        "--bootstrap-server",
        address,
        "--offset-json-file",
        str(file),
    )
    for offset, low in ((2, 2), (-1, 3), (0, 3)):
        partitions = [{"topic": visits, "partition": 2, "offset": offset}]
        file.write_text(json.dumps({"version": 1, "partitions": partitions}))
        assert compare(*arguments).endswith(f"\npartition: {visits}-2\tlow_watermark: {low}\n")
    file.write_text('{"partitions":[]}')
    compare(*arguments)
    file.write_text("{")
    compare(*arguments, code=1)


@pytest.mark.compatibility(
    "Kafka's tools", "versions of APIs", "BrokerApiVersionsCommand, compared with ottla broker-api-versions"
)
def test_ottla_broker_api_versions_prints_the_output_of_kafka_broker_api_versions(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--bootstrap-server", address)
    theirs = run_tool("org.apache.kafka.tools.BrokerApiVersionsCommand", *at)
    assert main(["broker-api-versions", *at]) == theirs.returncode == 0
    ours = capsys.readouterr().out
    assert BRACKETS.sub("", ours) == BRACKETS.sub("", theirs.stdout)
    lines = zip(ours.splitlines(), theirs.stdout.splitlines(), strict=True)
    assert {line.strip().partition("(")[0] for line, their in lines if line != their} <= {*OTTLA_ONLY, *KAFKA_ONLY}


BRACKETS = re.compile(r" \[(usable: \d+|unusable: node too (new|old))\](?=,?$)", re.MULTILINE)
"""The versions that a client can use: our client and Kafka 4.3's support different ones."""
OTTLA_ONLY = (
    *("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"),  # removed in Kafka 4
    *("ApiVersions", "TxnOffsetCommit", "DeleteGroups"),  # the newest versions are Kafka 4.4's
)
KAFKA_ONLY = (
    *("InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState"),
    *("ReadShareGroupStateSummary", "StreamsGroupHeartbeat", "StreamsGroupDescribe"),
)


@pytest.mark.compatibility("Kafka's tools", "data directories", "LogDirsCommand, compared with ottla log-dirs")
def test_ottla_log_dirs_prints_the_output_of_kafka_log_dirs(
    address: str, visits: str, compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--bootstrap-server", address, "--describe")
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(f"{visits}-too", 1, 1)])
    for topic in (f"{visits}-too", "nowhere"):
        compare("log-dirs", "LogDirsCommand", *arguments, "--topic-list", topic)
    compare("log-dirs", "LogDirsCommand", *arguments, "--broker-list", "4711", code=1)
    # Kafka prints several partitions in the order of Java's hash tables.
    theirs = run_tool("org.apache.kafka.tools.LogDirsCommand", *arguments, "--topic-list", visits)
    assert main(["log-dirs", *arguments, "--topic-list", visits]) == theirs.returncode == 0
    ours = capsys.readouterr().out
    assert ours.splitlines()[:2] == theirs.stdout.splitlines()[:2]
    assert parts(ours) == parts(theirs.stdout)
    assert len(parts(ours)) > 11


def parts(printed: str) -> list[str]:
    """Return the sorted parts of the line of JSON."""
    return sorted(re.findall(r"[^{}\[\]]+", printed.splitlines()[2]))


@pytest.mark.compatibility(
    "Kafka's tools", "offsets of groups", "ConsumerGroupCommand, compared with ottla consumer-groups"
)
def test_ottla_consumer_groups_resets_and_deletes_offsets_as_kafka_consumer_groups(
    address: str, visits: str, tmp_path: Path, compare: Compare
) -> None:
    group = f"readers-of-{visits}"
    at = ("consumer-groups", "consumer.group.ConsumerGroupCommand", "--bootstrap-server", address, "--group", group)
    reset = (*at, "--reset-offsets", "--topic", f"{visits}:2")
    for spec, offset in (
        (("--to-earliest",), 0),
        (("--to-latest",), 3),
        (("--to-offset", "1", "--execute"), 1),
        (("--to-current", "--dry-run"), 1),
        (("--shift-by", "1"), 2),
        (("--shift-by", "7", "--dry-run"), 3),
        (("--to-datetime", "2023-11-14T22:13:20.500Z"), 1),
        (("--by-duration", "P1D"), 3),
    ):
        assert compare(*reset, *spec).endswith(f" 2          {offset}\n")
    exported = compare(*reset, "--to-latest", "--export", "--dry-run")
    file = tmp_path / "plan.csv"
    file.write_text(exported.strip())
    compare(*at, "--reset-offsets", "--from-file", str(file), "--execute")
    # the group still has an offset after both deletions: without any, Kafka 3.9 removes the group
    compare(*at, "--reset-offsets", "--topic", f"{visits}:3", "--to-latest", "--execute")
    delete = (*at, "--delete-offsets", "--topic")
    assert " 2          Successful" in compare(*delete, f"{visits}:2")
    compare(*delete, "nowhere")
    compare(*at[:-1], "unknown", "--delete-offsets", "--topic", f"{visits}:2")
    with KafkaConsumer(visits, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest") as consumer:
        while not consumer.poll(1000):
            pass
        assert "is inactive, but the current state is Stable." in compare(*reset, "--to-latest", "--dry-run")
        compare(*delete, f"{visits}:2")
