"""Share groups with Apache Kafka's own consumer and tools."""

from __future__ import annotations

import re
import subprocess
import uuid
from pathlib import Path

import pytest
from scripts import apache_kafka
from tests.interop.group_members import until
from tests.interop.kafka_jars import run_tool

from ottla import KafkaAdminClient, KafkaProducer, NewTopic
from ottla.broker.embedded import Broker

pytestmark = [pytest.mark.interop, pytest.mark.slow]

GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
OPTIONS = {"group.share.heartbeat.interval.ms": 200, "group.share.min.heartbeat.interval.ms": 200}
RECORDS = 900


class ShareMember:
    """Kafka's console share consumer, and the lines that it has printed."""

    def __init__(self, bootstrap: str, topic: str, output: Path) -> None:
        self.output = output
        command = apache_kafka.java(
            "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", topic),
            *("--command-property", "max.poll.records=20"),
        )
        with output.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)

    def seen(self) -> list[bytes]:
        return [line for line in self.output.read_bytes().splitlines() if line.isdigit()]

    def close(self) -> None:
        apache_kafka.wait_for_end(self.process)


def send(bootstrap: str, topic: str, values: range) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap, batch_size=200) as producer:
        for value in values:
            producer.send(topic, b"%d" % value)


def described_members(bootstrap: str, group: str) -> int:
    described = run_tool(GROUPS, "--bootstrap-server", bootstrap, "--describe", "--group", group, "--members").stdout
    return len(re.findall(rf"{group}\s+\S+\s+/127.0.0.1\s+console-share-consumer\s+1\s", described))


@pytest.mark.parametrize("brokers", [1, 3])
def test_members_share_the_records_of_one_partition(tmp_path: Path, brokers: int) -> None:
    reason = apache_kafka.missing()
    if reason:
        pytest.skip(reason)
    topic = f"share-{uuid.uuid4().hex[:8]}"
    with Broker(OPTIONS, brokers=brokers) as broker:
        bootstrap = broker.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(topic, 1, 1)])
        earliest = ("--alter", "--entity-type", "groups", "--entity-name", topic)
        reset = ("--add-config", "share.auto.offset.reset=earliest")
        done = run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *earliest, *reset)
        assert done.returncode == 0, done.stderr
        send(bootstrap, topic, range(100))
        members = [ShareMember(bootstrap, topic, tmp_path / f"{n}.out") for n in range(2)]
        try:
            until(lambda: sum(len(m.seen()) for m in members) == 100, "not all records are read")
            until(lambda: described_members(bootstrap, topic) == 2, "the group does not have two members")
            for begin in range(100, RECORDS, 100):
                send(bootstrap, topic, range(begin, begin + 100))
            until(lambda: sum(len(m.seen()) for m in members) >= RECORDS, "not all records are read")
        finally:
            for member in members:
                member.close()
    assert all(m.seen() for m in members), "one member has read nothing"
    assert sorted(int(v) for m in members for v in m.seen()) == list(range(RECORDS)), "a record was lost or read twice"
