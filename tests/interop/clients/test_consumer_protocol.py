"""`group.protocol=consumer` with third-party clients and tools: librdkafka, the Java consumer, Kafka's command line."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import apache_kafka
from tests.interop.group_members import PARTITIONS, QUICK, Member, read_all, shared, until
from tests.interop.kafka_jars import run_tool
from tests.interop.steady import new_topic, sending

from ottla import KafkaAdminClient, NewTopic
from ottla.broker.embedded import Broker

pytestmark = [pytest.mark.interop, pytest.mark.slow]

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def quick() -> Iterator[str]:
    """A broker whose groups rebalance quickly."""
    with Broker(QUICK) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(quick: str) -> str:
    return new_topic(quick, PARTITIONS, "topic")


@pytest.fixture
def sent(quick: str, topic: str) -> Iterator[list[bytes]]:
    """Values sent to all partitions until the test ends."""
    with sending(quick, topic, PARTITIONS, 0.005) as values:
        yield values


def groups_tool(bootstrap: str, *arguments: str) -> str:
    result = run_tool(GROUPS, "--bootstrap-server", bootstrap, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def kind(bootstrap: str, group: str) -> str:
    """Return the group's type, as its coordinator lists it."""
    admin = pytest.importorskip("confluent_kafka.admin").AdminClient({"bootstrap.servers": bootstrap})
    (records,) = [g for g in admin.list_consumer_groups().result().valid if g.group_id == group]
    return str(records.type.name).lower()


@pytest.mark.parametrize("pattern", [False, True], ids=["name", "pattern"])
@pytest.mark.compatibility("confluent-kafka", "group.protocol=consumer", "members come and go")
def test_partitions_are_rebalanced_as_members_join_and_leave(
    quick: str, topic: str, sent: list[bytes], pattern: bool
) -> None:
    members: list[Member] = []
    try:
        for n in range(3):
            members.append(Member(quick, topic, f"^{topic}.*" if pattern else topic))
            until(lambda n=n: shared(*members), f"{n + 1} members do not share")  # type: ignore[misc]
        members[0].close()
        until(lambda: shared(*members[1:]), "the others do not take over")
        read_all(sent, *members)
    finally:
        for member in members:
            member.close()
    assert not any(m.errors for m in members)
    read = [v for m in members for v in m.values]
    assert len(read) == len(set(read)), "each record was read once"


@pytest.mark.compatibility(
    "confluent-kafka", "group.protocol=consumer", "a topic that comes later is found by a pattern"
)
def test_pattern_subscription_includes_topic_created_later(quick: str) -> None:
    prefix = f"topic-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=quick) as admin:
        admin.create_topics([NewTopic(f"{prefix}-a", 1, 1)])
        member = Member(quick, prefix, f"^{prefix}.*")
        try:
            until(lambda: member.partitions == {(f"{prefix}-a", 0)}, "the first topic is not read")
            admin.create_topics([NewTopic(f"{prefix}-b", 1, 1)])
            until(lambda: (f"{prefix}-b", 0) in member.partitions, "the second topic is not read")
        finally:
            member.close()


@pytest.mark.parametrize("first", ["classic", "consumer"])
@pytest.mark.compatibility("confluent-kafka", "group.protocol=consumer", "a group changes its protocol while it reads")
def test_group_converts_between_classic_and_consumer_protocol_while_reading(
    quick: str, topic: str, sent: list[bytes], first: str
) -> None:
    second = "consumer" if first == "classic" else "classic"
    one = Member(quick, topic, topic, first)
    members = [one]
    try:
        until(lambda: shared(one), "the first member does not read everything")
        assert kind(quick, topic) == first
        members.append(Member(quick, topic, topic, second))
        until(lambda: shared(*members), "the protocols do not share")
        assert kind(quick, topic) == "consumer"
        one.close()
        until(lambda: shared(members[1]), "the second member does not take over")
        assert kind(quick, topic) == second
        members.append(Member(quick, topic, topic, first))
        until(lambda: shared(*members[1:]), "the first protocol does not come back")
        read_all(sent, *members)
    finally:
        for member in members:
            member.close()
    assert not any(m.errors for m in members)


@pytest.mark.compatibility("Java", "group.protocol=consumer", "console consumer and tools")
def test_java_consumer_and_tools_work_with_a_consumer_group(
    quick: str, topic: str, sent: list[bytes], tmp_path: Path
) -> None:
    reason = apache_kafka.missing()
    if reason:
        pytest.skip(reason)
    output = tmp_path / "java.out"
    command = apache_kafka.java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", quick, "--topic", topic, "--group", topic, "--from-beginning"),
        *("--command-property", "group.protocol=consumer"),
    )
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
    member = Member(quick, topic, topic)
    try:
        until(lambda: len(output.read_bytes()) > 0 and len(member.partitions) == PARTITIONS // 2, "they do not share")
        members = groups_tool(quick, "--describe", "--group", topic, "--members", "--verbose")
        assert len(re.findall(rf"{topic}\s+\S+\s+/127.0.0.1\s+\S+\s+3\s", members)) == 2, members
        state = groups_tool(quick, "--describe", "--group", topic, "--state")
        assert re.search(rf"{topic}\s+127.0.0.1:\d+\s+\(0\)\s+uniform\s+Stable\s+2", state), state
        assert re.search(rf"{topic}\s+Consumer", groups_tool(quick, "--list", "--type")), "the type is listed"
        with KafkaAdminClient(bootstrap_servers=quick) as admin:
            ours = admin.describe_consumer_groups([topic])[topic]
        assert (ours.state, ours.protocol) == ("Stable", "uniform")
        assert sorted(tp.partition for m in ours.members for tp in m.assignment) == list(range(PARTITIONS))
        goal = set(sent)
        until(lambda: goal <= {*output.read_bytes().split(), *member.values}, "a record is missing")
    finally:
        apache_kafka.wait_for_end(process)
        member.close()
    assert "successful" in groups_tool(quick, "--delete", "--group", topic)
