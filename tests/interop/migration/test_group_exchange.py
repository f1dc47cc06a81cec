"""Groups in `__consumer_offsets`: Apache Kafka loads the groups that we wrote, and we load Kafka's."""

from __future__ import annotations

import re
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from scripts import apache_kafka
from tests.interop.group_members import Member, until
from tests.interop.kafka_jars import kafka, run_tool
from tests.unit.client.streams_thread import StreamsThread, word_count

from ottla import KafkaAdminClient, NewTopic
from ottla.clock import SYSTEM_CLOCK
from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.cluster.store import znodes
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.topic import LogConfig
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_groups import GroupClient
from ottla.coordinator.group.classic.records import read_key
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.group_coordinator import GroupCoordinator
from ottla.coordinator.group.streams.streams_group import StreamsGroup
from ottla.coordinator.group.streams.tasks import TaskRole, by_subtopology
from ottla.coordinator.runtime.coordinator_log import partition_of
from ottla.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from ottla.model import CONSUMER_OFFSETS, TopicPartition
from ottla.net.ports import free_port
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue, StreamsGroupHeartbeatRequest
from ottla.records.builder import BatchBuilder
from ottla.records.decoder import decode_records
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOPIC = "exchange"
OFFSETS_PARTITIONS = 5
CLIENT = GroupClient("client", "/127.0.0.1")
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


def load_coordinator(log: Log, image: ClusterImage) -> GroupCoordinator:
    """Return a coordinator that has replayed a partition's log."""
    coordinator = GroupCoordinator(BrokerConfig({}), SYSTEM_CLOCK, lambda: image)
    for header, data in log.batches_from(log.log_start_offset):
        for record in [] if header.is_control else decode_records(data, 0, header):
            assert record.key is not None
            actual = read_key(record.key)
            if actual is None or actual[1] is None:
                coordinator.replay(record.key, record.value, live=False)
    return coordinator


def image_of(topic_id: uuid.UUID, *others: str) -> ClusterImage:
    partition = PartitionImage(1, 0, (1,), (1,))
    ids = {TOPIC: topic_id, **{name: uuid.uuid4() for name in others}}
    topics = {name: TopicImage(name, each, (partition,) * 3) for name, each in ids.items()}
    return ClusterImage("c", topics=topics, names={each: name for name, each in ids.items()})


def our_consumer_group(image: ClusterImage) -> list[CoordinatorRecord]:
    """Return the records of a group of two members, one of which waits for partitions that the other has to revoke."""
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
        result = coordinator.consumer_heartbeat(request, 1, CLIENT, object())
        records += replayed(coordinator, result)
    return records


def our_streams_group(image: ClusterImage) -> list[CoordinatorRecord]:
    """Return the records of a streams group of two members, one of which waits until the other closes tasks."""
    config = {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}
    coordinator = GroupCoordinator(BrokerConfig(config), SYSTEM_CLOCK, lambda: image)
    records: list[CoordinatorRecord] = []
    for member, epoch in (("first", 0), ("second", 0), ("first", 2)):
        fields: dict[str, Any] = {"group_id": "ours", "member_id": member, "member_epoch": epoch}
        if epoch == 0:
            fields |= {"process_id": member, "rebalance_timeout_ms": 60_000, "topology": word_count("ours", TOPIC)}
            fields |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            fields |= {"user_endpoint": Endpoint(host="h", port=80), "client_tags": [KeyValue(key="k", value="v")]}
        result = coordinator.streams_heartbeat(StreamsGroupHeartbeatRequest(**fields), CLIENT, object())
        records += replayed(coordinator, result)
    return records


def replayed(coordinator: GroupCoordinator, result: CoordinatorResult) -> list[CoordinatorRecord]:
    for record in result.records:
        coordinator.replay(record.key, record.value, live=True)
    return result.records


def append(log: Log, records: list[CoordinatorRecord]) -> None:
    builder = BatchBuilder(bytearray(20_000))
    for record in records:
        assert builder.append(SYSTEM_CLOCK.now_ms(), record.key, record.value)
    log.append(memoryview(bytearray(builder.close())), leader_epoch=log.leader_epochs.latest, origin_client=False)
    log.high_watermark = log.log_end_offset


def append_and_dump(directory: Path, records: list[CoordinatorRecord]) -> None:
    """Append records of the group `ours` to the log of Kafka's broker, and check that Kafka's tool decodes them."""
    with LogDir.open(directory, broker_id=1) as log_dir:
        log_dir.load(lambda tp: CONFIG)
        log = log_of(log_dir, "ours")
        append(log, records)
        segment = log.dir / "00000000000000000000.log"
    dumped = tool("DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    assert dumped.count('"groupId":"ours"') >= 10, dumped
    assert "Could not decode" not in dumped


def test_groups_written_by_kafka_are_loaded_by_ottla_and_vice_versa(tmp_path: Path) -> None:
    port = free_port(in_a_row=2)
    with kafka(tmp_path, port) as bootstrap:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 3, 1)])
        new = Member(bootstrap, "new", f"^{TOPIC}.*")
        old = Member(bootstrap, "old", TOPIC, "classic")
        try:
            until(lambda: len(new.partitions) == len(old.partitions) == 3, "the members do not read")
            described = members(bootstrap, "new")
            # as after a crash: with members in the groups
            shutil.copytree(tmp_path / "log", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
        finally:
            new.close()
            old.close()
    with LogDir.open(tmp_path / "copy", broker_id=1) as log_dir:
        log_dir.load(lambda tp: CONFIG)
        topic_id = log_dir.logs[TopicPartition(TOPIC, 0)].topic_id
        assert topic_id is not None
        image = image_of(znodes.uuid_of(topic_id))
        group = load_coordinator(log_of(log_dir, "new"), image).by_id["new"]
        assert isinstance(group, ConsumerGroup)
        (member,) = group.members.values()
        assert (group.epoch, member.epoch, member.regex) == (group.target_epoch, group.epoch, f"(^{TOPIC}.*)")
        assert member.id in described
        assert len(member.assigned) == 3
        assert group.regexes[member.regex].topics == {TOPIC}
        classic = load_coordinator(log_of(log_dir, "old"), image).by_id["old"]
        assert isinstance(classic, ClassicGroup)
        assert len(classic.members) == 1
    append_and_dump(tmp_path / "log", our_consumer_group(image))
    with kafka(tmp_path, port) as bootstrap:
        actual = members(bootstrap, "ours")
    assert re.search(rf"first\s+/127.0.0.1\s+client\s+3\s+1\s+{TOPIC}:0,1,2\s+2\s", actual), actual
    assert re.search(r"second\s+/127.0.0.1\s+client\s+0\s+2\s", actual), actual


def test_streams_groups_written_by_kafka_are_loaded_by_ottla_and_vice_versa(tmp_path: Path) -> None:
    port = free_port(in_a_row=2)
    internal = ("ours-words-repartition", "ours-counts-changelog")
    with kafka(tmp_path, port) as bootstrap:
        with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(name, 3, 1) for name in (TOPIC, *internal)])
            with StreamsThread(bootstrap, "new", TOPIC) as thread:
                described = admin.describe_streams_groups(["new"])["new"]
                shutil.copytree(tmp_path / "log", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
    with LogDir.open(tmp_path / "copy", broker_id=1) as log_dir:
        log_dir.load(lambda tp: CONFIG)
        topic_id = log_dir.logs[TopicPartition(TOPIC, 0)].topic_id
        assert topic_id is not None
        image = image_of(znodes.uuid_of(topic_id), *internal)
        group = load_coordinator(log_of(log_dir, "new"), image).by_id["new"]
        assert isinstance(group, StreamsGroup)
        (member,) = group.members.values()
        assert (group.epoch, group.target_epoch) == (described.group_epoch, described.target_assignment_epoch)
        assert (member.id, member.epoch) == (thread.member_id, described.members[0].member_epoch)
        assert group.state_name == described.state
        assert dict(by_subtopology(member.assigned, TaskRole.ACTIVE)) == thread.tasks
        assert group.topology is not None
        assert [*group.topology.subtopologies] == ["0", "1"]
    append_and_dump(tmp_path / "log", our_streams_group(image))
    with kafka(tmp_path, port) as bootstrap, KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        ours = admin.describe_streams_groups(["ours"])["ours"]
    assert (ours.state, ours.group_epoch, ours.target_assignment_epoch, ours.topology_epoch) == ("Reconciling", 3, 3, 0)
    first, second = sorted(ours.members)
    assert (first.member_epoch, first.assignment.active) == (2, {"0": (0,), "1": (0, 1)})
    assert (second.member_epoch, second.assignment.active) == (3, {})
    assert (first.endpoint, first.client_tags, first.process_id) == (("h", 80), {"k": "v"}, "first")
