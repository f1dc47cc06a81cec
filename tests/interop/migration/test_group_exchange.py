"""Groups in `__consumer_offsets`: Apache Kafka takes up what we wrote, and we what it wrote."""

from __future__ import annotations

import re
import shutil
import uuid
from pathlib import Path

import pytest
from scripts import apache_kafka
from tests.interop.group_members import Member, until
from tests.interop.kafka_jars import kafka, run_tool

from ottla import KafkaAdminClient, NewTopic
from ottla.clock import SYSTEM_CLOCK
from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.cluster.store import znodes
from ottla.config.broker import BrokerConfig
from ottla.config.topic import LogConfig
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_groups import GroupClient
from ottla.coordinator.group.classic.records import read_key
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.group_coordinator import GroupCoordinator
from ottla.coordinator.runtime.coordinator_log import partition_of
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.model import CONSUMER_OFFSETS, TopicPartition
from ottla.net.ports import free_port
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.records.builder import BatchBuilder
from ottla.records.decoder import decode_records
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOPIC = "exchange"
OFFSETS_PARTITIONS = 5
CONFIG = LogConfig(cleanup_policy=("compact",))
TOOLS = "org.apache.kafka.tools."


@pytest.fixture(scope="module", autouse=True)
def _kafka_or_skip() -> None:
    reason = apache_kafka.missing()
    if reason:
        pytest.skip(f"Apache Kafka: {reason}")


def tool(name: str, *arguments: str) -> str:
    result = run_tool(TOOLS + name, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def members(bootstrap: str, group: str) -> str:
    command = "consumer.group.ConsumerGroupCommand"
    return tool(command, "--bootstrap-server", bootstrap, "--describe", "--group", group, "--members", "--verbose")


def log_of(log_dir: LogDir, group: str) -> Log:
    return log_dir.logs[TopicPartition(CONSUMER_OFFSETS, partition_of(group, OFFSETS_PARTITIONS))]


def loaded(log: Log, image: ClusterImage) -> GroupCoordinator:
    """A coordinator that has read a partition of the log."""
    coordinator = GroupCoordinator(BrokerConfig({}), SYSTEM_CLOCK, lambda: image)
    for header, data in log.batches_from(log.log_start_offset):
        for record in [] if header.is_control else decode_records(data, 0, header):
            assert record.key is not None
            actual = read_key(record.key)
            if actual is None or actual[1] is None:
                coordinator.replay(record.key, record.value, live=False)
    return coordinator


def image_of(topic_id: uuid.UUID) -> ClusterImage:
    partition = PartitionImage(1, 0, (1,), (1,))
    return ClusterImage("c", topics={TOPIC: TopicImage(TOPIC, topic_id, (partition,) * 3)}, names={topic_id: TOPIC})


def ours(image: ClusterImage) -> list[CoordinatorRecord]:
    """The records of a group of two members, one of whom waits for what the other has yet to give up."""
    coordinator = GroupCoordinator(BrokerConfig({}), SYSTEM_CLOCK, lambda: image)
    records: list[CoordinatorRecord] = []
    for member in ("first", "second"):
        request = ConsumerGroupHeartbeatRequest(
            group_id="ours",
            member_id=member,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[TOPIC],
            subscribed_topic_regex="exch.*" if member == "second" else None,
            topic_partitions=[],
        )
        result = coordinator.consumer_heartbeat(request, 1, GroupClient("client", "/127.0.0.1"), object())
        for record in result.records:
            coordinator.replay(record.key, record.value, live=True)
        records += result.records
    return records


def append(log: Log, records: list[CoordinatorRecord]) -> None:
    builder = BatchBuilder(bytearray(20_000))
    for record in records:
        assert builder.append(SYSTEM_CLOCK.now_ms(), record.key, record.value)
    log.append(memoryview(bytearray(builder.close())), leader_epoch=log.leader_epochs.latest, origin_client=False)
    log.high_watermark = log.log_end_offset


def test_groups_go_from_kafka_to_us_and_back(tmp_path: Path) -> None:
    port = free_port(in_a_row=2)
    with kafka(tmp_path, port) as bootstrap:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 3, 1)])
        new = Member(bootstrap, "new", f"^{TOPIC}.*")
        old = Member(bootstrap, "old", TOPIC, "classic")
        try:
            until(lambda: len(new.partitions) == len(old.partitions) == 3, "the members do not read")
            described = members(bootstrap, "new")
            # as a crash would leave it: with members in the groups
            shutil.copytree(tmp_path / "log", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
        finally:
            new.close()
            old.close()
    with LogDir.open(tmp_path / "copy", broker_id=1) as log_dir:
        log_dir.load(lambda tp: CONFIG)
        topic_id = log_dir.logs[TopicPartition(TOPIC, 0)].topic_id
        assert topic_id is not None
        image = image_of(znodes.uuid_of(topic_id))
        group = loaded(log_of(log_dir, "new"), image).by_id["new"]
        assert isinstance(group, ConsumerGroup)
        (member,) = group.members.values()
        assert (group.epoch, member.epoch, member.regex) == (group.target_epoch, group.epoch, f"(^{TOPIC}.*)")
        assert member.id in described
        assert len(member.assigned) == 3
        assert group.regexes[member.regex].topics == {TOPIC}
        classic = loaded(log_of(log_dir, "old"), image).by_id["old"]
        assert isinstance(classic, ClassicGroup)
        assert len(classic.members) == 1
    with LogDir.open(tmp_path / "log", broker_id=1) as log_dir:
        log_dir.load(lambda tp: CONFIG)
        log = log_of(log_dir, "ours")
        append(log, ours(image))
        segment = log.dir / "00000000000000000000.log"
    dumped = tool("DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    assert dumped.count('"groupId":"ours"') >= 10, dumped
    assert "Could not decode" not in dumped
    with kafka(tmp_path, port) as bootstrap:
        actual = members(bootstrap, "ours")
    assert re.search(rf"first\s+/127.0.0.1\s+client\s+3\s+1\s+{TOPIC}:0,1,2\s+2\s", actual), actual
    assert re.search(r"second\s+/127.0.0.1\s+client\s+0\s+2\s", actual), actual
